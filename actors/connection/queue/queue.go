// Package queue decides which calls of a connection begin. A call waits for something slow: a disk, or another server.
//
// A Queue is a pure machine without actor, clock, goroutine or I/O. The owner begins each call from Next.
//
//	Add ─▶ waiting ─ Begin ─▶ running ─ Done ─▶ unwritten ─ Written ─▶
package queue

import "slices"

// A Call is a call in a queue.
type Call[T any] struct {
	// Of names the call for the owner of the queue. The machine returns Of and never reads it.
	Of T
	// Key: calls with the same key run one at a time, in the order of Add. "": no key.
	Key string
	// Large: a single large call runs until its answer is written.
	Large bool

	bytes int // of the answer
}

// A Queue has the calls of a connection.
type Queue[T any] struct {
	most   int // calls that run at a time
	window int // unwritten bytes from which on no call begins; 0: not bounded

	waiting   []*Call[T]
	running   int
	busy      map[string]bool // keys of running calls
	large     bool            // a large call runs, or its answer is not written
	unwritten int             // bytes of answers
}

// New returns a Queue that runs most calls at a time, and begins none while window bytes of answers are unwritten; 0: however many are.
func New[T any](most, window int) Queue[T] {
	return Queue[T]{most: most, window: window, busy: make(map[string]bool)}
}

// Waiting returns how many calls wait.
func (q *Queue[T]) Waiting() int { return len(q.waiting) }

// Running returns how many calls run.
func (q *Queue[T]) Running() int { return q.running }

// Add has a call wait for its turn.
func (q *Queue[T]) Add(c *Call[T]) { q.waiting = append(q.waiting, c) }

// Next returns the first call that may begin now, if there is any. The call waits until Begin.
func (q *Queue[T]) Next() (c *Call[T], ok bool) {
	if q.running >= q.most || q.window > 0 && q.unwritten >= q.window {
		return nil, false
	}
	for _, c := range q.waiting {
		if !q.busy[c.Key] && !(c.Large && q.large) {
			return c, true
		}
	}
	return nil, false
}

// Waits reports whether a call waits.
func (q *Queue[T]) Waits(c *Call[T]) bool { return slices.Contains(q.waiting, c) }

// Begin has a waiting call run, whether or not it is its turn.
func (q *Queue[T]) Begin(c *Call[T]) {
	i := slices.Index(q.waiting, c)
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.running++
	if c.Key != "" {
		q.busy[c.Key] = true
	}
	q.large = q.large || c.Large
}

// Done is when a running call has an answer of so many bytes.
func (q *Queue[T]) Done(c *Call[T], bytes int) {
	q.running--
	delete(q.busy, c.Key)
	c.bytes = bytes
	q.unwritten += bytes
}

// Written is when the answer of a call is with the kernel.
func (q *Queue[T]) Written(c *Call[T]) {
	q.unwritten -= c.bytes
	q.large = q.large && !c.Large
}
