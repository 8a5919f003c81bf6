// Package slab lends the memory that output is read into. At the speed of a pipe a
// fresh buffer for each read would make the collector run a hundred times a second;
// so a buffer goes round, and who holds it is counted.
package slab

import (
	"sync"
	"sync/atomic"
)

// Size is what a Slab holds, in bytes.
const Size = 128 << 10

// Slab is a buffer that several hold: it is lent again when the last has released
// it. One that is never released is garbage like any other memory, so whoever
// cannot tell when he is done just drops it.
//
// A nil *Slab stands for memory that is not lent: holding and releasing it does
// nothing. Any goroutine may call any method.
type Slab struct {
	holders atomic.Int32
	// buf begins at a page, as what the kernel copies into it does: where a copy's
	// destination lies 1 to 31 bytes further in its page than the source, AMD processors
	// take four times as long for it. (BenchmarkReadOffset.)
	buf *[Size]byte
}

// Memory of this size comes in whole pages.
var free = sync.Pool{New: func() any { return &Slab{buf: new([Size]byte)} }}

// Get lends a slab, held once. What is in it means nothing.
func Get() *Slab {
	s := free.Get().(*Slab)
	s.holders.Store(1)
	return s
}

// Bytes is the buffer. It may be written by its first holder, and no longer once
// there is another.
func (s *Slab) Bytes() []byte { return s.buf[:] }

// Hold adds a holder. The caller holds s, or knows of one who does meanwhile.
func (s *Slab) Hold() {
	if s != nil {
		s.holders.Add(1)
	}
}

// Release takes a holder away, who does not touch the buffer any more. It panics
// when there was none: somebody else's bytes would change under him.
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
