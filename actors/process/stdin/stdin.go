// Package stdin has the queue of writes to the stdin of a process, across its runs: the part of
// each write that its programs have taken, and the answers. The package is a pure machine: the
// caller writes, and sends the answers. A single goroutine at a time may use a Queue.
package stdin

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
)

const (
	// maxWrites is how many of its latest writes a process remembers (exec-server wire §6).
	maxWrites = 4096
	// maxGuestWrites is how many of the latest writes of all guests together a process remembers.
	maxGuestWrites = 256
	// whole stands for all bytes of a write.
	whole = -1
	// endTime is how long a program may take to end after closing its stdin. Most such
	// programs have ended already, and the write is for the next run.
	endTime = 100 * time.Millisecond
)

// Request is a write, or closes stdin.
type Request[T any] struct {
	For   T // the caller's
	Write bool
	ID    repeat.ID // of a write: its writeId
	Guest bool      // the write is of a guest: it never pushes the id of another client's write out
	Chunk []byte
	Run   int // only this run; 0: any

	done bool // the end-of-file character was typed
}

// State is the state of the process when the caller asks for a step.
type State struct {
	Run      int  // the current run, or the last
	Between  bool // the run has ended, and its policy decides whether another follows
	Over     bool // the last run has ended
	Restarts bool // the process has a policy
	Dead     bool // the program of the run has ended, and its exit is not in the log yet
	Piped    bool // the program reads its stdin from here
}

// Do is the work of a Step.
type Do int

const (
	// Wait: there is nothing to do until the state changes, a request comes or the program reads.
	Wait Do = iota
	// Write asks to write Chunk, and for Wrote or Refused.
	Write
	// Close asks to close stdin, and for Closed. On a terminal Close asks to type the end-of-file character, and
	// for Typed.
	Close
	// Accepted, Ended and OtherRun ask to answer the request, and for Answered. Accepted: the
	// request is done. Ended: stdin was closed before the program took the whole write. OtherRun:
	// the request was for another run.
	Accepted
	Ended
	OtherRun
)

// Step is the next work for the oldest request.
type Step[T any] struct {
	Do    Do
	For   T         // of the request, but of Wait
	ID    repeat.ID // of Write
	Chunk []byte
}

// Queue has the unanswered requests, and remembers answered writes. The zero Queue is empty.
type Queue[T any] struct {
	// waiting are the unanswered requests, oldest first.
	waiting []Request[T] `lost:"clients write again"`
	// taken is how many bytes of a write the program has taken, or whole. Within a run, taken does
	// not shrink. The next run gets a partly taken write from its beginning.
	taken repeat.Memory[int]
	// guests is taken for the writes of guests.
	guests repeat.Memory[int]
	// ended means: the stdin of this run is closed, and this run gets nothing more.
	ended bool
	// refused is when this run first refused a write. Zero: this run has refused none.
	refused time.Time

	kept kept `lost:"of this server"`
}

// Add adds a request after all others.
func (q *Queue[T]) Add(r Request[T]) { q.waiting = append(q.waiting, r) }

// Len returns how many requests wait.
func (q *Queue[T]) Len() int { return len(q.waiting) }

// Open reports whether the program may get more. Between two runs Open tells of the last one.
func (q *Queue[T]) Open(s State) bool { return !s.Over && s.Piped && !q.ended }

// Drop forgets the requests for which gone returns true. The client sends unanswered requests
// again.
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

// Next returns the next step. Until the caller reports the step done, Next returns the same step.
func (q *Queue[T]) Next(s State) Step[T] {
	if len(q.waiting) == 0 || s.Between || s.Restarts && s.Dead {
		return Step[T]{} // the waiting requests are for the next run, if a run follows
	}
	r := &q.waiting[0]
	memory, _ := q.memory(r)
	taken, _ := memory.Get(r.ID)
	open := q.Open(s)
	switch step := (Step[T]{For: r.For}); {
	case r.Run != 0 && r.Run != s.Run:
		step.Do = OtherRun
		return step
	case !r.Write && open && !r.done:
		step.Do = Close
		return step
	case !r.Write, taken == whole:
		step.Do = Accepted
		return step
	case !open:
		step.Do = Ended
		return step
	default:
		step.Do, step.ID, step.Chunk = Write, r.ID, r.Chunk[min(taken, len(r.Chunk)):] // less of another chunk with the same id
		return step
	}
}

// Wrote records that the program took n bytes of the chunk of the last step. Wrote reports
// whether n was the whole chunk. If not, there is no room until the program reads.
func (q *Queue[T]) Wrote(n int) (all bool) { return q.took(n, true) }

// Refused records that the program took n bytes of the chunk, and that its stdin is closed. With
// restarts, the program may have ended without news yet: the caller asks again after wait. A zero
// wait means: stdin is closed for good.
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
	memory, most := q.memory(r)
	taken, _ := memory.Get(r.ID)
	taken = min(taken, len(r.Chunk)) + n
	if taken == len(r.Chunk) && open {
		taken = whole
	}
	if taken != 0 {
		memory.Put(r.ID, taken, most)
		q.kept.put(r.Guest, r.ID, taken)
	}
	return taken == whole
}

// Found records that the program has got n bytes more of a write, of which an earlier server has told nobody. last: these are the last of the write. Guests write
// again under the same id, too.
func (q *Queue[T]) Found(id repeat.ID, n int, last bool) {
	for _, guest := range []bool{false, true} {
		memory, most := q.memory(&Request[T]{Guest: guest})
		taken, _ := memory.Get(id)
		if taken == whole {
			continue
		}
		if taken += n; last {
			taken = whole
		}
		memory.Put(id, taken, most)
		q.kept.put(guest, id, taken)
	}
}

// memory returns the memory that has the write r, and how many writes it has at most.
func (q *Queue[T]) memory(r *Request[T]) (*repeat.Memory[int], int) {
	if r.Guest {
		return &q.guests, maxGuestWrites
	}
	return &q.taken, maxWrites
}

// Closed records the end of stdin.
func (q *Queue[T]) Closed() { q.ended = true }

// Typed records that the end-of-file character was typed on a terminal. A terminal has no end: the program gets later
// writes.
func (q *Queue[T]) Typed() { q.waiting[0].done = true }

// Answered removes the oldest request.
func (q *Queue[T]) Answered() {
	q.waiting[0] = Request[T]{}
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// NextRun records the beginning of another run.
func (q *Queue[T]) NextRun() {
	q.ended, q.refused = false, time.Time{}
	again := func(n int) int {
		if n != whole {
			n = 0
		}
		return n
	}
	q.taken.Change(again)
	q.guests.Change(again)
	q.kept.changed()
}
