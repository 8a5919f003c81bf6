package client

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// maxWrite is roughly the most bytes of small chunks that go to a Writer in a single Write.
const maxWrite = 32 << 10

// A GapError reports lost output: because of the process's retention, the server forgot the output
// before this client had it.
type GapError struct {
	ProcessID      string
	FromSeq, ToSeq uint64 // the lost events, both included
	Bytes          uint64 // zero: unknown
	Reason         string // the server's reason; of several gaps, the reason of the first
	Gaps           int    // how many gaps FromSeq, ToSeq and Bytes span: more than 1 only in an error of Wait
}

func (e *GapError) Error() string {
	if e.Gaps > 1 {
		return fmt.Sprintf("client: process %s: output was lost in %d places between %d and %d (%d bytes in all): %s",
			e.ProcessID, e.Gaps, e.FromSeq, e.ToSeq, e.Bytes, e.Reason)
	}
	return fmt.Sprintf("client: process %s: output %d to %d was lost (%d bytes): %s",
		e.ProcessID, e.FromSeq, e.ToSeq, e.Bytes, e.Reason)
}

// A process is the client's record of a process: its position in the sequence of events, and the output
// not yet written to the caller's Writers. Client.mu guards a process.
//
//	reader ─▶ advance ─▶ output ─▶ lane ─▶ Writer ─▶ acknowledge ─▶ session/ack
type process struct {
	// Fixed when the process is registered.
	Process   // at the server
	cmd       *Cmd
	done      chan struct{} // closed when the process has ended
	retention uint64        // bytes kept by the server, and so the most it sends before an acknowledgement; 0: unknown
	lossy     bool          // the caller prefers losing output to waiting

	out, err *lane // for stdout or the PTY, and for stderr; may be the same; nil: discarded

	started bool   // the server has confirmed the process
	unnamed bool   // the events on this connection may be those of another process, or from the middle: none counts
	missed  bool   // events came while unnamed
	run     uint64 // the current run, as far as received; 0: unknown
	last    uint64 // seq of the last event received
	acked   uint64 // all events up to this seq were delivered
	queued  int    // bytes in both lanes
	discard bool   // the rest of the output is not wanted
	piped   bool   // the current run got SIGPIPE
	status  *protocol.ExitStatus
	denied  bool   // with status: the sandbox has probably denied something to the run
	gaveUp  string // why the server does not run the program again; "": no restart was due
	closed  bool   // the server has no more to send
	failure error  // why the client will receive no more
	lost    *GapError
	input   error // the error of a Read from Stdin
	ended   bool  // closed or failed, and all was delivered
}

// A pipe is the client's end of an io.Pipe.
type pipe interface{ CloseWithError(error) error }

// A lane is the way to a Writer. A goroutine exists only while the lane has something to write, so an
// idle process costs no goroutine.
type lane struct {
	// Fixed: either is nil.
	w       io.Writer
	onEvent func(Event) error

	buf     []byte // the waiting output
	marks   []mark // the parts of buf
	first   uint64 // seq of the first undelivered event; zero: none
	running bool
	err     error // the error of the first failed Write, or of OnEvent; later output is discarded
}

// A mark is a Write, a gap, the end of a run, or a call of a function of the caller.
type mark struct {
	first      uint64 // seq of the first event in the mark
	last       uint64 // of a Write or an end: seq of the last event
	run        uint64 // of a Write: the run that wrote it; 0: unknown
	stream     protocol.Stream
	atMs       uint64               // of a Write: when the server got it; 0: unknown
	start, end int                  // positions in lane.buf
	exit       *protocol.ExitStatus // of an end
	gap        *GapError
	call       func()
}

// takes reports whether output of a run, a stream and a time goes to the same Write, or the same Event, as m.
func (l *lane) takes(m *mark, run uint64, stream protocol.Stream, atMs uint64) bool {
	return m.gap == nil && m.call == nil && m.exit == nil && m.run == run && (m.stream == stream && m.atMs == atMs || l.onEvent == nil) && len(l.buf)-m.start <= maxWrite
}

// buffers are lent to lanes with something to write.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// advance moves to event to, and reports whether the event is new. from is the first seq of the event.
// A new event must follow the last event without a hole; events repeated after a cut are not new
// (exec-server wire §4).
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

// maxQueued returns how many bytes may wait in this client. The output of a lossless process stays far
// below, because the server waits for acknowledgements. A lossy process gets a gap when this many bytes
// wait.
func (p *process) maxQueued() int {
	return int(max(4<<20, 2*min(p.retention, 1<<40)))
}

func (p *process) output(n *protocol.OutputNotification) {
	seq, stream, chunk := n.Seq, n.Stream, n.Chunk
	l := p.out
	if stream == protocol.Stderr {
		l = p.err
	}
	if l == nil || p.discard || l.err != nil {
		if l != nil && l.err != nil {
			p.brokenPipe(p.run)
		}
		p.c.ackBytes += len(chunk)
		return
	}
	if p.lossy && p.queued > p.maxQueued() {
		p.shed()
	}
	if l.buf == nil {
		l.buf = *buffers.Get().(*[]byte)
	}
	start := len(l.buf)
	l.buf = append(l.buf, chunk...)
	p.queued += len(chunk)
	if k := len(l.marks); k > 0 {
		if m := &l.marks[k-1]; l.takes(m, p.run, stream, n.AtMs) {
			m.end, m.last = len(l.buf), seq
			return
		}
	}
	p.push(l, mark{first: seq, last: seq, run: p.run, stream: stream, atMs: n.AtMs, start: start, end: len(l.buf)})
}

// shed forgets the output that waits behind the Writes under way, so what a slow Writer gets next is the newest.
func (p *process) shed() {
	var lost protocol.GapNotification
	for _, l := range []*lane{p.out, p.err} {
		if l == nil {
			continue
		}
		kept := l.marks[:0]
		for _, m := range l.marks {
			if m.gap != nil || m.call != nil || m.exit != nil {
				kept = append(kept, m)
				continue
			}
			if lost.FromSeq == 0 {
				lost.FromSeq = m.first
			}
			lost.FromSeq, lost.ToSeq = min(lost.FromSeq, m.first), max(lost.ToSeq, m.last)
			lost.Bytes += uint64(m.end - m.start)
		}
		l.marks, l.buf = kept, l.buf[:0]
	}
	if lost.ToSeq == 0 {
		return
	}
	p.queued -= int(lost.Bytes)
	p.c.ackBytes += int(lost.Bytes)
	lost.Reason = "the Writer fell behind"
	p.gap(&lost)
}

// brokenPipe sends SIGPIPE to a run whose output no Writer takes, once and only while it runs: the kernel would do the same
// to a local program, when the other end of its pipe is closed. After a gap the run is unknown, and gets nothing.
func (p *process) brokenPipe(run uint64) {
	if run == 0 || run != p.run || p.cmd.attach || p.cmd.TTY || p.piped || p.discard || p.closed || p.status != nil {
		return
	}
	p.piped = true
	params := protocol.ProcessSignalParams{ProcessID: p.id, Signal: protocol.SignalPipe, Repeatable: repeatable(), OfRun: protocol.OfRun{Run: run}}
	// If the server refuses, the program goes on and its output is discarded.
	p.c.queue(&call{method: protocol.MethodProcessSignal, params: params})
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

func (p *process) restarted(n *protocol.RestartedNotification) {
	p.status, p.run, p.piped = nil, uint64(n.Run), false
	if p.cmd.OnRestart != nil {
		p.inOrder(n.Seq, func() { p.cmd.OnRestart(*n) })
	}
}

func (p *process) ready(n *protocol.ReadyNotification) {
	if p.cmd.OnReady != nil {
		p.inOrder(n.Seq, func() { p.cmd.OnReady(n.Run) })
	}
}

// inOrder makes a call of the caller's function in the order of Stdout.
func (p *process) inOrder(seq uint64, call func()) {
	if p.discard {
		return
	}
	if p.out == nil {
		p.out = &lane{w: io.Discard}
	}
	p.push(p.out, mark{first: seq, call: call})
}

// skip records that the server no longer had some events: another run may have begun, and ended.
func (p *process) skip() {
	p.run = 0
	if p.cmd.Restart != nil {
		p.status, p.denied = nil, false
	}
}

func (p *process) gap(n *protocol.GapNotification) {
	g := &GapError{p.id, n.FromSeq, n.ToSeq, n.Bytes, n.Reason, 1}
	if p.cmd.OnGap == nil {
		if p.lost == nil {
			p.lost = g
			return
		}
		p.lost.FromSeq, p.lost.ToSeq = min(p.lost.FromSeq, g.FromSeq), max(p.lost.ToSeq, g.ToSeq)
		p.lost.Bytes += g.Bytes
		p.lost.Gaps++
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

// close records: the server has sent all events of the process.
func (p *process) close() {
	p.closed = true
	delete(p.c.processes, p.id)
	p.settle()
}

// evict records that the server gave the process up: after the exit of a run, or without an exit.
func (p *process) evict(reason string) {
	if p.status == nil {
		p.fail(fmt.Errorf("%w: %s", ErrProcessGone, reason))
		return
	}
	p.gaveUp = reason // process/closed follows
}

// closePipes ends the pipes whose output the caller has not read to the end, and the pipes for input.
func (p *process) closePipes(err error) {
	for _, pipe := range p.cmd.pipes {
		if _, output := pipe.(*io.PipeWriter); output && p.closed && p.failure == nil {
			p.failure = err // output is lost
		}
		pipe.CloseWithError(err)
	}
}

// fail records err as the reason why this client will not get the rest of the output.
func (p *process) fail(err error) {
	if p.closed || p.failure != nil {
		return
	}
	p.failure, p.discard = err, true
	p.c.room.Broadcast()
	p.settle()
}

// settle ends the process once there is nothing more to receive or to deliver.
func (p *process) settle() {
	if p.ended || !p.closed && p.failure == nil || p.out.busy() || p.err.busy() {
		return
	}
	p.ended = true
	delete(p.c.unsettled, p)
	err := p.failure
	if err == nil && p.lost != nil {
		err = p.lost
	}
	for _, pipe := range p.cmd.pipes {
		pipe.CloseWithError(err) // nil means io.EOF
	}
	close(p.done)
}

func (l *lane) busy() bool { return l != nil && l.running }

// deliver writes the output of l until nothing waits.
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
				if l.onEvent != nil {
					p.refused(l)
					return
				}
				p.brokenPipe(m.run)
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

// refused ends a process whose OnEvent has failed. l.first stays, so nothing more is acknowledged.
func (p *process) refused(l *lane) {
	if p.failure == nil {
		p.failure = fmt.Errorf("OnEvent: %w", l.err)
	}
	l.marks, l.running, p.discard, p.queued = nil, false, true, 0
	p.forget()
	p.c.room.Broadcast()
	p.settle()
}

// deliverOne delivers a mark without the lock, because the caller's code may take long.
func (p *process) deliverOne(l *lane, m mark, data []byte) error {
	if m.gap == nil && m.call == nil && l.err != nil {
		return nil
	}
	p.c.mu.Unlock()
	defer p.c.mu.Lock()
	switch {
	case m.gap != nil:
		p.cmd.OnGap(*m.gap)
		return nil
	case m.call != nil:
		m.call()
		return nil
	case m.exit != nil:
		return l.onEvent(Event{Seq: m.last, Exit: m.exit})
	case l.onEvent != nil:
		e := Event{Seq: m.last, Stream: m.stream, Output: data}
		if m.atMs > 0 {
			e.At = time.UnixMilli(int64(m.atMs))
		}
		return l.onEvent(e)
	}
	n, err := l.w.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// acknowledge records how far all output was delivered. If the two lanes are at different positions,
// the lower position counts.
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
	if other := c.processes[p.id]; other != nil && other != p {
		return // p has closed, and another process has the id
	}
	c.acks[p.id] = seq
	if p.closed && seq == p.last {
		c.lastAcks[p.id] = lastAck{seq: seq}
	}
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

// exit records the end of the program. Once WaitDelay has passed, exit kills the descendants that still
// hold the output open.
func (p *process) exit(n *protocol.ExitedNotification) {
	status := n.ExitStatus
	p.status, p.denied = &status, n.SandboxDenied
	if l := p.out; l != nil && l.onEvent != nil && !p.discard {
		p.push(l, mark{first: n.Seq, last: n.Seq, exit: &status})
	}
	if p.cmd.WaitDelay == 0 {
		return
	}
	time.AfterFunc(max(p.cmd.WaitDelay, 0), func() {
		p.c.mu.Lock()
		over := p.closed || p.failure != nil || p.status == nil || p.status.Run != status.Run
		p.c.mu.Unlock()
		if !over {
			_, _ = p.terminate(p.c.ctx, 0, uint64(status.Run)) // the server's answer is the closed event
		}
	})
}

// result returns the error of Wait for a process that has ended.
func (p *process) result() error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var errs []error
	switch {
	case p.failure != nil:
		return fmt.Errorf("process %s: %w", p.id, p.failure)
	case p.status == nil:
		errs = append(errs, fmt.Errorf("process %s: %w: the process has ended, and the server no longer had its exit status", p.id, ErrProcessGone))
	case p.status.ExitCode != 0 || p.gaveUp != "":
		errs = append(errs, &ExitError{ProcessID: p.id, Status: *p.status, SandboxDenied: p.denied, GivenUp: p.gaveUp})
	}
	if p.lost != nil {
		errs = append(errs, p.lost)
	}
	if len(errs) == 0 { // as in os/exec, the exit status has precedence over copy errors
		for _, err := range []error{p.out.failed(), p.err.failed(), p.input} {
			if err != nil {
				return &CopyError{err}
			}
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (l *lane) failed() error {
	if l == nil {
		return nil
	}
	return l.err
}
