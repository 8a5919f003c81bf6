package main

import (
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// newStat returns the command that describes files of the server.
func newStat(t *target.Flags) *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "stat [flags] PATH...",
		Short: "Describe files of the server",
		Long: `Prints kind, mode, size and time of files of the server: of a link itself, unless --follow is given.
` + remoteHelp,
		Example: `  troupe stat :/etc/hostname
  troupe stat --json build:work/result.tar`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all := []fileJSON{}
			return onPaths(t, "stat", args, func(r *remote, p string) error {
				name := r.at(p)
				stat := r.fs.Lstat
				if follow {
					stat = r.fs.Stat
				}
				info, err := stat(name)
				if err != nil {
					return err
				}
				f := describeFile(path.Join("/", name), info)
				if asJSON {
					all = append(all, f)
					return nil
				}
				fmt.Fprintf(stdout, "path      %s\nkind      %s\n", show.Harmless(f.Path), f.Kind)
				if f.Target != "" {
					fmt.Fprintf(stdout, "target    %s\n", show.Harmless(f.Target))
				}
				_, err = fmt.Fprintf(stdout, "mode      %s %s\nsize      %d (%s)\nmodified  %s\n", f.Mode, modeText(info.Mode()), f.Size, show.Bytes(f.Size), info.ModTime().Format(time.RFC3339Nano))
				return err
			}, jsonAtEnd(asJSON, &all))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "L", false, "describe the targets of links")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: path, name, kind, mode, size, modified and target of each file")
	return cmd
}
