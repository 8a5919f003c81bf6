package client

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// maxWrite is about how many bytes of small chunks go to a Writer at once.
const maxWrite = 32 << 10

// A GapError means that output was lost: the process's retention let the server
// forget it before this client had it.
type GapError struct {
	ProcessID      string
	FromSeq, ToSeq uint64 // what is missing, both included
	Bytes          uint64 // zero: unknown
	Reason         string // the server's
}

func (e *GapError) Error() string {
	return fmt.Sprintf("client: process %s: output %d to %d was lost (%d bytes): %s",
		e.ProcessID, e.FromSeq, e.ToSeq, e.Bytes, e.Reason)
}

// A process is what this client has had of one process: its place in the
// sequence, and what waits to be written to the caller's Writers. It is guarded
// by Client.mu.
//
//	reader ─▶ advance ─▶ output ─▶ lane ─▶ Writer ─▶ acknowledge ─▶ session/ack
type process struct {
	// Fixed when it is registered.
	c       *Client
	id      string
	onGap   func(GapError)                       // nil: the first gap is an error of Wait
	delay   time.Duration                        // WaitDelay
	onRun   func(protocol.RestartedNotification) // nil: nobody asks
	onReady func(run int)                        // the same
	pipes   []pipe                               // that the caller holds the other end of
	done    chan struct{}                        // closed when it has ended

	retention uint64 // bytes the server keeps, and so may send before any is acknowledged; 0: unknown
	lossy     bool   // the caller chose to lose output rather than to wait

	out, err *lane // of stdout or the PTY, and of stderr; may be the same; nil: discarded

	started bool   // the server has said that it has it
	run     uint64 // that it is at, as far as was received; 0: unknown
	last    uint64 // seq of the last event received
	acked   uint64 // all up to here was delivered
	queued  int    // bytes in both lanes
	discard bool   // nobody wants the rest
	status  *protocol.ExitStatus
	closed  bool  // the server has nothing more to send
	failure error // why the client has nothing more to receive
	lost    *GapError
	input   error // why Stdin could not be read to its end
	ended   bool  // closed or failed, and all was delivered
}

// A pipe is our end of an io.Pipe.
type pipe interface{ CloseWithError(error) error }

// A lane is the way to one Writer. While it has something to write, and only
// then, a goroutine does that: an idle process costs none.
type lane struct {
	w io.Writer

	buf     []byte // what waits, and
	marks   []mark // what it is made of
	first   uint64 // seq of the first event that is not delivered; zero: none
	running bool
	err     error // of the first Write that failed; the rest is discarded
}

// A mark is one Write, a gap, or a call of the user's.
type mark struct {
	first      uint64 // seq of its first event
	start, end int    // in lane.buf
	gap        *GapError
	call       func()
}

// buffers are lent to lanes that have something to write.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// advance moves to event to, and says whether it is new. From is its first seq,
// which must be the next but for what is received again after a cut. (§4)
func (p *process) advance(from, to uint64) bool {
	if to <= p.last || p.closed {
		return false
	}
	if from > p.last+1 && !p.discard {
		p.fail(fmt.Errorf("client: process %s: the server went from seq %d to %d and reported no gap: output is missing",
			p.id, p.last, from))
	}
	p.last = to
	return true
}

// maxQueued is how many bytes may wait here. What is lossless never comes near,
// for the server waits for acknowledgements; what is lossy has a gap from here on.
func (p *process) maxQueued() int {
	return int(max(4<<20, 2*min(p.retention, 1<<40)))
}

func (p *process) output(seq uint64, stream protocol.Stream, chunk []byte) {
	l := p.out
	if stream == protocol.Stderr {
		l = p.err
	}
	if l == nil || p.discard || l.err != nil {
		p.c.ackBytes += len(chunk)
		return
	}
	if p.lossy && p.queued > p.maxQueued() {
		p.gap(protocol.GapNotification{FromSeq: seq, ToSeq: seq, Bytes: uint64(len(chunk)), Reason: "the Writer fell behind"})
		return
	}
	if l.buf == nil {
		l.buf = *buffers.Get().(*[]byte)
	}
	start := len(l.buf)
	l.buf = append(l.buf, chunk...)
	p.queued += len(chunk)
	if n := len(l.marks); n > 0 {
		if m := &l.marks[n-1]; m.gap == nil && m.call == nil && len(l.buf)-m.start <= maxWrite {
			m.end = len(l.buf)
			return
		}
	}
	p.push(l, mark{first: seq, start: start, end: len(l.buf)})
}

func (p *process) push(l *lane, m mark) {
	l.marks = append(l.marks, m)
	if l.first == 0 {
		l.first = m.first
	}
	if !l.running {
		l.running = true
		go p.deliver(l)
	}
}

func (p *process) restarted(n protocol.RestartedNotification) {
	p.status, p.run = nil, uint64(n.Run)
	if p.onRun != nil {
		p.inOrder(n.Seq, func() { p.onRun(n) })
	}
}

func (p *process) ready(n protocol.ReadyNotification) {
	if p.onReady != nil {
		p.inOrder(n.Seq, func() { p.onReady(n.Run) })
	}
}

// inOrder makes a call of the user's in the order of Stdout.
func (p *process) inOrder(seq uint64, call func()) {
	if p.discard {
		return
	}
	if p.out == nil {
		p.out = &lane{w: io.Discard}
	}
	p.push(p.out, mark{first: seq, call: call})
}

func (p *process) gap(n protocol.GapNotification) {
	p.run = 0 // another may have begun
	g := &GapError{p.id, n.FromSeq, n.ToSeq, n.Bytes, n.Reason}
	if p.onGap == nil {
		if p.lost == nil {
			p.lost = g
		}
		return
	}
	if p.discard {
		return
	}
	if p.out == nil {
		p.out = &lane{w: io.Discard}
	}
	if k := len(p.out.marks) - 1; k >= 0 {
		if last := p.out.marks[k].gap; last != nil && last.ToSeq+1 == g.FromSeq && last.Reason == g.Reason {
			last.ToSeq, last.Bytes = g.ToSeq, last.Bytes+g.Bytes
			return
		}
	}
	p.push(p.out, mark{first: n.FromSeq, gap: g})
}

// close: the server has sent all of it.
func (p *process) close() {
	p.closed = true
	delete(p.c.processes, p.id)
	p.settle()
}

// fail: err is why this client will not have the rest.
func (p *process) fail(err error) {
	if p.closed || p.failure != nil {
		return
	}
	p.failure, p.discard = err, true
	p.settle()
}

// settle ends the process once there is nothing more to receive or to deliver.
func (p *process) settle() {
	if p.ended || !p.closed && p.failure == nil || p.out.busy() || p.err.busy() {
		return
	}
	p.ended = true
	err := p.failure
	if err == nil && p.lost != nil {
		err = p.lost
	}
	for _, pipe := range p.pipes {
		pipe.CloseWithError(err) // nil: EOF
	}
	close(p.done)
}

func (l *lane) busy() bool { return l != nil && l.running }

// deliver writes what l has until it has no more.
func (p *process) deliver(l *lane) {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(l.marks) > 0 {
		buf, marks := l.buf, l.marks
		l.buf, l.marks = nil, nil
		for i, m := range marks {
			data := buf[m.start:m.end]
			if err := p.deliverOne(l, m, data); err != nil && l.err == nil {
				l.err = err
			}
			if i+1 < len(marks) {
				l.first = marks[i+1].first
			} else if l.first = 0; len(l.marks) > 0 {
				l.first = l.marks[0].first
			}
			p.queued -= len(data)
			c.room.Broadcast()
			c.ackBytes += len(data)
			p.acknowledge()
		}
		if cap(buf) > 0 {
			buf = buf[:0]
			buffers.Put(&buf)
		}
	}
	l.running = false
	p.settle()
}

// deliverOne does the one thing that may take long, without the lock.
func (p *process) deliverOne(l *lane, m mark, data []byte) error {
	if m.gap == nil && m.call == nil && l.err != nil {
		return nil
	}
	p.c.mu.Unlock()
	defer p.c.mu.Lock()
	switch {
	case m.gap != nil:
		p.onGap(*m.gap)
		return nil
	case m.call != nil:
		m.call()
		return nil
	}
	n, err := l.w.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// acknowledge notes how far the caller has it all. Two lanes are at different
// places: the one behind counts.
func (p *process) acknowledge() {
	seq := p.last
	for _, l := range []*lane{p.out, p.err} {
		if l != nil && l.first != 0 {
			seq = min(seq, l.first-1)
		}
	}
	if seq <= p.acked {
		return
	}
	p.acked = seq
	c := p.c
	c.acks[p.id] = seq
	switch {
	case c.ackDue:
	case c.ackBytes >= ackEvery || p.retention > 0 && uint64(c.ackBytes) >= p.retention/4:
		c.ackDue = true
		c.kick()
	case !c.ackTimed:
		c.ackTimed = true
		time.AfterFunc(ackAfter, func() {
			c.mu.Lock()
			c.ackTimed, c.ackDue = false, len(c.acks) > 0
			c.mu.Unlock()
			c.kick()
		})
	}
}
