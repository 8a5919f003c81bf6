package transport

import (
	"fmt"
	"sync/atomic"
	"time"
)

// assembly is the message that is being read: its buffer, and what bounds that. Its reader
// owns it, but for limit.
type assembly struct {
	memory Memory // nil: nothing bounds all connections together
	buf    []byte
	taken  int          // of memory, for buf
	limit  atomic.Int64 // bytes of a message, less than the connection allows; 0: as many
}

const (
	// keepBuffer is how large a buffer is kept for the next message, in bytes; where memory is
	// bounded it is keepBounded, for each idle connection may have one.
	keepBuffer  = 256 << 10
	keepBounded = 64 << 10
	// decodedFactor is what is taken of memory for each byte of a buffer: for itself, and for
	// what its reader makes of it before the next message begins.
	decodedFactor = 2
)

// begin makes the buffer ready for the next message: nobody uses the last one any more.
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

// most is how many bytes a message may have now, where the connection allows max.
func (a *assembly) most(max int) int {
	if limit := a.limit.Load(); limit > 0 {
		return min(max, int(limit))
	}
	return max
}

// grow doubles the buffer, up to max bytes. It may wait for memory, and says how long: that is
// not the other side's time.
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
	larger := make([]byte, len(a.buf), size) // not slices.Grow, which rounds up
	copy(larger, a.buf)
	a.buf = larger
	return waited, nil
}

// memoryError means that a message found no memory.
type memoryError struct{ why error }

func (e *memoryError) Error() string  { return "transport: a message was given up: " + e.reason() }
func (e *memoryError) Unwrap() error  { return e.why }
func (e *memoryError) reason() string { return e.why.Error() + ": try again later" }

// A slowError means that a message came too slowly.
type slowError struct{}

func (slowError) Error() string { return "transport: " + slowError{}.reason() }
func (slowError) reason() string {
	return fmt.Sprintf("an unfinished message did not grow by %d bytes within %v: connect again, and send without pauses", paceBytes, paceTime)
}
