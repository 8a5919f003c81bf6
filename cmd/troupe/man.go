package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command troupe man.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man [flags] DIRECTORY",
		Short: "Write the manual pages of all commands",
		Long: `Writes a manual page for each command into a directory, which must exist: troupe.1,
troupe-run.1 and so on. The pages of a version are the same each time.`,
		Example: `  troupe man /usr/local/share/man/man1
  troupe man . && man ./troupe-run.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
				return exitError{1, fmt.Errorf("%s is not a directory: make it first", args[0])}
			}
			date := madeAt(os.Getenv)
			root := cmd.Root()
			withoutTag(root)
			err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "troupe " + version(), Manual: "troupe", Date: &date}, args[0])
			if err != nil {
				return exitError{1, fmt.Errorf("write the manual pages: %w", err)}
			}
			return nil
		},
	}
}

// withoutTag keeps the time of the generation out of the pages.
func withoutTag(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		withoutTag(sub)
	}
}

// madeAt returns the date of the manual pages: that of SOURCE_DATE_EPOCH (reproducible-builds.org), or else of the
// commit from which this program was built, or else the beginning of Unix time.
func madeAt(env func(string) string) time.Time {
	if n, err := strconv.ParseInt(env("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					return t.UTC()
				}
			}
		}
	}
	return time.Unix(0, 0).UTC()
}
