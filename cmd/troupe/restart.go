package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// restartTime is how long the old run may take to end, and the new run to begin.
	restartTime = time.Minute
	// lookAgain is the time between two looks at a process before its next run.
	lookAgain = 20 * time.Millisecond
)

func newStart(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "start [flags] [SESSION/]PROCESS...",
		Short: "Run processes again that have ended",
		Long: `Runs each process again after its end, under its name, with the arguments, the environment and all else that
it was started with. Its log goes on. The count of restarts begins anew. Returns when the new run
has begun. A process that runs is no error.

This is for programs of troupe run --detach, troupe run --restart and troupe up, for as long as their session
lives. New programs: troupe run.`,
		Example: `  troupe start web
  troupe start shop/web shop/worker`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd, t, args, func(ctx context.Context, p *client.Process, n *named) error {
				if !pick.ProgramEnded(&n.info.ProcessInfo) {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s runs already\n", show.Harmless(n.name))
					return err
				}
				return restart(ctx, cmd.OutOrStdout(), p, n)
			})
		},
	}
}

func newRestart(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "restart [flags] [SESSION/]PROCESS...",
		Short: "End the present run of processes, and begin the next",
		Long: `Ends the present run of each process and begins the next, whatever the restart policy says. A process that
has ended is run again, as by troupe start. Returns when the new run has begun. Only programs of
troupe run --detach, troupe run --restart and troupe up can be restarted.`,
		Example: `  troupe restart web
  troupe restart shop/web shop/worker`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd, t, args, func(ctx context.Context, p *client.Process, n *named) error {
				return restart(ctx, cmd.OutOrStdout(), p, n)
			})
		},
	}
}

// restart restarts a process, and tells the number of the new run when it has begun.
func restart(ctx context.Context, w io.Writer, p *client.Process, n *named) error {
	if err := p.Restart(ctx); err != nil {
		if kind := client.Kind(err); kind == protocol.KindEnded || kind == protocol.KindNoRestart {
			return errors.New("it cannot be run again: only programs of troupe run --detach, troupe run --restart and troupe up can")
		}
		return err
	}
	info, err := nextRun(ctx, p, n)
	if err != nil {
		return err
	}
	how := "has begun"
	if pick.ProgramEnded(&info.ProcessInfo) && info.Status != nil {
		how = "has ended: " + why.Ended(info.Status)
	}
	_, err = fmt.Fprintf(w, "%s: run %d %s\n", show.Harmless(n.name), info.Run, how)
	return err
}

// nextRun waits until the run after the one in n has begun.
func nextRun(ctx context.Context, p *client.Process, n *named) (info protocol.ProcessInfoResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	between := n.info.State == string(protocol.StateRestarting) // a run was about to begin, and the person means this run
	for {
		info, err := p.Info(ctx)
		switch {
		case err != nil:
			return info, fmt.Errorf("the old run has been told to end, and no new run has begun so far: %w; see troupe info", err)
		case info.Run > n.info.Run, between && info.State == string(protocol.StateRunning):
			return info, nil
		case pick.ProgramEnded(&info.ProcessInfo):
			return info, errors.New("the process has ended, and no new run has begun: see troupe info")
		}
		sleep(ctx, lookAgain)
	}
}
