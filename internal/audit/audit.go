// Package audit keeps a record of what clients do: a line of JSON for each event. docs/AUDIT.md
// describes the events, and docs/decisions has the reasons.
//
// # Where to look
//
//   - event.go: the events
//   - audit.go: the Log: order, and what happens when the sink is full or fails
//   - sink.go: where lines go: stderr, syslog, journald, a file
//   - allowance.go: how much one identity may write
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxQueued bounds the lines that wait for the sink, in bytes.
	maxQueued = 16 << 20
	// lineCost is the memory of a waiting line beside its bytes.
	lineCost = 100
	// hangs is how long a write may take before starts no longer wait for the sink.
	hangs = 5 * time.Second
	// tick is how often the record tries again after a failure.
	tick = time.Second
	// closeTime is how long Close waits for the sink.
	closeTime = 5 * time.Second
)

// The errors of this package.
var (
	errQueue  = fmt.Errorf("%d bytes wait to be written", maxQueued)
	errHangs  = fmt.Errorf("a write takes more than %v", hangs)
	errClosed = errors.New("the server stops")
)

// A Sink takes lines. One goroutine calls the methods.
type Sink interface {
	// Write writes a line with its newline, whole or not at all. If the error is a keptError, the sink
	// writes the rest of the line before the next line.
	Write(line []byte) error
	// Close saves all lines, and closes the sink.
	Close() error
}

// keptError is an error after a part of a line.
type keptError struct{ error }

func (k keptError) Unwrap() error { return k.error }

// Options are the options of a Log.
type Options struct {
	// Refuse refuses new starts while their lines cannot be written. If false, programs start, and
	// the lines are counted.
	Refuse bool
	// Argv puts all arguments of programs into the record. If false, the record has the program alone.
	Argv bool
	Log  *slog.Logger
}

// A Log is a record. A nil Log records nothing and costs nothing. Any goroutine may call the methods;
// none blocks, except Close. Each line passes through one bounded queue to one goroutine.
type Log struct {
	Options
	sink Sink
	wake chan struct{} // has a token when the writer has work
	over chan struct{} // closed when the writer has ended

	mu         sync.Mutex
	queue      []*entry  // the first is being written
	bytes      int       // of queue
	began      time.Time // when the write of the first began; zero: none is being written
	failed     error     // of the last write, or errHangs; nil: it succeeded
	lost       Lost
	allowances allowances
	closed     bool
}

// entry is a line in the queue.
type entry struct {
	line []byte
	then func(error) // guarded by Log.mu; nil: nobody waits for the line
}

// New returns a record that writes into sink.
func New(sink Sink, o Options) *Log {
	l := &Log{Options: o, sink: sink, wake: make(chan struct{}, 1), over: make(chan struct{}), allowances: make(allowances)}
	go l.write()
	go l.watch()
	return l
}

// Put records an event. If the queue is full, the event is counted as lost. If the allowance of whoever caused the event is
// used up, the event is counted as left out.
func (l *Log) Put(e Event) {
	if l == nil {
		return
	}
	l.add(e, nil)
}

// Start records the start of a program, and then calls then. If the program must not start, then gets an
// error. Start may call then on the goroutine of the caller, or later on another one: then must not block.
func (l *Log) Start(e ProcessStart, then func(error)) {
	if l == nil {
		then(nil)
		return
	}
	if err := l.add(e, then); err != nil {
		then(l.verdict(err))
	}
}

// Refused records a refused connection.
func (l *Log) Refused(remote, reason string) {
	l.Put(ConnectionRefused{Remote: remote, Reason: Text(reason)})
}

// Note describes the trouble of the record for people; "": there is none.
func (l *Log) Note() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stops := ""
	switch {
	case l.failed == nil && l.lost.Lines == 0:
		return ""
	case l.Refuse:
		stops = ", and no program starts"
	}
	return fmt.Sprintf("the audit log cannot be written%s: %v; %d lines are lost", stops, l.lost.Error, l.lost.Lines)
}

// Close writes everything in the queue and closes the sink. If that takes more than closeTime, Close
// returns an error with the number of lines in the queue.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.tell(true)
	l.closed = true
	l.mu.Unlock()
	l.awake()
	select {
	case <-l.over:
	case <-time.After(closeTime):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.lost.Lines + int64(len(l.queue)); n > 0 {
		return fmt.Errorf("%d lines of the audit log were not written: %s", n, cmp.Or(l.lost.Error, Text(errHangs.Error())))
	}
	return nil
}

// shown returns e without what the operator does not want in the record.
func (l *Log) shown(e Event) Event {
	if l.Argv {
		return e
	}
	first := func(argv List) List { return argv[:min(1, len(argv))] }
	switch e := e.(type) {
	case ProcessStart:
		e.Argv, e.Probe = first(e.Argv), first(e.Probe)
		return e
	case ProcessRefused:
		e.Argv = first(e.Argv)
		return e
	}
	return e
}

// verdict is the error for a start whose line was not written because of err; nil: the program starts.
func (l *Log) verdict(err error) error {
	if err == nil || !l.Refuse {
		return nil
	}
	return &RefusedError{err}
}

// RefusedError says that a start was refused because it could not be recorded.
type RefusedError struct{ Err error }

func (r *RefusedError) Error() string {
	return fmt.Sprintf("the start was refused because the server's audit log cannot be written: %v", r.Err)
}

// Advice says what to do.
func (r *RefusedError) Advice() string {
	return "the operator of the server makes room for the audit log, or starts the server with --audit-full continue; then try again"
}

func (r *RefusedError) Unwrap() error { return r.Err }

// add appends the line of e to the queue, unless the line is left out. If there is no room, add counts the line as lost and returns the reason.
func (l *Log) add(e Event, then func(error)) error {
	now := time.Now()
	text := line(l.shown(e), now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.allowances.admits(e, len(text), now) {
		return nil
	}
	return l.enqueue(&entry{text, then})
}

// enqueue appends to the queue, or counts e as lost. The caller holds mu.
func (l *Log) enqueue(e *entry) error {
	cost := len(e.line) + lineCost
	switch {
	case l.closed:
		return l.lose(errClosed)
	case l.bytes+cost > maxQueued:
		return l.lose(errQueue)
	}
	l.bytes += cost
	l.queue = append(l.queue, e)
	l.awake()
	if e.then != nil && l.failed == errHangs {
		e.then = nil
		return errHangs // the line is kept: it is written when the sink goes on
	}
	return nil
}

// tell records what was left out. The caller holds mu.
func (l *Log) tell(ends bool) {
	now := time.Now()
	for _, e := range l.allowances.tell(now, ends) {
		l.enqueue(&entry{line: line(e, now)})
	}
}

// lose counts a lost line, and returns why. The caller holds mu.
func (l *Log) lose(why error) error {
	if l.lost.Lines == 0 {
		l.lost.Since = time.Now()
	}
	l.lost.Lines++
	l.fails(why)
	return why
}

// fails records that the sink takes no line. The caller holds mu.
func (l *Log) fails(why error) {
	if l.failed == nil {
		l.Log.Error("the audit log cannot be written", "err", why, "startsRefused", l.Refuse)
	}
	l.failed, l.lost.Error = why, Text(why.Error())
}

func (l *Log) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write writes the queue until the end of Close.
func (l *Log) write() {
	defer close(l.over)
	for range l.wake {
		l.mu.Lock()
		closed := l.closed // nothing comes into the queue any more
		l.mu.Unlock()
		for {
			e, lost := l.next()
			if e == nil && lost.Lines == 0 {
				break
			}
			if err := l.writeOne(e, lost); e == nil && err != nil {
				break // the next tick tries again
			}
		}
		if closed {
			if err := l.sink.Close(); err != nil {
				l.Log.Error("close the audit log", "err", err)
			}
			return
		}
	}
}

// next returns the first line of the queue, and the lost lines that come before it.
func (l *Log) next() (*entry, Lost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now()
	if len(l.queue) == 0 {
		if l.lost.Lines == 0 {
			l.began = time.Time{}
		}
		return nil, l.lost
	}
	return l.queue[0], l.lost
}

// writeOne writes the number of lost lines, if any, and then the line of e, if any.
func (l *Log) writeOne(e *entry, lost Lost) (err error) {
	var kept keptError
	told := false
	if lost.Lines > 0 {
		err = l.sink.Write(line(lost, time.Now()))
		told = err == nil || errors.As(err, &kept)
	}
	tried := err == nil && e != nil
	if tried {
		err = l.sink.Write(e.line)
	}
	l.mu.Lock()
	l.began = time.Time{}
	if told {
		l.lost.Lines -= lost.Lines
		l.lost.Since = time.Now()
	}
	var then func(error)
	if e != nil {
		then = e.then
		l.bytes -= len(e.line) + lineCost
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	switch {
	case err != nil && (e == nil || tried && errors.As(err, &kept)):
		l.fails(err)
	case err != nil:
		l.lose(err)
	case l.failed != nil && l.lost.Lines == 0:
		l.failed, l.lost = nil, Lost{}
		l.Log.Warn("the audit log is written again", "linesLost", lost.Lines)
	}
	l.mu.Unlock()
	if then != nil {
		then(l.verdict(err))
	}
	return err
}

// watch tries again each second after a failure, and lets no start wait for a sink that hangs.
func (l *Log) watch() {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-l.over:
			return
		case <-ticks.C:
		}
		var waiting []func(error)
		l.mu.Lock()
		if !l.began.IsZero() && time.Since(l.began) > hangs {
			l.fails(errHangs)
			for _, e := range l.queue {
				if e.then != nil {
					waiting, e.then = append(waiting, e.then), nil
				}
			}
		}
		l.tell(false)
		l.mu.Unlock()
		for _, then := range waiting {
			then(l.verdict(errHangs))
		}
		l.awake()
	}
}
