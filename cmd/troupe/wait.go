package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

func newWait(t *target.Flags) *cobra.Command {
	quiet := false
	cmd := &cobra.Command{
		Use:   "wait [flags] [SESSION/]PROCESS...",
		Short: "Wait for the end of processes",
		Long: `Waits until each process has ended for good, after its last restart, even across lost connections. Prints how
each ended, in the order of their ends. The exit code is that of the program, 128+N if signal N ended
it. Of several programs, the first in the command line that failed gives the exit code. It is 125 if
troupe failed, or if there is no such process.`,
		Example: `  troupe wait migrate && troupe run ./next
  troupe wait worker-1 worker-2`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: exitsAsProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			tell := func(n *named, s *protocol.ExitStatus) {
				if !quiet {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", show.Harmless(n.name), why.Ended(s))
				}
			}
			return untilSignal(cmd, func(ctx context.Context) error { return exit(wait(ctx, t, args, tell)) })
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

// wait waits for processes, and returns the exit code of troupe wait.
func wait(ctx context.Context, t *target.Flags, names []string, tell func(*named, *protocol.ExitStatus)) (code int, err error) {
	s, err := look(ctx, t, protocol.DetailProcesses)
	if err != nil {
		return exitFailed, err
	}
	defer s.close()
	s.observe = true
	found, err := s.find(names)
	if err != nil {
		return exitFailed, err
	}
	var mu sync.Mutex // guards tell, codes and errs
	var waits sync.WaitGroup
	codes, errs := make([]int, len(found)), error(nil)
	for i := range found {
		n := &found[i]
		p, err := s.process(ctx, n.Ref, client.Options{ReconnectFor: client.Forever})
		if err != nil {
			return exitFailed, fmt.Errorf("%s: %w", show.Harmless(n.name), err)
		}
		waits.Go(func() {
			status, err := p.Wait(ctx)
			mu.Lock()
			defer mu.Unlock()
			if codes[i] = status.ExitCode; err == nil {
				tell(n, &status)
				return
			}
			codes[i] = exitFailed
			if errors.Is(err, client.ErrSessionGone) {
				err = fmt.Errorf("%w; how the process ended is not known", err)
			}
			errs = errors.Join(errs, fmt.Errorf("%s: %w", show.Harmless(n.name), err))
		})
	}
	waits.Wait()
	if errs != nil {
		return exitFailed, errs
	}
	return cmp.Or(codes...), nil
}
