package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

// newRm returns the command that removes files of the server.
func newRm(t *target.Flags) *cobra.Command {
	var recursive, force bool
	cmd := &cobra.Command{
		Use:   "rm [flags] PATH...",
		Short: "Remove files of the server",
		Long: `Removes files and links of the server, and with -r directories with all their content. It does not ask for confirmation.
A link is removed, not its target. "/", the home directory, "." and ".." are refused.
` + remoteHelp,
		Example: `  troupe rm :work/old.tar
  troupe rm -r build:work/target`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return onPaths(t, "rm", args, func(r *remote, p string) error { return r.remove(p, recursive, force) }, nil)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories with their content")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "a path that does not exist is not an error")
	return cmd
}

func (r *remote) remove(p string, recursive, force bool) error {
	name := r.at(p)
	switch last := path.Base(strings.TrimRight(p, "/")); {
	case p == "":
		return errors.New("an empty path names nothing")
	case name == "." || name == r.at(r.home) || last == "." || last == "..":
		return fmt.Errorf("refused to remove %s: name the files in it", full(name))
	}
	info, err := r.fs.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && force {
		return nil
	}
	switch {
	case err != nil:
		return err
	case info.IsDir() && !recursive:
		return errors.New("it is a directory: -r removes it with its content")
	case info.IsDir():
		return r.fs.RemoveAll(name)
	}
	return r.fs.Remove(name)
}
