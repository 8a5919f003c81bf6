package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

// newCat returns the command that prints files of the server.
func newCat(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "cat [flags] PATH...",
		Short: "Print files of the server",
		Long: `Prints files of the server as they are, one after the other. Files of any size are
streamed, and resume after a lost connection.
` + remoteHelp,
		Example: `  troupe cat :/etc/hostname
  troupe cat build:dump.sql.gz | gunzip | less`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return onPaths(t, "cat", args, func(r *remote, p string) error {
				f, err := r.fs.Open(r.at(p))
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = io.Copy(stdout, f)
				return err
			}, nil)
		},
	}
}
