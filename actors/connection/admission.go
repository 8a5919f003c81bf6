package connection

import (
	"sync"

	"github.com/b6f6fdd7/troupe/internal/budget"
)

// admission bounds the requests of one connection that have no answer yet: by
// their number, and by the bytes of their frames. The reader waits for a place
// before it reads the socket; a place is free when the answer has been written.
type admission struct {
	maxRequests int
	memory      *budget.Account // of the connection: what requests hold

	mu       sync.Mutex
	free     sync.Cond
	requests int
	bytes    int
	released uint64 // places freed since the beginning
	watched  bool   // somebody looks whether it goes on
	over     bool   // the reader waits for memory
	closed   bool
}

// maxPendingBytes is the bound on the bytes. One request counts for a quarter at most: a large one
// does not fill the admission alone, for what comes behind it may be a signal.
const maxPendingBytes = 16 << 20

func newAdmission(maxRequests int, memory *budget.Account) *admission {
	a := &admission{maxRequests: maxRequests, memory: memory}
	a.free.L = &a.mu
	return a
}

func counted(bytes int) int { return min(bytes, maxPendingBytes/4) }

func (a *admission) full() bool { return a.requests >= a.maxRequests || a.bytes >= maxPendingBytes }

// wait blocks until one more may be read, and reports whether: after close none
// may. If it has to wait and nobody is looking, it first calls full: somebody must then ask
// stillFull until that says no. A connection that holds more than is its own also waits while
// all connections together hold too much.
func (a *admission) wait(full func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.closed {
		room, over := a.memory.Over()
		if a.over = over; !over && !a.full() {
			return true
		}
		if !a.watched {
			a.watched = true
			full()
		}
		if !over {
			a.free.Wait()
			continue
		}
		a.mu.Unlock()
		select {
		case <-room:
		case <-a.memory.Done():
		}
		a.mu.Lock()
	}
	return false
}

// stillFull reports whether the reader waits still, and how many places have been released; over:
// for the sake of what all connections hold. If it does not, nobody needs to look again.
func (a *admission) stillFull() (full, over bool, released uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched = a.full() || a.over
	return a.watched, a.over, a.released
}

// take counts a request of so many bytes, at least 1.
func (a *admission) take(bytes int) {
	a.memory.Force(bytes) // it is here
	a.mu.Lock()
	a.requests++
	a.bytes += counted(bytes)
	a.mu.Unlock()
}

// light is what a request weighs whose bytes something else bounds.
const light = 1

// lighten has a request of so many bytes weigh light. They stay in memory, until lightened.
func (a *admission) lighten(bytes int) int {
	a.mu.Lock()
	a.bytes -= counted(bytes) - light
	a.mu.Unlock()
	a.free.Signal()
	return light
}

// lightened says that the bytes of such a request are gone.
func (a *admission) lightened(bytes int) { a.memory.Give(bytes - light) }

func (a *admission) release(bytes int) {
	a.memory.Give(bytes)
	a.mu.Lock()
	a.requests--
	a.bytes -= counted(bytes)
	a.released++
	a.mu.Unlock()
	a.free.Signal()
}

// close lets the reader go. Any number of times.
func (a *admission) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.free.Signal()
}
