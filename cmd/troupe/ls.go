package main

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// newLs returns the command that lists files of the server.
func newLs(t *target.Flags) *cobra.Command {
	var long, all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [flags] [PATH...]",
		Short: "List files of the server",
		Long: `Lists directories of the server, or single files; without a path, the home directory.
` + remoteHelp,
		Example: `  troupe ls
  troupe ls -l :/var/log
  troupe ls --json build:work`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			listed := []fileJSON{}
			return onPaths(t, "ls", args, func(r *remote, p string) error {
				infos, err := r.list(p, all)
				if err != nil {
					return err
				}
				if asJSON {
					for _, info := range infos {
						listed = append(listed, describeFile(path.Join("/", r.at(p), info.Name()), info))
					}
					return nil
				}
				if len(args) > 1 {
					fmt.Fprintf(stdout, "%s:\n", show.Harmless(p))
				}
				return printFiles(infos, long)
			}, jsonAtEnd(asJSON, &listed))
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "show mode, size, time of the last change, and targets of links")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show names that begin with a dot, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: path, name, kind, mode, size, modified and target of each file")
	return cmd
}

// list returns the entries of a directory, or a single file.
func (r *remote) list(p string, all bool) (infos []fs.FileInfo, err error) {
	name := r.at(p)
	info, err := r.fs.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if behind, behindErr := r.fs.Stat(name); behindErr == nil && behind.IsDir() {
			info = behind
		}
	}
	if err != nil || !info.IsDir() {
		return []fs.FileInfo{info}, err
	}
	entries, err := r.fs.ReadDir(name)
	for _, e := range entries {
		if info, infoErr := e.Info(); infoErr == nil && (all || !strings.HasPrefix(e.Name(), ".")) {
			infos = append(infos, info)
		}
	}
	return infos, err
}

func printFiles(infos []fs.FileInfo, long bool) error {
	if !long {
		for _, info := range infos {
			suffix := ""
			if info.IsDir() {
				suffix = "/"
			}
			if _, err := fmt.Fprintln(stdout, show.Harmless(info.Name())+suffix); err != nil {
				return err
			}
		}
		return nil
	}
	table := show.Table{Columns: []show.Column{{Title: "MODE"}, {Title: "SIZE", Right: true}, {Title: "MODIFIED"}, {Title: "NAME"}}}
	for _, info := range infos {
		name := show.Harmless(info.Name())
		if to := describeFile("", info).Target; to != "" {
			name += " -> " + show.Harmless(to)
		}
		table.Row(modeText(info.Mode()), show.Bytes(info.Size()), info.ModTime().Format("2006-01-02 15:04:05"), name)
	}
	return table.Write(show.To(stdout))
}
