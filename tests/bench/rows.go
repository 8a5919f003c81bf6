package main

import "slices"

// rows are the rows of the table in order.
var rows = slices.Concat(latencyRows, sandboxRows, snapshotRows, outputRows, memoryRows, scaleRows, watchRows, gatewayRows)
