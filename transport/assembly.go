package transport

import (
	"fmt"
	"sync/atomic"
	"time"
)

// An assembly reads one message into a buffer and accounts for the memory of the buffer. The reading
// goroutine owns all fields except limit.
type assembly struct {
	memory Memory // nil: the memory of all connections together is not bounded
	buf    []byte
	taken  int          // bytes taken from memory for buf
	limit  atomic.Int64 // bytes of a message; 0: as many as the connection allows
}

const (
	// keepBuffer is the largest buffer, in bytes, kept for the next message. If memory is bounded,
	// keepBounded is the largest: each idle connection may keep such a buffer.
	keepBuffer  = 256 << 10
	keepBounded = 64 << 10
	// decodedFactor is how many bytes of memory grow takes for each byte of the buffer: a byte for the
	// buffer, and another for the decoded message.
	decodedFactor = 2
)

// open opens the account of the connection; nil: its memory is not bounded.
func (a *assembly) open(account func() Memory) {
	if account != nil {
		a.memory = account()
	}
}

// close gives all memory back, and ends a wait for more. Any goroutine may call close.
func (a *assembly) close() {
	if a.memory != nil {
		a.memory.Close()
	}
}

// begin empties the buffer for the next message. The caller no longer uses the previous message.
func (a *assembly) begin() {
	keep := keepBuffer
	if a.memory != nil {
		keep = keepBounded
	}
	if cap(a.buf) > keep {
		a.buf = nil
	}
	a.buf = a.buf[:0]
	if a.taken > 0 {
		a.memory.Give(a.taken)
		a.taken = 0
	}
}

// most returns the largest size of a message in bytes now. max is the limit of the connection.
func (a *assembly) most(max int) int {
	if limit := a.limit.Load(); limit > 0 {
		return min(max, int(limit))
	}
	return max
}

// grow doubles the buffer, up to max bytes. grow may wait for memory and returns how long: the caller
// must not count this time against the other side.
func (a *assembly) grow(max int) (waited time.Duration, err error) {
	size := min(max, 2*cap(a.buf))
	if size < minBuffer {
		size = min(max, minBuffer)
	}
	if more := decodedFactor*size - a.taken; a.memory != nil && more > 0 && size > keepBounded/decodedFactor {
		begin := time.Now()
		if err := a.memory.Take(more, paceTime); err != nil {
			return 0, &memoryError{err}
		}
		a.taken, waited = a.taken+more, time.Since(begin)
	}
	larger := make([]byte, len(a.buf), size) // slices.Grow would round the size up
	copy(larger, a.buf)
	a.buf = larger
	return waited, nil
}

// A memoryError reports a message for which there was no memory.
type memoryError struct{ why error }

func (e *memoryError) Error() string  { return "transport: a message was given up: " + e.reason() }
func (e *memoryError) Unwrap() error  { return e.why }
func (e *memoryError) reason() string { return e.why.Error() + ": try again later" }

// A slowError reports a message whose bytes came too slowly.
type slowError struct{}

func (slowError) Error() string { return "transport: " + slowError{}.reason() }
func (slowError) reason() string {
	return fmt.Sprintf("an unfinished message did not grow by %d bytes within %v: connect again, and send without pauses", paceBytes, paceTime)
}
