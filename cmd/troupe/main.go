// Command troupe runs programs for clients that come and go. "troupe serve" is the server, "troupe run"
// a client.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
)

const usage = `troupe supervises programs for clients that may lose their connection.

  troupe serve [--listen ws://127.0.0.1:7766]   serve clients over a websocket
  troupe run [--url URL] -- PROGRAM ARGS...     run a program, here or on a server
  troupe version                                print the version

"troupe serve -h" and "troupe run -h" list their flags.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "serve":
		os.Exit(serveMain(args))
	case "run":
		os.Exit(runMain(args, os.Stdin, os.Stdout, os.Stderr, embedded))
	case "version", "--version":
		fmt.Println("troupe", version())
	case "help", "-h", "--help":
		switch {
		case len(args) > 0 && args[0] == "serve":
			os.Exit(serveMain([]string{"-h"}))
		case len(args) > 0 && args[0] == "run":
			os.Exit(runMain([]string{"-h"}, os.Stdin, os.Stdout, os.Stdout, embedded))
		}
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "troupe: unknown command %q\n\n%s", os.Args[1], usage)
		os.Exit(2)
	}
}

// version returns the version of the main module, or "devel" if the binary records none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
