// Package turns bounds the calls that may wait for a filesystem.
package turns

import (
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// fileHangs is how long a file call may take before it counts as one that hangs.
const fileHangs = 10 * time.Second

// Turns bounds the file calls of all connections: each holds a thread while its filesystem
// does not answer, also after the end of its connection. A connection without a call under way
// may have one when the others have none left. Any goroutine may call its methods.
type Pool struct {
	all, most int // with calls under way, and without
	hangs     time.Duration

	mu            sync.Mutex
	running, late int // late ones run, too, and count as hanging
	waiting       []*Waiter
}

// Waiter is a connection that may wait for a turn.
type Waiter struct{ Told func() }

// New returns turns for as many calls as threads, and for 3 at least.
func New(threads int) *Pool {
	most := max(threads, 3)
	return &Pool{all: most * 2 / 3, most: most, hangs: fileHangs}
}

// Take takes a turn for a connection that has so many calls under way. Without one, w is told
// when there may be one; and if all turns hang, there is an error instead.
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
		return false, protocol.Errorf(protocol.CodeInternal, "%d filesystem calls have had no answer for %v, which is the most: end what keeps their filesystems from answering", t.late, t.hangs)
	}
	t.waiting = append(t.waiting, w)
	return false, nil
}

// Run makes a call that has a turn, and gives the turn back.
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
		if t.late >= t.all { // who waits for one of these is refused
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

// Close makes a call that is made in any case, at the end of a connection.
func (t *Pool) RunAnyway(call func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	t.Run(call)
}

// Forget says that the connection of w, which waits or was told, takes no turn. Others may.
func (t *Pool) Forget(w *Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(other *Waiter) bool { return other == w })
	t.tell(t.most - t.running)
}

// tell has up to n of those that wait look again.
func (t *Pool) tell(n int) {
	for ; n > 0 && len(t.waiting) > 0; n-- {
		t.waiting[0].Told()
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
	}
}

// Hanging is how many calls have had no answer for long.
func (t *Pool) Hanging() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late
}
