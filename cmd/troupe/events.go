package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
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
close; groups that change their state; sessions that open, gain or lose their owner, and end; a server that was replaced. The
times are those of the server.

Events are printed even if they happened while the connection was lost. The server keeps the last 8,192 events. If it
has forgotten some before they were read, a line on stderr says so, and with --json an object of the kind lost.`,
		Example: `  troupe events
  troupe events --since start
  troupe events --since 10m --json | jq 'select(.kind == "exited")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilSignal(cmd, func(ctx context.Context) error { return o.run(ctx, cmd.OutOrStdout()) })
		},
	}
	cmd.Flags().StringVar(&o.since, "since", "", "also print past events: `WHEN` is start for all that the server knows, how long ago (10m), or a time (15:04)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON: an object in each line")
	return cmd
}

// from returns the time of --since, for protocol.ServerEventsParams.
func (o *eventsFlags) from(now time.Time) (*uint64, error) {
	switch o.since {
	case "":
		return nil, nil
	case "start":
		return new(uint64), nil
	}
	after, at, err := logs.ParseSince(o.since, now)
	if err != nil || after > 0 || at.IsZero() {
		return nil, wrong("--since is %q: write start, how long ago such as 10m, or a time such as 15:04", o.since)
	}
	us := uint64(max(at.UnixMicro(), 0))
	return &us, nil
}

func (o *eventsFlags) run(ctx context.Context, w io.Writer) error {
	after, err := o.from(time.Now())
	if err != nil {
		return err
	}
	server, err := newAsker(ctx, o.target)
	if err != nil {
		return err
	}
	defer server.close()
	var refused *protocol.Error
	out, read := show.To(w), false
	var lost time.Time // zero: the connection is there
	told := false      // that it is lost
	for {
		r, err := server.events(ctx, after)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.Code == protocol.CodeMethodNotFound:
			return err
		case err != nil:
			if lost.IsZero() {
				lost = time.Now()
			}
			away := time.Since(lost)
			if away >= shortCut && !told {
				fmt.Fprintf(os.Stderr, "troupe events: %s: %s\n", show.Lost, show.Harmless(show.Words(err)))
				told = true
			}
			sleep(ctx, min(max(away, shortCut/20), shortCut))
			continue
		case told:
			fmt.Fprintln(os.Stderr, "troupe events: "+show.Again)
		}
		lost, told = time.Time{}, false
		if read && r.WholeUs > *after {
			if err := o.tellLost(out, *after, r.WholeUs); err != nil {
				return err
			}
		}
		for i := range r.Events {
			if err := o.print(out, &r.Events[i]); err != nil {
				return err
			}
		}
		after, read = &r.NextUs, true
	}
}

// events asks for events, and waits for one as long as a connection may be silent. Without a time the answer has only the present time: a cut before
// that answer loses no event.
func (a *asker) events(ctx context.Context, after *uint64) (protocol.ServerEventsResult, error) {
	params := protocol.ServerEventsParams{AfterUs: after}
	if after != nil {
		params.WaitMs = uint64(answerTime.Milliseconds())
	}
	return ask(ctx, a, 2*answerTime, func(ctx context.Context, c *client.Client) (protocol.ServerEventsResult, error) {
		return c.ServerEvents(ctx, params)
	})
}

// An eventLine is a line of troupe events --json.
type eventLine struct {
	At time.Time `json:"at"`
	protocol.ServerEvent
}

// eventsLost is the kind of an eventLine that stands for forgotten events.
const eventsLost protocol.ServerEventKind = "lost"

// tellLost says that events between two times were lost.
func (o *eventsFlags) tellLost(out show.Out, fromUs, toUs uint64) error {
	reason := fmt.Sprintf("events from %s to %s may be missing: they came faster than they were read, or the server was restarted or replaced", clock(fromUs), clock(toUs))
	fmt.Fprintln(os.Stderr, "troupe events: "+reason)
	if !o.json {
		return nil
	}
	return o.print(out, &protocol.ServerEvent{AtUs: toUs, Kind: eventsLost, Reason: reason})
}

func clock(us uint64) string {
	return time.UnixMicro(int64(us)).Local().Format("2006-01-02 15:04:05.000")
}

// print prints an event as a line.
func (o *eventsFlags) print(out show.Out, e *protocol.ServerEvent) error {
	if o.json {
		line, err := json.Marshal(eventLine{time.UnixMicro(int64(e.AtUs)).UTC(), *e})
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", line)
		}
		return err
	}
	name := cmp.Or(e.SessionName, e.SessionID[:min(8, len(e.SessionID))])
	switch {
	case e.Kind == protocol.ServerReplaced:
		name = "server"
	case e.ProcessID != "":
		name += "/" + e.ProcessID
	}
	style := show.Plain
	switch {
	case e.Kind == protocol.ServerEvicted, e.Status != nil && e.Status.ExitCode != 0:
		style = show.Bad
	case e.Kind == protocol.ServerRestarted, e.Kind == protocol.ServerReplaced:
		style = show.Warn
	case e.Kind == protocol.ServerReady:
		style = show.Good
	}
	_, err := fmt.Fprintf(out, "%s  %s  %s\n", out.Paint(show.Dim, clock(e.AtUs)),
		out.Paint(show.Note, show.Harmless(name)), out.Paint(style, show.Harmless(eventText(e))))
	return err
}

// eventText describes an event in words.
func eventText(e *protocol.ServerEvent) string {
	text, reason := string(e.Kind), e.Reason
	switch e.Kind {
	case protocol.ServerStarted:
		reason = strings.Join(e.Argv, " ")
	case protocol.ServerExited:
		if e.Status != nil {
			return fmt.Sprintf("exited: run %d, %s", e.Run, why.Ended(e.Status))
		}
	case protocol.ServerRestarted, protocol.ServerReady:
		text = fmt.Sprintf("%s: run %d", e.Kind, e.Run)
	case protocol.ServerReplaced:
		return fmt.Sprintf("replaced: %s; nobody served for %s", reason, gap(e.GapMs))
	case protocol.ServerEvicted:
		text = "given up"
	case protocol.ServerClosed:
		text = why.State(string(protocol.StateClosed), nil)
	case protocol.ServerGroup:
		text = "group " + e.GroupID + ": " + e.State
	case protocol.ServerOpened, protocol.ServerAttached, protocol.ServerDetached, protocol.ServerClosing, protocol.ServerGone:
		text = "session " + string(e.Kind)
	}
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
