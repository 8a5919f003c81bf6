package actors

import "sync"

// admission bounds the requests of one connection that have no answer yet: by
// their number, and by the bytes of their frames. The reader waits for a place
// before it reads the socket; a place is free when the answer has been written.
type admission struct {
	maxRequests int

	mu       sync.Mutex
	free     sync.Cond
	requests int
	bytes    int
	released uint64 // places freed since the beginning
	watched  bool   // somebody looks whether it goes on
	closed   bool
}

// maxPendingBytes is the bound on the bytes, of which one request counts for a quarter at most.
const maxPendingBytes = 16 << 20

func newAdmission(maxRequests int) *admission {
	a := &admission{maxRequests: maxRequests}
	a.free.L = &a.mu
	return a
}

func (a *admission) full() bool { return a.requests >= a.maxRequests || a.bytes >= maxPendingBytes }

// wait blocks until one more may be read, and reports whether: after close none
// may. If it has to wait and nobody is looking, it first calls full: somebody must then ask
// stillFull until that says no.
func (a *admission) wait(full func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full() && !a.closed && !a.watched {
		a.watched = true
		full()
	}
	for a.full() && !a.closed {
		a.free.Wait()
	}
	return !a.closed
}

// stillFull reports whether it is full, and how many have been released. If it is
// not, nobody needs to look again.
func (a *admission) stillFull() (full bool, released uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched = a.full()
	return a.watched, a.released
}

// take counts a request of so many bytes, at least 1.
func (a *admission) take(bytes int) {
	a.mu.Lock()
	a.requests++
	a.bytes += bytes
	a.mu.Unlock()
}

// lighten has a request of so many bytes weigh no more than what it returns: something else
// bounds its bytes.
func (a *admission) lighten(bytes int) int {
	const light = 1
	a.mu.Lock()
	a.bytes -= bytes - light
	a.mu.Unlock()
	a.free.Signal()
	return light
}

func (a *admission) release(bytes int) {
	a.mu.Lock()
	a.requests--
	a.bytes -= bytes
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
