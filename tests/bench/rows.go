package main

import "slices"

// rows are the rows of the table in order.
var rows = slices.Concat(latencyRows, snapshotRows, outputRows, memoryRows, scaleRows, cutRows)
