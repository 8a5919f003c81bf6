package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// An errInterrupted is the cause of a context that a signal has ended.
type errInterrupted struct{ syscall.Signal }

func (e errInterrupted) Error() string { return "interrupted: " + e.Signal.String() }

// interruptible returns a context that ^C, SIGTERM and SIGHUP end. A second signal ends troupe.
func interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(errInterrupted{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// untilSignal runs a command that ^C, SIGTERM and SIGHUP end: it then exits with 128+N. A reader that has closed its pipe has read what it
// wanted.
func untilSignal(cmd *cobra.Command, do func(context.Context) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	err := do(ctx)
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case isUnread(err) && stdout.unread(): // not of a connection that the server has closed
		return nil
	}
	return err
}

// interrupted returns the error of a command that a signal has ended. nil: no signal has ended ctx.
func interrupted(ctx context.Context) error {
	if sig, ok := context.Cause(ctx).(errInterrupted); ok {
		return exitError{exitSignal + int(sig.Signal), nil}
	}
	return nil
}
