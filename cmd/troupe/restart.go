package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// restartTime is how long the old run may take to end, and the new run to begin.
	restartTime = time.Minute
	// lookAgain is the time between two looks at a process before its next run.
	lookAgain = 20 * time.Millisecond
)

func newRestart(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "restart [flags] [SESSION/]PROCESS...",
		Short: "End the present run of processes, and begin the next",
		Long: `Ends the present run of each process and begins the next, whatever the restart policy says. Returns when
the new run has begun. Only a process that was started with a restart policy can be restarted:
troupe run --detach --restart.`,
		Example: `  troupe restart web
  troupe restart shop/web shop/worker`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(cmd.Context(), t, args, func(ctx context.Context, p *client.Process, n *named) error {
				run, err := restart(ctx, p, n)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: run %d has begun\n", show.Harmless(n.name), run)
				return err
			})
		},
	}
}

// restart restarts a process, and returns the number of the new run when it has begun.
func restart(ctx context.Context, p *client.Process, n *named) (run int, err error) {
	if err := n.alive(); err != nil {
		return 0, err
	}
	if err := p.Restart(ctx); err != nil {
		if refused, ok := errors.AsType[*protocol.Error](err); ok && refused.Code == protocol.CodeInvalidRequest {
			return 0, fmt.Errorf("%w; a process that was started without a restart policy cannot be restarted: stop it, and start it with troupe run --detach --restart", err)
		}
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	ran := n.info.State == string(protocol.StateRunning) // otherwise a run was about to begin, and the person means this run
	for {
		info, err := p.Info(ctx)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the old run has been told to end, and no new run has begun so far: %w; see troupe info", err)
		case pick.ProgramEnded(&info.ProcessInfo):
			return 0, errors.New("the process has ended, and no new run has begun: see troupe info")
		case info.State == string(protocol.StateRunning) && (!ran || info.Run > n.info.Run):
			return info.Run, nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
}
