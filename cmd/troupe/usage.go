package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// family makes cmd the parent of commands. Without one of them, cmd prints its help.
func family(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// excludes makes a command refuse its two flags together.
func excludes(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other) // for completion: PreRunE comes before cobra's own error
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return wrong("--%s and --%s exclude each other: leave one out", one, other)
		}
		return nil
	}
}

// plainArguments makes cmd and its subcommands name the arguments they expect when the arguments are wrong. Commands
// with subcommands keep the errors of cobra, which suggest a subcommand.
func plainArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		plainArguments(sub)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		given := "no arguments"
		if len(args) > 0 {
			given = fmt.Sprintf("the arguments %q", args)
		}
		_, want, _ := strings.Cut(cmd.UseLine(), " [flags]")
		if want = strings.TrimSpace(want); want == "" {
			want = "none"
		}
		return wrong("%s given, expected %s", given, want)
	}
}
