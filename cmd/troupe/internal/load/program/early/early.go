//go:build unix

// Package early runs the programs of package program before the other packages of the binary are initialized.
//
// The initialization of all packages of troupe takes 5 ms and 2 MiB, and a server under load may run thousands of programs. Go initializes a
// package as soon as its imports are, in the order of import paths. So early and package program import little.
package early

import (
	"os"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == program.Command {
		os.Exit(program.Main(os.Args[2:]))
	}
}
