package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// stopGrace is how long a program may take to end after troupe stop.
const stopGrace = 10 * time.Second

func newStop(t *target.Flags) *cobra.Command {
	grace := stopGrace
	cmd := &cobra.Command{
		Use:   "stop [flags] [SESSION/]PROCESS...",
		Short: "Stop processes: SIGTERM, and later SIGKILL",
		Long: `Asks each program to end with SIGTERM, or with the stop signal that it was started with, and kills it
with all its descendants if it has not ended in time. A stopped process is not restarted. Returns when
the programs have ended. A process that has ended already is no error.`,
		Example: `  troupe stop web
  troupe stop --timeout 1m shop/db shop/web`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grace < 0 {
				return wrong("--timeout is %v: choose a positive time, or 0 for SIGKILL at once", grace)
			}
			return end(cmd, t, args, grace)
		},
	}
	cmd.Flags().DurationVarP(&grace, "timeout", "t", stopGrace, "`TIME` between SIGTERM and SIGKILL; 0: SIGKILL at once")
	return cmd
}

func newKill(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "kill [flags] [SESSION/]PROCESS...",
		Short: "Kill processes with all their descendants",
		Long: `Kills each program with all its descendants, and returns when all are gone. A killed process is not
restarted. Other signals: troupe signal.`,
		Example: `  troupe kill web`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return end(cmd, t, args, 0) },
	}
}

// end ends processes, and prints how each ended.
func end(cmd *cobra.Command, t *target.Flags, names []string, grace time.Duration) error {
	return each(cmd, t, names, func(ctx context.Context, p *client.Process, n *named) error {
		return endOne(ctx, cmd.OutOrStdout(), p, n, grace)
	})
}

// endOne ends a process. Its descendants are ended also if the program itself has ended.
func endOne(ctx context.Context, w io.Writer, p *client.Process, n *named, grace time.Duration) error {
	if _, err := p.Terminate(ctx, grace); err != nil {
		return err
	}
	status, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	what := "has ended"
	if pick.ProgramEnded(&n.info.ProcessInfo) {
		what = "had ended before"
	}
	status.Reason = "" // the person knows
	_, err = fmt.Fprintf(w, "%s %s: %s\n", show.Harmless(n.name), what, why.Ended(&status))
	return err
}
