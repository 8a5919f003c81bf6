package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Options choose a part of the output of a process.
type Options struct {
	Follow bool            // go on with the output to come, until the process closes
	After  uint64          // only output with a greater seq
	Since  time.Time       // only lines of this time or later; zero: all
	Tail   int             // only this many of the last lines held by the server; negative: all
	Stream protocol.Stream // only this stream; zero: all
	Chunks bool            // chunks as they come in place of lines
}

// Times.
const (
	// pollTime is how long a read waits for output.
	pollTime = 20 * time.Second
	// fullTime is how long a follower reads nothing before Source.Full is asked.
	fullTime = 2 * time.Second
	// openTime is how long a line without an end waits for its end before the line is shown.
	openTime = 200 * time.Millisecond
)

// Read reads output as Process.Read of package client does. Read reads of one process: see Process.Of.
type Read func(context.Context, *client.ReadOptions) (protocol.ProcessReadResult, error)

// A Source is a process whose output is read.
type Source struct {
	Read Read
	// Last is the last seq of the process when its description was read. Zero: unknown, and Options.Tail makes Merge
	// read everything held by the server.
	Last uint64
	// Full says why the program cannot write because its output is unread. Empty: the program can. Nil: nobody asks.
	Full func(context.Context) string
}

// An item is a line of a source, or the news of a source: caught or done.
type item struct {
	line   *Line
	caught bool // the source has sent all output held by the server
	done   bool // nothing follows
	err    error
}

// source reads the output of a process, and sends items. With Follow, source returns when the process closes;
// otherwise when all output held by the server was sent. send returns an error at the end of ctx.
func source(ctx context.Context, from Source, o Options, send func(item) error) error {
	s := &reader{Options: o, send: send, lines: Assembler{chunks: o.Chunks}, after: o.After, end: from.Last, history: true, tail: tail{most: o.Tail}}
	if o.Tail >= 0 {
		if err := s.seek(ctx, from); err != nil {
			return err
		}
	}
	for {
		done, err := s.step(ctx, from)
		if done || err != nil {
			return err
		}
	}
}

// errGone is the end of a process that the server has forgotten.
var errGone = errors.New("the server has forgotten the process before all of its output was read, or another process has its name by now: troupe ps --all lists what there is")

// A reader is the state of source.
type reader struct {
	Options
	send    func(item) error
	lines   Assembler
	tail    tail
	after   uint64 // all entries up to this seq were read
	end     uint64 // Source.Last: output after this seq is news, of a program that may write faster than s reads; 0: unknown
	began   bool   // something was read
	history bool   // some of the output held by the server was not read yet
	asked   bool   // Source.Full was asked since the last output
	err     error  // of send
}

const (
	firstSpan = 64 // entries from the end of a log in which seek first looks for lines
	openLines = 4  // lines of three streams that may begin before a span, and an open line at its end
	growth    = 4  // of the span
)

// seek moves forward to a place that has the last Tail lines after it, if the log is long. seek looks for the place
// from the end of the log on backwards, because reading a whole log takes long.
func (s *reader) seek(ctx context.Context, from Source) error {
	for span := uint64(firstSpan); from.Last > s.After+span; span *= growth {
		lines, err := s.count(ctx, from, from.Last-span)
		if err != nil {
			return err
		}
		if lines >= s.Tail+openLines {
			s.after = from.Last - span
			return nil
		}
	}
	return nil
}

// count returns how many lines of the wanted stream end after the entry with the seq after, up to from.Last.
func (s *reader) count(ctx context.Context, from Source, after uint64) (lines int, err error) {
	for after < from.Last {
		r, err := from.Read(ctx, &client.ReadOptions{After: after, Detail: protocol.ReadTimes, MaxBytes: 1 << 20})
		if err != nil || r.NextSeq <= after+1 {
			return lines, err
		}
		for _, c := range r.Chunks {
			if s.Stream == 0 || c.Stream == s.Stream {
				lines += bytes.Count(c.Chunk, []byte{'\n'})
			}
		}
		after = r.NextSeq - 1
	}
	return lines, nil
}

// step makes a read. done: nothing follows.
func (s *reader) step(ctx context.Context, from Source) (done bool, err error) {
	o := &client.ReadOptions{After: s.after, Detail: protocol.ReadTimes, MaxBytes: 1 << 20}
	switch {
	case s.history:
	case s.lines.pending():
		o.Wait = openTime
	case !s.asked:
		o.Wait = fullTime
	default:
		o.Wait = pollTime
	}
	r, err := from.Read(ctx, o)
	if err != nil {
		s.lines.Flush(s.yield)
		if errors.Is(err, client.ErrProcessGone) {
			err = errGone
		}
		return true, err
	}
	if r.FirstSeq > s.after+1 {
		s.gap(&r)
	}
	last := s.after
	s.take(&r)
	s.after = max(s.after, r.NextSeq-1)
	nothing := s.after == last
	old := nothing || s.end > 0 && s.after >= s.end // all that was there at the start was read
	switch {
	case !nothing:
		s.asked = false
	case !s.history && s.lines.pending():
		s.lines.Flush(s.yield)
	case !s.history && !s.asked && !r.Closed:
		s.ask(ctx, from)
	}
	if s.history && old {
		s.caught()
	}
	switch {
	case s.err != nil:
		return true, s.err
	case old && !s.Follow, nothing && r.Closed:
		s.lines.Flush(s.yield)
		return true, s.err
	}
	return false, nil
}

// ask sends a note if the program waits until its output is read: a follower does not free it.
func (s *reader) ask(ctx context.Context, from Source) {
	if s.asked = true; from.Full == nil {
		return
	}
	if text := from.Full(ctx); text != "" {
		s.note(time.Time{}, "the program waits: "+text)
	}
}

// take passes on chunks and events in their order.
func (s *reader) take(r *protocol.ProcessReadResult) {
	s.began = s.began || r.NextSeq > 1
	events := r.Events
	for i, c := range r.Chunks {
		for len(events) > 0 && events[0].Seq < c.Seq {
			s.event(events[0])
			events = events[1:]
		}
		var at time.Time
		if i < len(r.TimesMs) {
			at = time.UnixMilli(r.TimesMs[i])
		}
		if s.Stream == 0 || c.Stream == s.Stream {
			s.lines.Add(at, c.Stream, c.Chunk, s.yield)
		}
	}
	for _, e := range events {
		s.event(e)
	}
}

// gap sends a note if the server no longer holds entries before the first of r, and Options ask for these entries.
func (s *reader) gap(r *protocol.ProcessReadResult) {
	switch {
	case s.began || s.After > 0:
		s.lines.Hole(s.yield)
		s.note(time.Time{}, fmt.Sprintf("output %d to %d is lost: the server no longer holds it", s.after+1, r.FirstSeq-1))
	case s.Tail >= 0:
	case len(r.TimesMs) > 0 && time.UnixMilli(r.TimesMs[0]).Before(s.Since):
	default:
		s.note(time.Time{}, "earlier output is no longer held")
	}
	s.after = r.FirstSeq - 1
}

func (s *reader) event(e protocol.ReadEvent) {
	at := time.UnixMilli(e.AtMs)
	switch e.Kind {
	case protocol.EventRestarted:
		s.lines.Flush(s.yield)
		text := fmt.Sprintf("run %d begins", e.Run)
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		s.note(at, text)
	case protocol.EventExited:
		if e.Status != nil && e.Status.ExitCode != 0 {
			s.lines.Flush(s.yield)
			s.note(at, why.Ended(e.Status))
		}
	case protocol.EventEvicted:
		s.note(at, "given up: "+e.Reason)
	}
}

func (s *reader) note(at time.Time, text string) { s.yield(Line{At: at, Text: []byte(text)}) }

// yield sends a wanted line, or keeps a line for the tail.
func (s *reader) yield(l Line) {
	switch {
	case s.err != nil || !l.At.IsZero() && l.At.Before(s.Since):
	case s.history && s.Tail >= 0:
		s.tail.add(l)
	default:
		s.err = s.send(item{line: &l})
	}
}

// caught ends the history.
func (s *reader) caught() {
	if s.Tail >= 0 && !s.Follow {
		s.lines.Flush(s.yield)
	}
	s.history = false
	for _, l := range s.tail.lines {
		if s.err == nil {
			s.err = s.send(item{line: &l})
		}
	}
	s.tail.lines = nil
	if s.err == nil {
		s.err = s.send(item{caught: true})
	}
}
