package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// newConfig returns the commands about files.
func newConfig() *cobra.Command {
	o := new(upFlags)
	check := &cobra.Command{
		Use:   "check [flags] [FILE] [PROCESS...]",
		Short: "Explain the file of troupe up, or print its faults",
		Long: `Reads troupe.yaml or Procfile as troupe up does, and explains it: what runs in which order, when it is restarted,
and every value that the file leaves open. Starts nothing, and asks no server. If the file is wrong, every fault is
printed with its line, and the exit code is 1.`,
		Example: `  troupe config check
  troupe config check shop/troupe.yaml web`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, names, err := o.read(args)
			if err != nil {
				return err
			}
			programs, err := p.Select(names, o.namespaces)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), show.HarmlessText(p.Explain(programs)))
			return nil
		},
	}
	check.Flags().StringVarP(&o.file, "file", "f", "", "read this `FILE`")
	check.Flags().StringVarP(&o.project, "project", "p", "", "the `NAME` of the project")
	check.Flags().StringSliceVarP(&o.namespaces, "namespace", "n", nil, "explain the processes of this `NAMESPACE`")
	return family(&cobra.Command{
		Use:     "config",
		Short:   "Check and explain the file of troupe up",
		Example: `  troupe config check`,
	}, check)
}
