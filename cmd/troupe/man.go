package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
				return fmt.Errorf("%s is not a directory: make it first", args[0])
			}
			if err := writePages(cmd.Root(), args[0], madeAt(os.Getenv)); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			return nil
		},
	}
}

// writePages writes the pages of cmd and of its subcommands into dir.
func writePages(cmd *cobra.Command, dir string, date time.Time) error {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(sub, dir, date); err != nil {
				return err
			}
		}
	}
	cmd.InitDefaultHelpFlag()
	return os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(manPage(cmd, date)), 0o666)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the page of a command, in the macros of man(7).
func manPage(cmd *cobra.Command, date time.Time) string {
	var b strings.Builder
	out := func(format string, texts ...any) {
		for i, text := range texts {
			texts[i] = roff.Replace(text.(string))
		}
		fmt.Fprintf(&b, format, texts...)
	}
	lines := func(text string) {
		for line := range strings.SplitSeq(text, "\n") {
			if line == "" {
				out(".PP\n")
			} else {
				out("\\&%s\n", line) // after \& a dot begins no macro
			}
		}
	}
	out(".TH \"%s\" 1 \"%s\" \"troupe %s\" troupe\n.nh\n", strings.ToUpper(pageName(cmd)), date.Format("Jan 2006"), version())
	out(".SH NAME\n%s \\- %s\n", pageName(cmd), cmd.Short)
	out(".SH SYNOPSIS\n\\fB%s\\fR%s\n", cmd.CommandPath(), strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath()))
	if cmd.HasAvailableSubCommands() {
		out(".br\n\\fB%s\\fR COMMAND\n", cmd.CommandPath())
	}
	out(".SH DESCRIPTION\n")
	lines(cmp.Or(cmd.Long, cmd.Short+"."))
	if cmd.HasAvailableSubCommands() {
		out(".SH COMMANDS\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out(".TP\n\\fB%s\\fR(1)\n", pageName(sub))
			lines(sub.Short)
		}
	}
	options := func(title string, flags *pflag.FlagSet) {
		if flags.HasAvailableFlags() {
			out(".SH %s\n", title)
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			out(".TP\n")
			if f.Shorthand != "" {
				out("\\fB\\-%s\\fR, ", f.Shorthand)
			}
			out("\\fB\\-\\-%s\\fR", f.Name)
			takes, text := pflag.UnquoteUsage(f)
			if takes != "" {
				out(" \\fI%s\\fR", takes)
			}
			out("\n")
			lines(text + defaultOf(f))
		})
	}
	options("OPTIONS", cmd.NonInheritedFlags())
	options("OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		out(".SH EXAMPLES\n.EX\n")
		lines(cmd.Example)
		out(".EE\n")
	}
	if cmd.HasParent() {
		out(".SH SEE ALSO\n\\fB%s\\fR(1)\n", pageName(cmd.Parent()))
	}
	return b.String()
}

// defaultOf returns the default of a flag in parentheses, after a space; "": the flag has no default that says something.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// roff escapes the characters that have a meaning in a page, or that man would replace by typographic ones.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

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
