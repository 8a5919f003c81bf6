package main

import (
	"fmt"
	"os"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

// childArg as the first argument makes this program a program of the server: a stream of known bytes.
const childArg = "child"

func childMain(args []string) {
	if args[0] != "stream" {
		fmt.Fprintf(os.Stderr, "attacks: no such child program: %q\n", args)
		os.Exit(2)
	}
	stream.Main(args[1:])
	os.Exit(0)
}
