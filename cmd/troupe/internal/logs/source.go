package logs

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Options choose a part of the output of a process.
type Options struct {
	Follow bool            // go on with the output to come, until the process closes
	After  uint64          // only output with a greater seq
	Since  time.Time       // only lines of this time or later; zero: all
	Tail   int             // only this many of the last lines held by the server; negative: all
	Stream protocol.Stream // only this stream; zero: all
	Chunks bool            // chunks as they come in place of lines; not with Tail
	Reach  int             // with Tail, look for the lines in about the last so many bytes of output; zero: in all
	Bare   bool            // no notes, and each line has an end
}

// Times.
const (
	// fullTime is how long a follower gets nothing before Source.Full is asked.
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
	// Follow passes on what comes of the process after a seq, as the function Follow does. Only for Options.Follow.
	Follow func(ctx context.Context, after uint64, to Viewer) error
	// Full says why the program cannot write because its output is unread. Empty: the program can. Nil: nobody asks.
	Full func(context.Context) string
}

// errGone is the end of a process that the server has forgotten.
var errGone = errors.New("the server has forgotten the process before all of its output was read, or another process has its name by now: troupe ps --all lists what there is")

// A reader reads the history of a Source: the output held by the server.
type reader struct {
	Options
	from  Source
	send  func([]Line) error // an error at the end of the context
	lines assembler
	tail  tail
	batch []Line // not yet sent
	after uint64 // all entries up to this seq were read
	began bool   // something was read
	err   error  // of send
}

// maxBatch is the number of lines that a reader sends at once.
const maxBatch = 4096

func newReader(from Source, o Options, send func([]Line) error) *reader {
	s := &reader{Options: o, from: from, send: send, after: o.After, tail: tail{most: o.Tail}}
	s.lines = assembler{stream: o.Stream, since: o.Since, chunks: o.Chunks, yield: s.yield}
	return s
}

// read sends the lines of all output held by the server. A line without an end is left in s.lines if Options.Follow is set.
func (s *reader) read(ctx context.Context) error {
	if s.Tail >= 0 {
		if err := s.seek(ctx); err != nil {
			return err
		}
	}
	for done, err := false, error(nil); !done; {
		if done, err = s.step(ctx); err != nil {
			s.lines.flush()
			s.flush()
			return err
		}
	}
	if !s.Follow {
		s.lines.flush()
	}
	s.batch = append(s.batch, s.tail.lines...)
	s.flush()
	return s.err
}

const (
	firstSpan = 8   // entries from the end of a log in which seek first looks for lines
	openLines = 4   // lines of three streams that may begin before a span, and an open line at its end
	growth    = 4   // of the span
	entrySize = 256 // bytes for which Options.Reach counts an entry, beside its output

	maxPage = 1 << 20 // bytes of output that a read asks for
)

// seek moves forward to a place that has the last Tail lines after it, or Reach bytes, if the log is long. seek looks for the place
// from the end of the log on backwards, because reading a whole log takes long.
func (s *reader) seek(ctx context.Context) error {
	for span := uint64(firstSpan); s.from.Last > s.After+span; span *= growth {
		lines, size, err := s.count(ctx, s.from.Last-span)
		if err != nil {
			return err
		}
		switch {
		case lines >= s.Tail+openLines:
			s.after = s.from.Last - span
			return nil
		case s.Reach > 0 && size >= s.Reach:
			s.after = s.from.Last - max(span/growth, firstSpan) // the last span that is not too large
			s.lines.hole()                                      // the first line of each stream may have begun before
			return nil
		}
	}
	return nil
}

// count returns how many lines of the wanted stream end after the entry with the seq after, up to Source.Last, and the bytes of output
// there, with something for each entry. count stops at Reach bytes.
func (s *reader) count(ctx context.Context, after uint64) (lines, size int, err error) {
	for after < s.from.Last && (s.Reach == 0 || size < s.Reach) {
		r, err := s.from.Read(ctx, &client.ReadOptions{After: after, Detail: protocol.ReadTimes, MaxBytes: s.page()})
		if err != nil || r.NextSeq <= after+1 {
			return lines, size, err
		}
		for _, c := range r.Chunks {
			if size += len(c.Chunk); s.Stream == 0 || c.Stream == s.Stream {
				lines += bytes.Count(c.Chunk, []byte{'\n'})
			}
		}
		size += entrySize * int(r.NextSeq-1-after)
		after = r.NextSeq - 1
	}
	return lines, size, nil
}

// page is how many bytes of output a read asks for.
func (s *reader) page() uint64 {
	if s.Reach > 0 {
		return min(maxPage, uint64(s.Reach))
	}
	return maxPage
}

// step makes a read. done: all output that was held at the start was read.
func (s *reader) step(ctx context.Context) (done bool, err error) {
	r, err := s.from.Read(ctx, &client.ReadOptions{After: s.after, Detail: protocol.ReadTimes, MaxBytes: s.page()})
	if errors.Is(err, client.ErrProcessGone) {
		return true, errGone
	} else if err != nil {
		return true, err
	}
	if r.FirstSeq > s.after+1 {
		s.gap(&r)
	}
	last := s.after
	s.take(&r)
	s.after = max(s.after, r.NextSeq-1)
	return s.after == last || s.from.Last > 0 && s.after >= s.from.Last, s.err
}

// take passes on chunks and events in their order.
func (s *reader) take(r *protocol.ProcessReadResult) {
	s.began = s.began || r.NextSeq > 1
	events := r.Events
	for i, c := range r.Chunks {
		for len(events) > 0 && events[0].Seq < c.Seq {
			s.lines.news(events[0])
			events = events[1:]
		}
		var at time.Time
		if i < len(r.TimesMs) {
			at = time.UnixMilli(r.TimesMs[i])
		}
		s.lines.output(at, c.Stream, c.Chunk)
	}
	for _, e := range events {
		s.lines.news(e)
	}
}

// gap sends a note if the server no longer holds entries before the first of r, and Options ask for these entries.
func (s *reader) gap(r *protocol.ProcessReadResult) {
	switch {
	case s.began || s.After > 0:
		s.lines.hole()
		s.yield(Line{Text: []byte(Hole(client.GapError{FromSeq: s.after + 1, ToSeq: r.FirstSeq - 1, Reason: "the server no longer holds it"}))})
	case s.Tail >= 0:
	case len(r.TimesMs) > 0 && time.UnixMilli(r.TimesMs[0]).Before(s.Since):
	default:
		s.yield(Line{Text: []byte("earlier output is no longer held")})
	}
	s.after = r.FirstSeq - 1
}

// yield sends a line, or keeps a line for the tail.
func (s *reader) yield(l Line) {
	l.Open = l.Open && !s.Bare
	switch {
	case l.Stream == 0 && s.Bare:
	case s.Tail >= 0:
		s.tail.add(l)
	default:
		if s.batch = append(s.batch, l); len(s.batch) >= maxBatch {
			s.flush()
		}
	}
}

// follow shows what comes after the history, until the process closes.
func (s *reader) follow(ctx context.Context, source int, p *Printer) error {
	v := NewView(p, source)
	v.waits = true
	s.lines.yield, s.lines.all = v.lines.yield, v.lines.all
	v.lines = s.lines
	v.await()
	if s.from.Full != nil {
		v.quiet = time.AfterFunc(fullTime, func() {
			if text := s.from.Full(ctx); text != "" { // a follower does not free the program
				p.Tell(source, "the program waits: "+text)
			}
		})
		defer v.quiet.Stop()
	}
	err := s.from.Follow(ctx, s.after, v)
	v.Flush()
	if errors.Is(err, client.ErrProcessGone) {
		return errGone
	}
	return err
}

// flush sends the lines that were not sent yet.
func (s *reader) flush() {
	full := len(s.batch) >= maxBatch
	if s.err == nil && len(s.batch) > 0 {
		s.err = s.send(s.batch)
	}
	s.batch = nil
	if full { // more are likely to follow, and the next batch does not grow line by line
		s.batch = make([]Line, 0, maxBatch)
	}
}
