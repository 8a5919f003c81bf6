//go:build unix

package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A server without replay (the peer's) sends live events after its answer to initialize. The client reads older events with process/read,
// and merges them by seq (PROTOCOL.md, section 10.2). Such a server may also send exited before output with a lower seq (appendix A). So a
// follower of such a server sorts, within bounds, and drops events doubled by the merge. All other events reach the oracle in the order of
// arrival.

const (
	maxHeld      = 256     // events waiting for an event with a lower seq, as in the peer's own client
	maxHeldBytes = 1 << 20 // bytes of such events
)

// A merge puts the events of a process in order. Only the delivering goroutine uses a merge: a reading goroutine, or run between two links.
type merge struct {
	reading  bool   // process/read has no answer yet: all events wait
	overflow bool   // too many events came, and are read again
	until    uint64 // live events up to this seq are repeats
	held     []oracle.Event
	bytes    int
}

// begin begins a new link, or a new read, of a follower that has the events up to last. The held events are read again.
func (m *merge) begin(last uint64) {
	m.reading, m.overflow, m.held, m.bytes, m.until = true, false, nil, 0, max(m.until, last)
}

// hold keeps a copy of e.
func (m *merge) hold(e *oracle.Event) {
	own := *e
	own.Data = slices.Clone(e.Data)
	i, _ := slices.BinarySearchFunc(m.held, e.Seq+1, func(h oracle.Event, seq uint64) int {
		if h.Seq < seq {
			return -1
		}
		return 1
	})
	m.held = slices.Insert(m.held, i, own)
	m.bytes += len(own.Data)
}

func (m *merge) full() bool { return len(m.held) >= maxHeld || m.bytes >= maxHeldBytes }

// take takes a live event of a server without replay. If too many events wait for those that were missed, troupe begins the live events
// again with the missed ones, so the next event may come while events wait, and also before the answer to process/read.
func (f *follower) take(e *oracle.Event, at time.Time) {
	m := &f.merge
	switch last := f.last.Load(); {
	case e.Seq <= min(m.until, last):
		m.until = max(m.until, last)
	case e.Seq == last+1:
		if n := len(m.held); n > 0 {
			m.until = max(m.until, m.held[n-1].Seq) // those that wait may come again
		}
		f.deliver(e, at)
		f.release(at, false)
	case m.reading && m.full():
		m.overflow = true // this event and the next ones are read again
	case m.reading:
		if !m.overflow {
			m.hold(e)
		}
	case e.Seq > last:
		m.hold(e)
		f.release(at, m.full())
	default:
		f.deliver(e, at) // the oracle says that the event is a repeat
	}
}

// release delivers the held events that are next. With all, release delivers all held events, since nothing will fill the hole before them.
func (f *follower) release(at time.Time, all bool) {
	m := &f.merge
	n := 0
	for n < len(m.held) && (all || m.held[n].Seq <= f.last.Load()+1) {
		if e := &m.held[n]; e.Seq > f.last.Load() || e.Seq > m.until {
			f.deliver(e, at)
		}
		m.bytes -= len(m.held[n].Data)
		n++
	}
	m.held = slices.Delete(m.held, 0, n)
}

// catchUp reads the events missed by the followers. The answers come on the reading goroutine of l, as the live events do.
func (s *session) catchUp(l *link, named []cursor) {
	for _, c := range named {
		s.readOn(l, c.follower)
	}
}

// readOn reads the events of a process after the last delivered event.
func (s *session) readOn(l *link, f *follower) {
	params := protocol.ProcessReadParams{ProcessID: f.name, AfterSeq: f.last.Load()}
	err := l.conn.Go(protocol.MethodProcessRead, params, func(payload []byte, err error) {
		var refused *protocol.Error
		var read protocol.ProcessReadResult
		at := time.Now()
		switch {
		case errors.As(err, &refused): // the process is not started yet, or forgotten
			f.merge.reading = false
			f.release(at, true)
		case err != nil: // the connection has ended; the next connection reads
		default:
			if wrong := l.conn.Unmarshal(payload, &read); wrong != nil {
				s.foundAnswer(f.name, fmt.Sprintf("%s: the answer cannot be read: %v", protocol.MethodProcessRead, wrong))
				l.conn.Close()
				return
			}
			if f.caughtUp(&read, at) {
				s.readOn(l, f)
			}
		}
	})
	if err != nil {
		l.conn.Close() // the connection has ended, or takes no more requests: the next connection reads
	}
}

// caughtUp delivers the events read, and the held events. again says that more must be read.
func (f *follower) caughtUp(read *protocol.ProcessReadResult, at time.Time) (again bool) {
	m := &f.merge
	var events []oracle.Event
	for _, c := range read.Chunks {
		events = append(events, oracle.Event{Kind: "output", Seq: c.Seq, Stream: c.Stream, Data: c.Chunk})
	}
	// Exit and close have a seq, but no chunk: they have the seqs missing among the chunks. A held live event of the same seq says more, and
	// is preferred.
	known := func(seq uint64) bool {
		has := func(e oracle.Event) bool { return e.Seq == seq }
		return slices.ContainsFunc(events, has) || slices.ContainsFunc(m.held, has)
	}
	end := read.NextSeq // after the last event
	if read.Closed && end > 0 {
		end--
		if end > f.last.Load() && !known(end) {
			events = append(events, oracle.Event{Kind: "closed", Seq: end})
		}
	}
	if read.Exited && read.ExitCode != nil {
		for seq := f.last.Load() + 1; seq < end; seq++ {
			if !known(seq) && seq >= read.FirstSeq {
				events = append(events, oracle.Event{Kind: "exited", Seq: seq, Code: *read.ExitCode})
				break // further holes are bytes dropped by the server
			}
		}
	}
	slices.SortStableFunc(events, func(a, b oracle.Event) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	m.until = max(m.until, read.NextSeq-min(read.NextSeq, 1))
	for i := range events {
		e := &events[i]
		if e.Seq <= f.last.Load() {
			continue
		}
		f.release(at, false)
		for len(m.held) > 0 && m.held[0].Seq < e.Seq { // live events between chunks, such as exited
			f.deliver(&m.held[0], at)
			m.bytes -= len(m.held[0].Data)
			m.held = slices.Delete(m.held, 0, 1)
		}
		if e.Seq > f.last.Load() {
			f.deliver(e, at)
		}
	}
	if m.overflow {
		m.begin(f.last.Load())
		return true
	}
	m.reading = false
	f.release(at, false)
	return false
}
