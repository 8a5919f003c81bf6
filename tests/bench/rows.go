package main

import "slices"

// rows are the table, in its order.
var rows = slices.Concat(latencyRows, outputRows, memoryRows, scaleRows, cutRows)
