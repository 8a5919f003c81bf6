package main

import (
	"fmt"
	"os"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

// childArg as the first argument starts a child mode: this program then runs as a program of the
// server.
const childArg = "child"

// children are the child modes. None returns before its work is done.
var children = map[string]func(args []string) error{
	"stream":     func(args []string) error { stream.Main(args); return nil },
	"fork":       forkBomb,
	"undumpable": undumpable,
	"mount":      mountInside,
}

func childMain(args []string) {
	run, ok := children[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "attacks: no such child program: %q\n", args)
		os.Exit(2)
	}
	if err := run(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "attacks", args, err)
		os.Exit(1)
	}
	os.Exit(0)
}
