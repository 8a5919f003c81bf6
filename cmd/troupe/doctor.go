//go:build unix

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/doctor"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// newDoctor returns the command troupe doctor. It exits with 1 if something keeps troupe from working.
func newDoctor(t *target.Flags) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check this machine and the server: limits, containment, users, ports",
		Long: `Checks what troupe needs of this machine, and the chosen server. Each line is ok, warn
(something is missing, or works less well) or FAIL (troupe does not work), and tells what to do.
Starts no server. Exits with 1 if a line fails.`,
		Example: `  troupe doctor
  troupe doctor --server build --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.Note = func(string) {}
			lines := doctor.Check(doctor.Look(cmd.Context(), t))
			var err error
			if asJSON {
				err = show.JSON(cmd.OutOrStdout(), lines)
			} else {
				err = printLines(show.To(cmd.OutOrStdout()), lines)
			}
			if err == nil && doctor.Failed(lines) {
				return exitError{exitFailure, nil} // the lines tell why
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of about (machine or server), check, status, found and advice")
	return cmd
}

func printLines(o show.Out, lines []doctor.Line) error {
	widest := 0
	for _, l := range lines {
		widest = max(widest, show.Width(l.Check))
	}
	var b strings.Builder
	for i, l := range lines {
		if i == 0 || l.About != lines[i-1].About {
			title := map[doctor.About]string{doctor.Machine: "This machine, for a server and its programs:", doctor.Server: "The chosen server:"}[l.About]
			fmt.Fprintln(&b, o.Paint(show.Bold, title))
		}
		word, style := string(l.Status), show.Good
		switch l.Status {
		case doctor.Warn:
			style = show.Warn
		case doctor.Fail:
			word, style = "FAIL", show.Bad
		}
		fmt.Fprintf(&b, "%s  %-*s  %s\n", o.Paint(style, fmt.Sprintf("%-4s", word)), widest, l.Check, l.Found)
		if l.Advice != "" {
			fmt.Fprintf(&b, "      %s\n", o.Paint(show.Bold, "→ "+l.Advice))
		}
	}
	_, err := o.Write([]byte(b.String()))
	return err
}
