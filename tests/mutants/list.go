package main

// mutants are the changes that the tests of each package must notice.
var mutants = []mutant{}
