package connection

import (
	"sync"

	"github.com/b6f6fdd7/troupe/internal/budget"
)

// admission bounds the unanswered requests of a connection: their number, and the bytes of their
// frames. The reader waits for a place before reading the socket. A place is free again once the
// answer has been written.
type admission struct {
	maxRequests int
	memory      *budget.Account // of the connection: memory held by requests

	mu       sync.Mutex
	free     sync.Cond
	requests int
	bytes    int
	released uint64 // places freed since the beginning
	watched  bool   // the actor looks at stillFull from time to time
	over     bool   // the reader waits for memory
	closed   bool
}

// maxPendingBytes bounds the bytes. A single request counts for a quarter at most: a large request
// does not fill the admission alone, because the next request may be a signal.
const maxPendingBytes = 16 << 20

func newAdmission(maxRequests int, memory *budget.Account) *admission {
	a := &admission{maxRequests: maxRequests, memory: memory}
	a.free.L = &a.mu
	return a
}

func counted(bytes int) int { return min(bytes, maxPendingBytes/4) }

func (a *admission) full() bool { return a.requests >= a.maxRequests || a.bytes >= maxPendingBytes }

// wait blocks until another request may be read. After close, wait returns false. If wait has to
// block and nobody is looking, wait first calls full; the actor must then call stillFull until the
// answer is no. A connection with more than its own share of memory also waits while all
// connections together hold too much.
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

// stillFull reports whether the reader still waits, and how many places have been released. over:
// the reader waits because all connections together hold too much. After full false, nobody needs
// to look again.
func (a *admission) stillFull() (full, over bool, released uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched = a.full() || a.over
	return a.watched, a.over, a.released
}

// isFull reports whether the next request would wait.
func (a *admission) isFull() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.full() || a.over
}

// take counts a request of so many bytes, at least 1.
func (a *admission) take(bytes int) {
	a.memory.Force(bytes) // the request is in memory already
	a.mu.Lock()
	a.requests++
	a.bytes += counted(bytes)
	a.mu.Unlock()
}

// light is the weight of a request whose bytes have another bound.
const light = 1

// lighten reduces the weight of a request to light. The account holds the bytes until lightened.
func (a *admission) lighten(bytes int) int {
	a.mu.Lock()
	a.bytes -= counted(bytes) - light
	a.mu.Unlock()
	a.free.Signal()
	return light
}

// lightened gives the bytes of a light request back to the account.
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
