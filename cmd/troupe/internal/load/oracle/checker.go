package oracle

import (
	"fmt"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	Nothing Form = ""        // no output is expected
	Plain   Form = "plain"   // the bytes of the run's key
	Lines   Form = "lines"   // lines with a clock; their bodies are the bytes of the run's key
	Echo    Form = "echo"    // the typed bytes: the bytes of the key of stdin
	Answers Form = "answers" // lines with a clock; their bodies are answers about stdin
)

// A Checker checks a single process, as received by a connection or by a session over its cuts. Any goroutine may call any method.
type Checker struct {
	base stream.Key
	spec Spec
	o    Options

	mu      sync.Mutex
	st      State
	next    uint64 // the next expected seq
	over    bool   // End or Abandon was called
	killed  bool   // the present run
	given   bool   // the server gave the process up
	ended   bool   // the server says that it ended the present run
	refused *refusal
	exited  bool  // the present run
	late    bool  // output after exited was found
	strange bool  // there was output of an unexpected stream
	typed   int64 // bytes of stdin accepted by the server; -1: unknown
	out     *reader
	err     *reader
	numbers [2]uint64 // of the present run and of the run before

	// Answers about stdin.
	answers struct {
		bytes  int64
		digest stream.Digest
		end    bool
		wrong  bool
	}

	// The places of repeats after a resume, in the streams of the present run. -1: unknown.
	repeats [2]int64
	again   bool     // the present events are repeats
	first   uint64   // from this seq on, output is of the present run
	marks   [64]mark // of the last events, by their seq

	// The present event.
	now time.Time
	seq uint64
}

// A refusal is a refused write of the present run.
type refusal struct {
	detail string
	seen   seen
}

// maxBody bounds the body of a line, since a Checker may hold a line.
const maxBody = 64 << 10

// New returns a Checker of a process before its begin. An invalid Spec is an error.
func New(s Spec, o Options) (*Checker, error) {
	for name, c := range map[string]Content{"stdout": s.Stdout, "stderr": s.Stderr} {
		switch c.Form {
		case Nothing, Plain, Echo, Answers:
		case Lines:
			if c.Body < 1 || c.Body > maxBody {
				return nil, fmt.Errorf("oracle: %s has lines with bodies of %d bytes; a body has 1 to %d bytes", name, c.Body, maxBody)
			}
		default:
			return nil, fmt.Errorf("oracle: %s has the form %q; use plain, lines, echo, answers or none", name, c.Form)
		}
		if c.Bytes < 0 || c.Block < 0 {
			return nil, fmt.Errorf("oracle: %s has %d bytes and blocks of %d bytes; neither may be negative", name, c.Bytes, c.Block)
		}
	}
	if s.Stderr.Form == Echo || s.Stderr.Form == Answers || s.TTY && s.Stderr.Form != Nothing {
		return nil, fmt.Errorf("oracle: stderr has the form %q; it may be plain or lines, and on a terminal none", s.Stderr.Form)
	}
	c := &Checker{base: stream.Of(s.Seed, s.Session, s.Process, 0, ""), spec: s, o: o, next: 1, typed: -1}
	c.begin(1)
	return c, nil
}

// begin begins a run.
func (c *Checker) begin(run int) {
	c.st.Run, c.st.PID, c.exited, c.late, c.killed, c.ended, c.strange = run, 0, false, false, false, false, false
	c.first = c.next
	c.repeats = [2]int64{-1, -1}
	kind := protocol.Stdout
	if c.spec.TTY {
		kind = protocol.PTY
	}
	c.out = &reader{c: c, stream: kind, run: run, text: newText(c.base, c.spec.Stdout, true)}
	c.err = nil
	if c.spec.Stderr.Form != Nothing {
		c.err = &reader{c: c, stream: protocol.Stderr, run: run, text: newText(c.base, c.spec.Stderr, false)}
	}
}

func (c *Checker) readers() []*reader {
	if c.err == nil {
		return []*reader{c.out}
	}
	return []*reader{c.out, c.err}
}

// reader returns the reader of a stream; nil: no output is expected there.
func (c *Checker) reader(s protocol.Stream) *reader {
	switch {
	case s == c.out.stream:
		return c.out
	case c.err != nil && s == protocol.Stderr:
		return c.err
	}
	return nil
}

// Event checks an event. e and its Data are used until Event returns. The caller hands over events in the order of seq; for the peer's
// server, the caller sorts the events first. An event "resumed" says that the events after its Seq follow. Events received before the cut
// are then repeats, and must be equal. The Checker remembers the last 64 events. Of repeats of older events, it compares the output of the
// present run, from the first bytes that tell their place on.
func (c *Checker) Event(e *Event, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.now, c.seq = at, e.Seq
	switch e.Kind {
	case "resumed":
		c.resume(e.Seq)
		return
	case replayBegin:
		c.replayFrom(e)
		return
	}
	c.st.Events++
	if c.again && e.Seq <= c.st.Seq {
		c.repeat(e)
		return
	}
	c.again = false
	switch from := e.first(); {
	case from > c.next:
		c.seqFinding(SeqHole, e, fmt.Sprintf("seq %d came after %d", e.Seq, c.next-1))
	case from < c.next:
		c.seqFinding(SeqAgain, e, fmt.Sprintf("seq %d came after %d", e.Seq, c.next-1))
	}
	c.next = max(c.next, e.Seq+1)
	if c.st.Closed {
		c.order(e, e.Kind+" came after closed")
	}
	c.apply(e)
	c.st.Seq = max(c.st.Seq, e.Seq)
	m := mark{seq: e.Seq, at: [2]int64{-1, -1}, sum: sumOf(e)}
	for i, r := range c.readers() {
		if r.bad == nil && !r.fresh && r.pos == r.front {
			m.at[i] = r.pos
		}
	}
	c.marks[e.Seq%uint64(len(c.marks))] = m
}

// apply checks an event, but no repeat.
func (c *Checker) apply(e *Event) {
	switch e.Kind {
	case "output":
		if c.exited && !c.st.Closed && !c.spec.LateOutput && !c.late {
			c.late = true
			c.order(e, "output came after exited")
		}
		r := c.reader(e.Stream)
		if r == nil {
			if !c.strange {
				c.strange = true
				c.report(Finding{Kind: Foreign, Run: c.st.Run, Stream: e.Stream, Bytes: int64(len(e.Data)), Got: quote(e.Data),
					Detail: "the program writes nothing to this stream"}, c.eventSeen(e))
			}
			return
		}
		r.feed(e.Data)
	case "exited":
		if c.exited {
			c.order(e, "exited came again")
		} else if e.Run != 0 && e.Run != c.st.Run {
			c.order(e, fmt.Sprintf("exited is of run %d, but the present run is %d", e.Run, c.st.Run))
		}
		if e.Reason != "" {
			c.ended = true
			if c.o.Ended != nil && !c.killed {
				c.o.Ended(e.Reason)
			}
		}
		c.checkExit(e)
		c.exited, c.st.Exited = true, true
	case "restarted":
		if !c.exited && !(c.spec.Observer && c.out.fresh) {
			c.order(e, "restarted came without exited")
		}
		switch {
		case !c.spec.Restarts:
			c.order(e, "restarted came, but nothing restarts the program")
		case e.Run != c.st.Run+1 && !(c.spec.Observer && c.out.fresh):
			c.order(e, fmt.Sprintf("restarted is of run %d after run %d", e.Run, c.st.Run))
		}
		c.finish()
		c.begin(max(e.Run, c.st.Run+1))
		c.st.Exited = false
	case "evicted":
		c.given = true
		if !c.killed {
			c.report(Finding{Kind: Exit, Run: c.st.Run, Detail: "the server gave the process up"}, c.eventSeen(e))
		}
	case "closed":
		c.finish()
		c.st.Closed = true
	case "gap":
		if e.From > e.Seq {
			c.order(e, fmt.Sprintf("a gap from seq %d to %d", e.From, e.Seq))
		}
		c.lose(e)
		if !c.spec.Observer {
			c.report(Finding{Kind: Missing, Run: c.st.Run, Offset: c.out.front, Detail: fmt.Sprintf("the server says that it dropped seq %d to %d; how many bytes that was shows later", e.From, e.Seq)}, c.gapSeen(c.out, e))
		}
	case "ready":
	default:
		c.order(e, fmt.Sprintf("there is no event %q", e.Kind))
	}
}

// lose makes the streams accept any place for their next bytes after a gap. If the process has a single stream, a gap with its bytes says
// which place that must be.
func (c *Checker) lose(gap *Event) {
	for _, r := range c.readers() {
		r.flush()
		if !r.fresh || r.gap.seq == 0 {
			r.gap = c.gapSeen(r, gap)
		}
		at := r.after // of a gap without output after it
		if !r.fresh {
			at = -1
			if r.bad == nil && r.pos == r.front {
				at = r.pos
			}
		}
		if r.after = -1; at >= 0 && gap.Bytes > 0 && c.err == nil && !c.spec.Restarts {
			r.after = at + int64(gap.Bytes)
		}
		r.bad, r.fresh = nil, true
	}
}

func (c *Checker) checkExit(e *Event) {
	s := &c.spec
	if c.given || c.ended || c.killed && (e.Signal == "SIGKILL" || e.Signal == "" && s.KilledCode != 0 && e.Code == s.KilledCode) {
		return
	}
	want := s.Signal
	if want == "" {
		want = fmt.Sprintf("exit code %d", s.Code)
	}
	if got := ending(e); got != want {
		c.report(Finding{Kind: Exit, Run: c.st.Run, Want: want, Got: got, Detail: "how the run ended"}, c.eventSeen(e))
		return
	}
	c.killed = false // the kill came too late: the streams must be whole
}

func ending(e *Event) string {
	if e.Signal != "" {
		return e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// finish ends the streams of the present run.
func (c *Checker) finish() {
	if c.st.Closed {
		return
	}
	any := c.excused()
	for _, r := range c.readers() {
		r.finish(any)
	}
	c.tellRefused()
	if any || c.out.fresh || c.typed < 0 {
		return
	}
	got := c.answers.bytes
	switch c.spec.Stdout.Form {
	case Echo:
		got = c.out.front - c.out.text.hello
		if c.out.text.endAt >= 0 {
			got = c.out.text.endAt - c.out.text.hello
		}
	case Answers:
	default:
		return
	}
	if got != c.typed && !c.answers.wrong {
		c.report(Finding{Kind: Stdin, Run: c.st.Run, Offset: min(got, c.typed), Bytes: max(got-c.typed, c.typed-got),
			Detail: fmt.Sprintf("the server accepted %d bytes of stdin, and the program read %d", c.typed, got)}, c.present())
	}
}

// excused reports whether the present run may end at any place of its streams.
func (c *Checker) excused() bool { return c.killed || c.given || c.ended }

// tellRefused reports the refused write, unless the end of the run excuses it.
func (c *Checker) tellRefused() {
	if r := c.refused; r != nil && !c.excused() {
		c.report(Finding{Kind: Answer, Run: c.st.Run, Detail: r.detail}, r.seen)
	}
	c.refused = nil
}

// hello takes the number and the pid of the present run from its hello.
func (c *Checker) hello(r *reader, number uint64, pid int) {
	c.st.PID = pid
	if r.text.number != number {
		c.numbers[1], c.numbers[0] = c.numbers[0], number
	}
	c.learn(number)
}

// learn gives the number of the run to the readers.
func (c *Checker) learn(number uint64) {
	for _, r := range c.readers() {
		t := &r.text
		if t.known && t.number != 0 {
			continue
		}
		guessed, key := t.known, t.sums
		t.learn(number)
		if guessed && t.sums != key {
			r.seenNow()
			r.found(Foreign, 0, r.front, nil, nil, "the hello names another run than the one that these bytes belong to")
		}
		if r.bad != nil && r != c.out {
			again := r.bad
			lost := r.lost
			r.bad = nil
			if lost > 0 {
				r.found(Altered, r.pos, lost, nil, nil, "too much came before the run was known, and could not be compared")
				r.fresh, r.after = true, -1
			}
			r.take(again)
		}
	}
}

// Typed sets how many bytes of stdin the server has accepted, in total.
func (c *Checker) Typed(total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.typed = total
}

// Refused says that the server refused stdin of the run. The answer may overtake the exited of a run that the server itself has ended, so the
// finding waits for the end of the run.
func (c *Checker) Refused(detail string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
	c.refused = &refusal{detail, c.present()}
	c.refused.seen.seq = c.st.Seq
	if c.st.Closed || c.over {
		c.tellRefused()
	}
}

// Killed says that the present run was killed, or will be killed soon. A killed run may end by SIGKILL at any place of its streams, or as the
// Spec says, at the end of its streams.
func (c *Checker) Killed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = c.killed || !c.exited
}

// End ends the check. Without closed, End reports a LostExit; without exited, too, unless the server gave the process up.
func (c *Checker) End(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.now, c.over = at, true
	c.finish()
	switch {
	case !c.st.Closed:
		detail := "closed never came"
		if !c.exited {
			detail = "neither exited nor closed came"
		}
		c.report(Finding{Kind: LostExit, Run: c.st.Run, Detail: detail}, c.lastSeen())
	case !c.exited && !c.given:
		c.report(Finding{Kind: LostExit, Run: c.st.Run, Detail: "closed came, and exited never did"}, c.lastSeen())
	}
}

// Abandon ends the check of a lost session, or of an observer that has left. Missing events are no finding then. Faults in the received
// events are findings.
func (c *Checker) Abandon(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.now, c.over, c.killed = at, true, true
	c.finish()
}

// Report reports a finding of the caller, such as Left or Answer. The Checker fills in the place: session, process, run, seq, time, cuts.
func (c *Checker) Report(kind Kind, detail string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
	s := c.present()
	s.seq = c.st.Seq
	c.report(Finding{Kind: kind, Run: c.st.Run, Detail: detail}, s)
}

// A State describes the events received so far.
type State struct {
	Run     int    // from 1
	Number  uint64 // of the present run, by its hello; 0: unknown
	PID     int    // of the present run, by its hello; 0: unknown
	Seq     uint64 // the last seq; 0: no event so far
	Exited  bool   // the present run
	Closed  bool
	Told    bool  // the server has told why it ended the present run, or gave the process up
	Checked int64 // compared bytes, over all runs and streams
	Events  int64
	Wrong   int64 // findings

	// Content is the number of content bytes of the present run by stream, without hello and end. Bytes without a certain place count, too,
	// so that a typing client can go on.
	Content [protocol.PTY + 1]int64
}

// State returns the present State.
func (c *Checker) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.st
	st.Number, st.Told = c.out.text.number, c.given || c.ended
	for _, r := range c.readers() {
		st.Content[r.stream] = r.came()
	}
	return st
}

// came returns how many bytes of the content have arrived.
func (r *reader) came() int64 {
	n := r.pos + r.lost + int64(len(r.bad)) - r.text.hello
	if r.bad == nil {
		n -= r.lost
	}
	if r.text.endAt >= 0 {
		n = min(n, r.text.endAt-r.text.hello)
	}
	return max(n, 0)
}
