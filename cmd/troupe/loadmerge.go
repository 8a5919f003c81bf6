//go:build unix

package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// newLoadMerge returns the command troupe load merge. It exits as troupe load does.
func newLoadMerge() *cobra.Command {
	o := new(loadFlags)
	cmd := &cobra.Command{
		Use:   "merge [flags] RESULT RESULT...",
		Short: "Add up the results of loads that ran at the same time on several machines",
		Long: `Reads the files that troupe load --json wrote on several machines, and prints one report: counts and histograms are added up, and each
finding is named by its file. The runs must have the same plan, and overlap in time by the clocks of their machines.

Nobody has counted the processes of all machines at the same moment, so the report has the peak of each run, and their sum
as an upper bound.

The exit code is 0 if each run was a success and each --slo is met by the whole, 1 if not, and 125 if the files cannot
be added up.`,
		Example: `  troupe load merge a.json b.json --html both.html
  troupe load merge *.json --json all.json --slo 'echo.p99<50ms'`,
		Annotations: exitsAsProgram,
		Args:        cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := o.checkFiles(); err != nil {
				return err
			}
			return o.merge(files, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.registerReport(cmd.Flags())
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	return cmd
}

// merge adds up the results in files, and prints and writes the report.
func (o *loadFlags) merge(files []string, stdout, stderr io.Writer) error {
	var parts []result.Part
	var errs []error
	for _, file := range files {
		r, err := readResult(file)
		parts, errs = append(parts, result.Part{File: file, Result: r}), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return exitError{exitFailed, err}
	}
	res, err := result.Merge(parts)
	if err != nil {
		return exitError{exitFailed, err}
	}
	o.judge(res)
	if err := o.report(stdout, stderr, res, nil); err != nil {
		return exitError{exitFailed, err}
	}
	if !res.Right() {
		return exitError{1, nil}
	}
	return nil
}
