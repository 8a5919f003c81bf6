package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// recentReach is how many bytes of output, about, are looked at for the last lines: a full-screen program writes no line for hours.
	recentReach = 256 << 10
	// recentWidth is the length, in cells, at which a line is cut where no terminal has a width.
	recentWidth = 1000
)

// printRecent prints the last events of a process, and the last lines of its output, so many of each. What this identity may not read,
// and what an older server does not know, is left out.
func printRecent(ctx context.Context, s *sight, n *named, most int, out show.Out) error {
	if most == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p, err := s.process(ctx, n.Ref, client.Options{ReconnectFor: -1, HoldBack: true})
	if err != nil {
		return unlessWithheld(err)
	}
	events, err := lastEvents(ctx, s.clients[n.Session], n.info.Instance, most)
	errs := unlessWithheld(err)
	section(out, "last events", func(p *logs.Printer) {
		p.News = true
		for i := range events {
			_ = p.Print(0, logs.Line{At: time.UnixMicro(int64(events[i].AtUs)), Text: []byte(eventText(&events[i]))}) // a buffer has no errors
		}
	})
	if n.info.NextSeq <= 1 {
		return errs // there is no output
	}
	section(out, "last lines", func(to *logs.Printer) {
		source := logs.Source{Read: p.Read, Last: n.info.NextSeq - 1}
		want := logs.Options{Tail: most, Reach: recentReach, Bare: true}
		err := logs.Merge(ctx, []logs.Source{source}, want, to, func(_ int, err error) { errs = errors.Join(errs, unlessWithheld(err)) })
		errs = errors.Join(errs, err)
	})
	return errs
}

// lastEvents returns the last events of the process with an instance, at most so many, the oldest first.
func lastEvents(ctx context.Context, c *client.Client, instance string, most int) ([]protocol.ServerEvent, error) {
	r, err := c.ServerEvents(ctx, protocol.ServerEventsParams{AfterUs: new(uint64), Instance: instance, Last: uint64(most)})
	if slices.ContainsFunc(r.Events, func(e protocol.ServerEvent) bool { return e.Instance != instance || instance == "" }) {
		return nil, nil // an older server answers with the first events of all processes
	}
	return r.Events, err
}

// section prints a heading and the lines that fill prints, if there are any.
func section(out show.Out, heading string, fill func(*logs.Printer)) {
	var lines bytes.Buffer
	to := out
	to.Writer = &lines
	p := &logs.Printer{Out: to, Notes: io.Discard, Names: []string{""}, Timestamps: true, Cut: cmp.Or(out.Width, recentWidth)}
	fill(p)
	_ = p.End() // a buffer has no errors
	if lines.Len() > 0 {
		fmt.Fprintf(out, "\n%s\n%s", out.Paint(show.Note, heading), &lines)
	}
}

// unlessWithheld returns err, unless this identity may not send the request, or an older server does not know it.
func unlessWithheld(err error) error {
	refused, ok := errors.AsType[*protocol.Error](err)
	if ok && (refused.Code == protocol.CodeObserver || refused.Code == protocol.CodeMethodNotFound) {
		return nil
	}
	return err
}
