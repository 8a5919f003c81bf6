//go:build unix

package main

import (
	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	_ "github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program/early"
)

// newLoadProgram returns the command that troupe load starts on a server.
func newLoadProgram() *cobra.Command {
	return &cobra.Command{
		Use:                program.Command + " MODE [ARGUMENT…]",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := program.Main(args); code != 0 {
				return exitError{code, nil}
			}
			return nil
		},
	}
}
