package oracle

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// whose describes the other stream to which bytes belong; "": unknown.
func (c *Checker) whose(r *reader, p []byte) string {
	for i := 0; i+stream.Cell <= len(p); i++ {
		key, at, ok := stream.Whose(p[i:])
		if !ok {
			continue
		}
		for n, number := range c.numbers {
			for _, name := range [...]string{"stdout", "stderr"} {
				if number == 0 || key != c.base.Run(number, name) || key == r.text.key {
					continue
				}
				which := "of this run"
				if n == 1 {
					which = "of the run before"
				}
				return fmt.Sprintf("they are bytes of %s %s, from %d of its content on", name, which, at-int64(i))
			}
		}
		if key == c.base.Run(0, "stdin") {
			return fmt.Sprintf("they are bytes of stdin, from %d on", at-int64(i))
		}
	}
	return ""
}

// seqFinding reports a finding about the seq of the present event. order reports a finding about the order of the present event.
func (c *Checker) seqFinding(kind Kind, e *Event, detail string) {
	c.report(Finding{Kind: kind, Run: c.st.Run, Stream: e.Stream, Offset: c.offset(e), Detail: detail}, c.eventBefore(e))
}

func (c *Checker) order(e *Event, detail string) {
	c.report(Finding{Kind: Order, Run: c.st.Run, Stream: e.Stream, Offset: c.offset(e), Detail: detail}, c.eventSeen(e))
}

// offset returns the expected place of an event's data in its stream.
func (c *Checker) offset(e *Event) int64 {
	if r := c.reader(e.Stream); r != nil && e.Kind == "output" {
		return r.pos
	}
	return 0
}

// report completes a finding, and hands it to Found.
func (c *Checker) report(f Finding, s seen) {
	c.st.Wrong++
	if c.o.Found == nil {
		return
	}
	f.Server, f.Session, f.Process = c.spec.Server, c.spec.Session, c.spec.Process
	f.Seq, f.Cuts, f.Replay = s.seq, s.cuts, s.note
	f.At = s.at.Sub(c.o.Began)
	spec := c.spec
	f.Spec = &spec
	c.o.Found(f)
}

// present returns the present event in the form for a finding.
func (c *Checker) present() seen {
	s := seen{seq: c.seq, at: c.now}
	if c.o.Cuts != nil {
		s.cuts = c.o.Cuts()
	}
	return s
}
