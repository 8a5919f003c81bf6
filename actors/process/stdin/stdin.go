// Package stdin is the queue of writes to the stdin of one process, across its runs: which
// part of each write its programs have taken, and the answers. It is a pure machine: the
// caller writes, and sends the answers. One goroutine at a time may use a Queue.
package stdin

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
)

const (
	// maxWrites is how many of its latest writes a process remembers (exec-server wire §6).
	maxWrites = 4096
	// whole says of a write that all of it was taken.
	whole = -1
	// endTime is how long a program that has closed its stdin may take to end. Most such
	// programs have ended already, and the write is for the next run.
	endTime = 100 * time.Millisecond
)

// Request is a write, or closes stdin.
type Request[T any] struct {
	For   T // the caller's
	Write bool
	ID    repeat.ID // of a write: its writeId
	Chunk []byte
	Run   int // only this run; 0: any
}

// State is what the process is doing while a step is asked for.
type State struct {
	Run      int  // the current run, or the last
	Between  bool // the run has ended, and its policy decides whether another follows
	Over     bool // the last run has ended
	Restarts bool // the process has a policy
	Dead     bool // the program of the run has ended, and its end is not known to all yet
	Piped    bool // the program reads its stdin from here
}

// Do says what a Step asks for.
type Do int

const (
	// Wait: there is nothing to do until the state changes, a request comes or the program reads.
	Wait Do = iota
	// Write asks to write Chunk, and for Wrote or Refused.
	Write
	// Close asks to close stdin, and for Closed.
	Close
	// Accepted, Ended and OtherRun ask to answer the request, and for Answered. Accepted: it was
	// done. Ended: stdin was closed before all of the write was taken. OtherRun: the request was
	// for another run.
	Accepted
	Ended
	OtherRun
)

// Step is what is to be done for the oldest request.
type Step[T any] struct {
	Do    Do
	For   T // of the request, but of Wait
	Chunk []byte
}

// Queue has the requests that are not answered, and remembers writes that are. The zero
// Queue is empty.
type Queue[T any] struct {
	// waiting are the requests that are not answered, in the order in which they came.
	waiting []Request[T]
	// taken is how many bytes of a write the program has taken, or whole. It does not become less
	// within a run; the next run gets a write from its beginning, unless whole.
	taken repeat.Memory[int]
	// ended means that the stdin of this run is closed: this run gets nothing more.
	ended bool
	// refused is when this run first refused a write. Zero: it has not.
	refused time.Time
}

// Add adds a request after all others.
func (q *Queue[T]) Add(r Request[T]) { q.waiting = append(q.waiting, r) }

// Len is how many requests wait.
func (q *Queue[T]) Len() int { return len(q.waiting) }

// Drop forgets the requests for which gone returns true: they are not answered, so the client
// sends them again.
func (q *Queue[T]) Drop(gone func(T) bool) {
	kept := q.waiting[:0]
	for _, r := range q.waiting {
		if !gone(r.For) {
			kept = append(kept, r)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
}

// Next is what is to be done now. A step that was not reported done comes again.
func (q *Queue[T]) Next(s State) Step[T] {
	if len(q.waiting) == 0 || s.Between || s.Restarts && s.Dead {
		return Step[T]{} // what waits is for the next run, if one follows
	}
	r := &q.waiting[0]
	taken, _ := q.taken.Get(r.ID)
	open := !s.Over && s.Piped && !q.ended
	switch step := (Step[T]{For: r.For}); {
	case r.Run != 0 && r.Run != s.Run:
		step.Do = OtherRun
		return step
	case !r.Write && open:
		step.Do = Close
		return step
	case !r.Write, taken == whole:
		step.Do = Accepted
		return step
	case !open:
		step.Do = Ended
		return step
	default:
		step.Do, step.Chunk = Write, r.Chunk[min(taken, len(r.Chunk)):] // less of another chunk with the same id
		return step
	}
}

// Wrote records that the program took n bytes of the chunk of the last step. It reports false
// if that was not all: then there is no room until the program reads.
func (q *Queue[T]) Wrote(n int) (all bool) { return q.took(n, true) }

// Refused records that the program took n bytes, and no more because its stdin is closed. With
// restarts, the caller asks again after wait, for the program may have ended; zero wait: stdin
// is closed for good.
func (q *Queue[T]) Refused(now time.Time, n int, restarts bool) (wait time.Duration) {
	q.took(n, false)
	if q.refused.IsZero() {
		q.refused = now
	}
	if left := endTime - now.Sub(q.refused); restarts && left > 0 {
		return left
	}
	q.ended = true
	return 0
}

func (q *Queue[T]) took(n int, open bool) (all bool) {
	r := &q.waiting[0]
	taken, _ := q.taken.Get(r.ID)
	taken = min(taken, len(r.Chunk)) + n
	if taken == len(r.Chunk) && open {
		taken = whole
	}
	if taken != 0 {
		q.taken.Put(r.ID, taken, maxWrites)
	}
	return taken == whole
}

// Closed records that stdin was closed.
func (q *Queue[T]) Closed() { q.ended = true }

// Answered removes the oldest request.
func (q *Queue[T]) Answered() {
	q.waiting[0] = Request[T]{}
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// NextRun records that another run begins.
func (q *Queue[T]) NextRun() {
	q.ended, q.refused = false, time.Time{}
	q.taken.Change(func(n int) int {
		if n != whole {
			n = 0
		}
		return n
	})
}
