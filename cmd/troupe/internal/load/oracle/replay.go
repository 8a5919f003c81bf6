package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// replayBegin is the kind of the first event of a replay. The event has the state at the begin of the check. No server sends an event of
// this kind.
const replayBegin = "begin"

// closedAlone is the state of a process that has closed without an exited.
const closedAlone = "closed without exited"

// beginning returns the first event of a replay, with the state before the present event.
func (c *Checker) beginning() Event {
	e := Event{Kind: replayBegin, Seq: c.next - 1, Run: c.st.Run, Number: c.out.text.number}
	switch {
	case c.st.Closed && !c.exited:
		e.State = closedAlone
	case c.st.Closed:
		e.State = "closed"
	case c.exited:
		e.State = "exited"
	}
	return e
}

// replay returns events that show a fault in data p of a stream. p begins at an offset.
func (c *Checker) replay(r *reader, offset int64, p []byte) []Event {
	if c.o.Found == nil {
		return nil // nobody would see the events
	}
	begin := c.beginning()
	begin.Stream, begin.Offset = r.stream, offset
	if c.next > 0 && c.seq == c.next-1 {
		begin.Seq-- // the present event is counted already
	}
	notes := []Event{begin}
	if p != nil {
		notes = append(notes, Event{Kind: "output", Seq: begin.Seq + 1, Stream: r.stream, Data: bytes.Clone(p)})
	}
	return notes
}

// eventSeen returns the events that show a finding about e. eventBefore does the same with the state before the seq of e was counted.
func (c *Checker) eventSeen(e *Event) seen { return c.eventAfter(e, e.Seq-1) }

func (c *Checker) eventBefore(e *Event) seen { return c.eventAfter(e, c.next-1) }

func (c *Checker) eventAfter(e *Event, seq uint64) seen {
	s := c.present()
	if c.o.Found == nil {
		return s
	}
	begin := c.beginning()
	begin.Seq = seq
	if r := c.reader(e.Stream); r != nil && e.Kind == "output" {
		begin.Stream, begin.Offset = r.stream, r.pos
	}
	copied := *e
	copied.Data = bytes.Clone(e.Data[:min(len(e.Data), 4096)])
	s.note = []Event{begin, copied}
	return s
}

// gapSeen returns the events that show what a stream has lost in a gap.
func (c *Checker) gapSeen(r *reader, gap *Event) seen {
	s := c.present()
	if s.note = c.replay(r, r.front, nil); len(s.note) > 0 {
		s.note[0].Seq = gap.first() - 1
		s.note = append(s.note, *gap)
	}
	return s
}

// lastSeen returns the state at the end, for a finding about missing events.
func (c *Checker) lastSeen() seen {
	s := c.present()
	s.seq = c.st.Seq
	s.note = []Event{c.beginning()}
	return s
}

// replayFrom sets the state of the Checker to the begin of a replay.
func (c *Checker) replayFrom(e *Event) {
	c.next = e.Seq + 1
	c.st.Seq = e.Seq
	if e.Run != c.st.Run {
		c.begin(e.Run)
	}
	c.exited = e.State == "exited" || e.State == "closed"
	c.st.Exited, c.st.Closed = c.exited, e.State == "closed" || e.State == closedAlone
	if e.Number != 0 {
		c.learn(e.Number)
	}
	if r := c.reader(e.Stream); r != nil {
		r.pos, r.front = e.Offset, max(r.front, e.Offset)
		_, begin, _ := r.text.region(e.Offset)
		r.cur, r.begun = nil, e.Offset-begin
	}
}

// A Replayed is the result of checking a finding again, by its own events.
type Replayed struct {
	Finding Finding
	Again   []Finding // the findings of the events now
	Found   bool      // Again has the finding: the same kind at the same place, or for lines a finding about bytes close by
	Why     string    // why Found is false
}

// Replay reads a file of findings, a JSON text after the other, checks the events of each finding again, and hands the result to each.
// Replay stops at the first error of each.
func Replay(r io.Reader, each func(n int, p Replayed) error) error {
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		var f Finding
		if err := d.Decode(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("finding %d: %w", n, err)
		}
		if err := each(n, f.again()); err != nil {
			return err
		}
	}
}

func (f Finding) again() Replayed {
	p := Replayed{Finding: f}
	switch {
	case f.Spec == nil || len(f.Replay) == 0:
		p.Why = "it has no events: it is not about what came, but about what the client asked or saw elsewhere"
		return p
	case f.Kind == Stdin:
		p.Why = "what the program read before is not part of the events"
		return p
	}
	began := time.Unix(0, 0)
	c, err := New(*f.Spec, Options{Began: began, Found: func(f Finding) { p.Again = append(p.Again, f) }})
	if err != nil {
		p.Why = err.Error()
		return p
	}
	at := began.Add(f.At)
	known := 0 // bytes of the next output that the events before it have, too
	for _, e := range f.Replay {
		switch r := c.reader(e.Stream); {
		case e.Kind == replayBegin && r != nil && r.bad == nil && r.pos > e.Offset && r.pos <= e.Offset+near:
			known = int(r.pos - e.Offset)
			e.Offset = r.pos
		case e.Kind == "output":
			e.Data = e.Data[min(known, len(e.Data)):]
			known = 0
		}
		c.Event(&e, at)
	}
	c.End(at)
	p.Found = slices.ContainsFunc(p.Again, func(g Finding) bool {
		if g.Run != f.Run || g.Stream != f.Stream || g.ofTheEnd() != f.ofTheEnd() {
			return false
		}
		if line := c.out.text.line; line > 0 && f.ofBytes() && g.ofBytes() {
			return max(g.Offset-f.Offset, f.Offset-g.Offset) <= max(2*line, 128)
		}
		return g.Kind == f.Kind && g.Offset == f.Offset
	})
	if !p.Found {
		p.Why = "its events do not show it again"
	}
	return p
}

// ofTheEnd reports whether a finding is about the missing end of a stream. The events of any other finding end before the stream does.
func (f Finding) ofTheEnd() bool { return f.Kind == Missing && len(f.Replay) == 1 }

// WrongBytes returns how many bytes of output are wrong: bytes that a gap declares lost, and that come all the same, are wrong, too.
func (f Finding) WrongBytes() int64 {
	if f.ofBytes() || f.Kind == Order {
		return f.Bytes
	}
	return 0
}

// ofBytes reports whether a finding is about bytes of a stream.
func (f Finding) ofBytes() bool {
	switch f.Kind {
	case Missing, Doubled, Reordered, Altered, Foreign:
		return true
	}
	return false
}
