// Package turns bounds the calls that may wait for a filesystem.
package turns

import (
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// hangTime is how long a call may take before it counts as hanging.
const hangTime = 10 * time.Second

// Pool has the turns of all connections. A call holds a thread until its filesystem answers,
// even after the end of its connection, so a call needs a turn. Some turns are kept for
// connections without a call. Any goroutine may call the methods of a Pool.
type Pool struct {
	// Fixed. A connection with calls under way gets a turn while fewer than all are running, and a
	// connection without calls while fewer than most are.
	all, most int
	hangs     time.Duration // hangTime, or less in tests

	mu      sync.Mutex // guards the fields below
	running int        // calls that have a turn
	late    int        // running calls that hang
	waiting []*Waiter  // in the order of their Take
}

// Waiter stands for a connection that waits for a turn. Told says that there may be a turn now: call Take
// again. The Pool calls Told with a lock held, so Told only sends a message.
type Waiter struct{ Told func() }

// New returns a Pool with as many turns as threads, and with 3 at least.
func New(threads int) *Pool {
	most := max(threads, 3)
	return &Pool{all: most * 2 / 3, most: most, hangs: hangTime}
}

// Take takes a turn for a connection with under calls under way. Without a turn, ok is false, and w is
// told when to try again. If the calls of all turns hang, the result is an error, and w is not told.
func (t *Pool) Take(under int, w *Waiter) (ok bool, err *protocol.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.all
	if under == 0 {
		most = t.most
	}
	switch {
	case t.running < most:
		t.running++
		return true, nil
	case t.late >= most:
		return false, protocol.Errorf(protocol.KindHangs, protocol.CodeInternal, "%d filesystem calls have had no answer for %v, which is the most: end what keeps their filesystems from answering", t.late, t.hangs)
	}
	t.waiting = append(t.waiting, w)
	return false, nil
}

// Run makes a call that has a turn, and gives back the turn.
func (t *Pool) Run(call func()) {
	done, late := false, false
	timer := time.AfterFunc(t.hangs, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if done {
			return
		}
		late = true
		t.late++
		if t.late >= t.all { // Take refuses those that wait
			t.tell(len(t.waiting))
		}
	})
	defer func() {
		timer.Stop()
		t.mu.Lock()
		defer t.mu.Unlock()
		done = true
		t.running--
		if late {
			t.late--
		}
		t.tell(t.most - t.running)
	}()
	call()
}

// RunAnyway makes a call that cannot wait for a turn: closing files at the end of a connection.
func (t *Pool) RunAnyway(call func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	t.Run(call)
}

// Forget says that the connection of w will not take a turn: another connection is told instead.
func (t *Pool) Forget(w *Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(other *Waiter) bool { return other == w })
	t.tell(t.most - t.running)
}

// tell tells the first n of the waiting connections. The caller holds mu.
func (t *Pool) tell(n int) {
	for ; n > 0 && len(t.waiting) > 0; n-- {
		t.waiting[0].Told()
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
	}
}

// Hanging returns how many calls hang.
func (t *Pool) Hanging() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late
}
