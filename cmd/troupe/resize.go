package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

func newResize(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:     "resize [flags] [SESSION/]PROCESS COLSxROWS",
		Short:   "Set the size of the terminal of a process",
		Long:    `Sets the size of a program's terminal. It stays until somebody types in a terminal that is attached.`,
		Example: `  troupe resize editor 120x40`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := parseSize(args[1])
			if err != nil {
				return err
			}
			return each(cmd, t, args[:1], func(ctx context.Context, p *client.Process, _ *named) error {
				return p.Resize(ctx, size)
			})
		},
	}
}

// parseSize reads COLSxROWS.
func parseSize(s string) (protocol.Size, error) {
	c, r, _ := strings.Cut(strings.ToLower(s), "x")
	cols, err1 := strconv.ParseUint(c, 10, 16)
	rows, err2 := strconv.ParseUint(r, 10, 16)
	if err1 != nil || err2 != nil || cols == 0 || rows == 0 {
		return protocol.Size{}, wrong("%q is not a size: write COLSxROWS, such as 120x40", s)
	}
	return protocol.Size{Cols: uint16(cols), Rows: uint16(rows)}, nil
}
