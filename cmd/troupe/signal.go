package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/sig"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
)

func newSignal(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "signal [flags] [SESSION/]PROCESS... SIGNAL",
		Short: "Send a signal to processes",
		Long: `Sends a signal to the process group of each process. SIGNAL is a name such as HUP, SIGHUP or hangup, or a
number as on Linux.

In a terminal, the foreground job has a process group of its own: type ^C there with troupe send.`,
		Example: `  troupe signal web HUP
  troupe signal shop/web shop/worker USR1`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sig.Parse(args[len(args)-1])
			if err != nil {
				return usageError{err}
			}
			return each(cmd, t, args[:len(args)-1], func(ctx context.Context, p *client.Process, n *named) error {
				if err := n.alive(); err != nil {
					return err
				}
				return p.Signal(ctx, s)
			})
		},
	}
}

// alive returns an error if the program has ended.
func (n *named) alive() error {
	if !pick.ProgramEnded(&n.info.ProcessInfo) {
		return nil
	}
	how := ""
	if n.info.Status != nil {
		how = ": " + why.Ended(n.info.Status)
	}
	return fmt.Errorf("the program has ended%s; troupe ps lists those that run", how)
}
