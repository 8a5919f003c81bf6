package main

// rows are the table, in its order.
var rows = []row{startRow, start16Row, echoRow, floodRow, pipeRow, msgpackRow, ptyRow}
