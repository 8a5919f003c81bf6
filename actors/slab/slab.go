// Package slab lends the buffers into which output is read. With a new buffer for each read, a fast pipe would
// make the collector run a hundred times a second. So buffers are used again, and each counts its holders.
package slab

import (
	"sync"
	"sync/atomic"
)

// Size is the size of a Slab, in bytes.
const Size = 128 << 10

// Memory has holders, and is used for something else when the last holder has released it. Any goroutine may call its methods.
type Memory interface {
	// Hold adds a holder. During the call the caller, or another holder, holds the memory.
	Hold()
	// Release takes a holder away. This holder no longer touches the memory.
	Release()
}

// Hold holds m. Nil stands for memory that was not lent.
func Hold(m Memory) {
	if m != nil {
		m.Hold()
	}
}

// Release releases m. Nil stands for memory that was not lent.
func Release(m Memory) {
	if m != nil {
		m.Release()
	}
}

// Slab is a buffer with several holders. When the last holder has released a Slab, Get lends the Slab again. A
// Slab that is never released is ordinary garbage, so a holder who cannot tell when to release may drop the
// Slab.
//
// A nil *Slab stands for memory that was not lent: Hold and Release do nothing. Any goroutine may call any
// method.
type Slab struct {
	holders atomic.Int32
	// buf begins at a page, as the pages do from which the kernel copies. If the destination of a copy lies 1 to
	// 31 bytes further in its page than the source, AMD processors take four times as long
	// (BenchmarkReadOffset).
	buf *[Size]byte
}

// Memory of this size comes in whole pages.
var free = sync.Pool{New: func() any { return &Slab{buf: new([Size]byte)} }}

// Get lends a Slab with one holder. Its content means nothing.
func Get() *Slab {
	s := free.Get().(*Slab)
	s.holders.Store(1)
	return s
}

// Bytes returns the buffer. Only the first holder may write, and only while there is no other holder.
func (s *Slab) Bytes() []byte { return s.buf[:] }

// Hold adds a holder. During the call the caller, or another holder, holds s.
func (s *Slab) Hold() {
	if s != nil {
		s.holders.Add(1)
	}
}

// Release takes a holder away. This holder no longer touches the buffer. Without a holder Release panics,
// because the next holder would see its bytes change.
func (s *Slab) Release() {
	if s == nil {
		return
	}
	switch n := s.holders.Add(-1); {
	case n == 0:
		if poisoned {
			clear(s.buf[:])
		}
		free.Put(s)
	case n < 0:
		panic("slab: released more often than held")
	}
}
