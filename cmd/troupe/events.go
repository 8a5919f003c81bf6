package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/events"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Times of troupe events.
const (
	lookEvery = 500 * time.Millisecond // unless the server is slow
	lookLeast = 10 * time.Second       // however slow the server is
)

// eventsFlags are the flags of troupe events.
type eventsFlags struct {
	target *target.Flags
	since  string
	json   bool
}

func newEvents(t *target.Flags) *cobra.Command {
	o := &eventsFlags{target: t}
	cmd := &cobra.Command{
		Use:   "events [flags]",
		Short: "Print the events of sessions and processes",
		Long: `Prints a line for each event, until ^C: processes that start, become ready, exit, restart, are given up and
close; groups that change their state; sessions that come, get and lose their owner, and go. Times of
processes are those of the server.

Events of a process are told also if they happened while the connection was lost. Of groups and sessions
only the newest state is told.`,
		Example: `  troupe events
  troupe events --since start
  troupe events --since 10m --json | jq 'select(.kind == "exited")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			err := o.run(ctx, cmd.OutOrStdout())
			switch {
			case err == nil || errors.Is(err, syscall.EPIPE):
				return nil
			case ctx.Err() != nil:
				return interrupted(ctx)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.since, "since", "", "also tell the past: `WHEN` is start for all that the server knows, how long ago (10m), or a time (15:04)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON: an object in each line")
	return cmd
}

func (o *eventsFlags) run(ctx context.Context, w io.Writer) error {
	watcher, since := &events.Watcher{Past: o.since != ""}, time.Time{}
	if o.since != "" && o.since != "start" {
		after, at, err := logs.ParseSince(o.since, time.Now())
		if err != nil || after > 0 || at.IsZero() {
			return fmt.Errorf("--since is %q: write start, how long ago such as 10m, or a time such as 15:04", o.since)
		}
		since = at
	}
	source, err := newAsker(ctx, o.target)
	if err != nil {
		return exitError{1, err}
	}
	server := &eventServer{asker: source, sight: sight{target: o.target, observe: true, clients: make(map[string]*client.Client)}}
	defer source.close()
	defer server.sight.close()
	out, lost := show.To(w), false
	for {
		begun := time.Now()
		list, err := watcher.Look(ctx, server, time.Now())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !lost:
			fmt.Fprintf(os.Stderr, "troupe events: %s: %s\n", show.Lost, show.Harmless(err.Error()))
			lost = true
		case err == nil && lost:
			fmt.Fprintln(os.Stderr, "troupe events: "+show.Again)
			lost = false
		}
		for i := range list {
			if list[i].At.Before(since) {
				continue
			}
			if err := o.print(out, &list[i]); err != nil {
				return err
			}
		}
		select {
		case <-time.After(max(lookEvery, min(9*time.Since(begun), lookLeast))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// print prints an event as a line.
func (o *eventsFlags) print(out show.Out, e *events.Event) error {
	if o.json {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", line)
		}
		return err
	}
	name := e.SessionName
	if name == "" {
		name = e.SessionID[:min(8, len(e.SessionID))]
	}
	if e.ProcessID != "" {
		name += "/" + e.ProcessID
	}
	style := show.Plain
	switch {
	case e.Kind == events.Evicted, e.Status != nil && e.Status.ExitCode != 0:
		style = show.Bad
	case e.Kind == events.Restarted:
		style = show.Warn
	case e.Kind == events.Ready:
		style = show.Good
	}
	_, err := fmt.Fprintf(out, "%s  %s  %s\n", out.Paint(show.Dim, e.At.Local().Format("2006-01-02 15:04:05.000")),
		out.Paint(show.Note, show.Harmless(name)), out.Paint(style, show.Harmless(e.Text())))
	return err
}

// An eventServer asks a server for package events.
type eventServer struct {
	*asker
	sight sight
}

func (s *eventServer) Sessions(ctx context.Context) ([]protocol.SessionDetails, error) {
	return s.list(ctx, protocol.DetailProcesses)
}

func (s *eventServer) Events(ctx context.Context, r pick.Ref, after uint64) (protocol.ProcessReadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	p, err := s.sight.process(ctx, r, client.Options{ReconnectFor: -1})
	if err != nil {
		return protocol.ProcessReadResult{}, err
	}
	result, err := p.Read(ctx, &client.ReadOptions{After: after, Detail: protocol.ReadEvents})
	return result, s.leave(r.Session, err)
}

func (s *eventServer) Groups(ctx context.Context, session string) ([]protocol.GroupInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, err := s.sight.process(ctx, pick.Ref{Session: session}, client.Options{ReconnectFor: -1}); err != nil {
		return nil, err
	}
	groups, err := s.sight.clients[session].Groups(ctx)
	return groups, s.leave(session, err)
}

// leave closes the connection to a session after an error, and returns the error. The next look connects again.
func (s *eventServer) leave(session string, err error) error {
	if c := s.sight.clients[session]; err != nil && c != nil {
		go c.Close()
		delete(s.sight.clients, session)
	}
	return err
}
