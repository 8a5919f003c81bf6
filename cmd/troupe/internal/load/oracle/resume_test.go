package oracle

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestResumeAfterResume: the repeats of a resume were cut off, and the next resume asks for less.
func TestResumeAfterResume(t *testing.T) {
	c, err := New(Spec{Session: "s0", Process: "p0", Stdout: Content{Form: Plain}}, Options{Found: func(f Finding) {
		if f.Kind == SeqHole || f.Kind == SeqAgain {
			t.Errorf("found %s: %s", f.Kind, f.Detail)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{
		{Kind: "output", Seq: 1}, {Kind: "output", Seq: 2}, {Kind: "output", Seq: 3},
		{Kind: "resumed", Seq: 0}, {Kind: "output", Seq: 1},
		{Kind: "resumed", Seq: 3}, {Kind: "output", Seq: 4},
		{Kind: "resumed", Seq: 2}, {Kind: "resumed", Seq: 4}, {Kind: "output", Seq: 5},
	} {
		e.Stream = protocol.Stdout
		c.Event(&e, time.Now())
	}
}

// TestOtherRepeats: an event that comes again after a resume is the same event.
func TestOtherRepeats(t *testing.T) {
	s := specs["plain"]
	s.Restarts = true
	p := makeRun(s, 5, 400)
	out := func(p []byte) Event { return Event{Kind: "output", Stream: protocol.Stdout, Data: p} }
	var first []Event
	for i := range len(p) { // in pieces too short to tell their place
		first = append(first, out(p[i:i+1]))
	}
	first = append(first[len(first)-40:], Event{Kind: "exited", Run: 1}, Event{Kind: "restarted", Run: 2}, out(makeRun(s, 6, 400)[:300]))
	first = append([]Event{out(p[:len(p)-40])}, first...)
	last := len(first) - 1
	for name, test := range map[string]struct {
		i    int // of the changed event
		e    Event
		want []Kind
	}{
		"the same":                       {1, first[1], nil},
		"another byte of the run before": {20, out([]byte("!")), []Kind{Order}},
		"another code":                   {last - 2, Event{Kind: "exited", Run: 1, Code: 77}, []Kind{Order}},
		"another signal":                 {last - 2, Event{Kind: "exited", Run: 1, Signal: "SIGSEGV"}, []Kind{Order}},
		"another run":                    {last - 1, Event{Kind: "restarted", Run: 3}, []Kind{Order}},
		"another kind":                   {last, Event{Kind: "exited", Run: 2}, []Kind{Order}},
		"another stream":                 {last, Event{Kind: "output", Stream: protocol.Stderr, Data: first[last].Data}, []Kind{Order}},
		"fewer bytes":                    {last, out(first[last].Data[:299]), []Kind{Order}},
		"more bytes":                     {last, out(makeRun(s, 6, 400)[:301]), []Kind{Altered}},
		"other bytes":                    {last, out(append(bytes.Clone(first[last].Data[:299]), '!')), []Kind{Altered}},
	} {
		t.Run(name, func(t *testing.T) {
			for from := range test.i {
				w := watchOf(t, s)
				for _, e := range first {
					w.event(e)
				}
				w.Event(&Event{Kind: "resumed", Seq: uint64(from)}, began)
				w.seq = uint64(from)
				for i, e := range first[from:] {
					if from+i == test.i {
						e = test.e
					}
					w.event(e)
				}
				w.output(makeRun(s, 6, 400)[300:])
				w.event(Event{Kind: "exited", Run: 2})
				w.event(Event{Kind: "closed"})
				w.End(began)
				w.want(t, test.want...)
			}
		})
	}
}

// TestGapInRepeats: after a takeover, the server has dropped events acknowledged by the old connection. The received bytes are not missing,
// and the bytes after the gap are compared at their place.
func TestGapInRepeats(t *testing.T) {
	for _, more := range []int{0, 100} { // events in between; after many events, the places of old events are forgotten
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			var found []Finding
			c, err := New(Spec{Session: "s0", Process: "p0", Stdout: Content{Form: Plain}}, Options{Found: func(f Finding) { found = append(found, f) }})
			if err != nil {
				t.Fatal(err)
			}
			const piece = 100
			base := stream.Of(0, "s0", "p0", 0, "")
			key := base.Run(7, "stdout")
			event := func(seq uint64) {
				e := Event{Kind: "output", Seq: seq, Stream: protocol.Stdout}
				if seq == 1 {
					e.Data = base.AppendHello(nil, 7, 1, time.Now())
				} else {
					e.Data = make([]byte, piece)
					key.Fill(e.Data, int64(seq-2)*piece)
				}
				c.Event(&e, time.Now())
			}
			last := uint64(6 + more)
			for seq := uint64(1); seq <= last; seq++ {
				event(seq)
			}
			c.Event(&Event{Kind: "resumed", Seq: 2}, time.Now())
			c.Event(&Event{Kind: "gap", From: 3, Seq: 4}, time.Now())
			for seq := uint64(5); seq <= last+2; seq++ {
				event(seq)
			}
			if len(found) > 0 {
				t.Errorf("found %+v", found)
			}
			if want := int64(stream.HelloSize) + piece*int64(last+1); c.out.front != want {
				t.Errorf("the stream has come until %d, want %d", c.out.front, want)
			}
			c.Event(&Event{Kind: "resumed", Seq: last}, time.Now())
			c.Event(&Event{Kind: "gap", From: last + 2, Seq: last + 2}, time.Now())
			if len(found) != 1 || found[0].Kind != SeqHole {
				t.Errorf("a gap that begins too late: found %+v", found)
			}
		})
	}
}

// TestRepeatsOfTwoRuns: the repeats begin in the earlier run, and each byte is compared with its own run.
func TestRepeatsOfTwoRuns(t *testing.T) {
	base := stream.Of(0, "s0", "p0", 0, "")
	data := func(run uint64) []byte {
		key, at := base.Run(run, "stdout"), time.UnixMicro(1)
		content := make([]byte, 100)
		key.Fill(content, 0)
		return key.AppendEnd(append(base.AppendHello(nil, run, 1, at), content...), 100, at)
	}
	events := []Event{
		{Kind: "output", Data: data(7)}, {Kind: "exited", Run: 1}, {Kind: "restarted", Run: 2},
		{Kind: "output", Data: data(8)}, {Kind: "exited", Run: 2}, {Kind: "closed"},
	}
	for i := range events {
		events[i].Seq, events[i].Stream = uint64(i+1), protocol.Stdout
	}
	for from := range 5 {
		var found []Finding
		spec := Spec{Session: "s0", Process: "p0", Stdout: Content{Form: Plain}, Restarts: true}
		c, err := New(spec, Options{Found: func(f Finding) { found = append(found, f) }})
		if err != nil {
			t.Fatal(err)
		}
		all := append(slices.Clone(events[:5]), Event{Kind: "resumed", Seq: uint64(from)})
		for _, e := range append(all, events[from:]...) {
			c.Event(&e, time.Now())
		}
		if c.End(time.Now()); len(found) > 0 {
			t.Errorf("from seq %d on: found %+v", from, found)
		}
	}
}
