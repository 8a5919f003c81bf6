package connection

// All is the table of all methods, with those of package peer. A file of package connection_test sets it: peer imports this package.
var All *Table
