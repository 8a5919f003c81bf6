package arena

import (
	"fmt"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	// Words is how many words a chain has for its caller.
	Words = 16
	// MaxEntry is the largest length of an entry, in bytes.
	MaxEntry = 128 << 10
)

// entryHead is before the bytes of each entry. word has committed, stream, kind and length; 0: no entry follows in the block.
type entryHead struct {
	word, seq, atMs, offset, extra atomic.Uint64
}

const (
	entryHeader = int(unsafe.Sizeof(entryHead{}))
	committed   = 1 << 63
	streamShift = 48
	kindShift   = 40
	roomShift   = 20 // the room is in words of 8 bytes
	roomMask    = 1<<(kindShift-roomShift) - 1
	lengthMask  = 1<<roomShift - 1
)

// The offset of a position is below offsetBits.
const (
	offsetBits = 20
	offsetMask = 1<<offsetBits - 1
)

// slot returns how many bytes an entry takes.
func slot(n int) int { return entryHeader + (n+7)&^7 }

// Block is the memory of entries, and has holders. The chain is a holder until all entries of the block are dropped. A block without holders is
// free, and the next chain gets its memory. Holders die with the process.
//
// A nil *Block stands for memory outside of an arena: Hold and Release do nothing. Any goroutine may call Hold and Release.
type Block struct {
	arena   *Arena
	row     *row
	place   int
	mem     []byte
	serial  uint64 // in the chain, from 0
	next    *Block // in the chain
	holders atomic.Int32
}

// unused has Blocks: taking memory allocates nothing.
var unused = sync.Pool{New: func() any { return new(Block) }}

// block returns the Block of a row, with the chain as its holder.
func (a *Arena) block(r *row) *Block {
	b, meta := unused.Get().(*Block), r.meta.Load()
	b.arena, b.row, b.place, b.serial = a, r, int(r.place.Load()), meta>>serialShift
	b.mem = a.mem[b.place:][:size(int(meta&orderMask))]
	b.holders.Store(1)
	return b
}

// Hold adds a holder. During the call the caller, or another holder, holds b.
func (b *Block) Hold() {
	if b != nil {
		b.holders.Add(1)
	}
}

// Release takes a holder away. This holder no longer touches the memory. Without a holder Release panics.
func (b *Block) Release() {
	if b == nil {
		return
	}
	switch n := b.holders.Add(-1); {
	case n == 0:
		a := b.arena
		a.mu.Lock()
		defer a.mu.Unlock()
		a.give(b)
	case n < 0:
		panic("arena: a block was released more often than held")
	}
}

// Entry is a part of a chain. While the entry is in the chain, or its Block is held, the bytes stay, and do not change.
type Entry struct {
	Block *Block
	at    uint32 // of the header, in the block
	n     uint32 // bytes
	room  uint32 // bytes, of n and of what Extend may add; a multiple of 8
}

// Header describes an entry. The words mean nothing to the arena.
type Header struct {
	Kind, Stream  uint8
	AtMs          int64
	Offset, Extra uint64
}

func (e Entry) head() *entryHead { return e.Block.head(int(e.at)) }

// Data returns the bytes. After Reserve, the caller writes there until Commit.
func (e Entry) Data() []byte { return e.Block.mem[int(e.at)+entryHeader:][:e.n:e.n] }

// Place returns where the bytes begin in the file, for Arena.At. A place is never 0.
func (e Entry) Place() uint64 { return uint64(e.Block.place + int(e.at) + entryHeader) }

// Header returns the header from Commit.
func (e Entry) Header() Header {
	h := e.head()
	w := h.word.Load()
	return Header{uint8(w >> kindShift), uint8(w >> streamShift), int64(h.atMs.Load()), h.offset.Load(), h.extra.Load()}
}

// Seq returns the number from SetSeq; 0: none was set.
func (e Entry) Seq() uint64 { return e.head().seq.Load() }

// SetSeq stores the number of a committed entry, by a single store.
func (e Entry) SetSeq(seq uint64) { store(&e.head().seq, seq) }

// Room returns how many bytes Extend may add to a committed entry.
func (e Entry) Room() int { return int(e.room - e.n) }

// All returns the bytes with the room after them, which Extend adds.
func (e Entry) All() []byte { return e.Block.mem[int(e.at)+entryHeader:][:e.room:e.room] }

// end returns the offset after e in its block.
func (e Entry) end() int { return int(e.at) + slot(int(e.room)) }

// head returns the header of an entry at an offset.
func (b *Block) head(offset int) *entryHead { return (*entryHead)(unsafe.Pointer(&b.mem[offset])) }

// entry returns the committed entry at an offset; ok is false if there is none.
func (b *Block) entry(offset int) (e Entry, ok bool) {
	if offset+entryHeader > len(b.mem) {
		return Entry{}, false
	}
	w := b.head(offset).word.Load()
	return Entry{b, uint32(offset), uint32(w & lengthMask), uint32(w>>roomShift&roomMask) * 8}, w != 0
}

// Chain is a queue of entries. A single goroutine at a time calls Reserve and Commit. Meanwhile any goroutine may use Entries, Drop, the words, and the
// methods of committed entries.
type Chain struct {
	arena *Arena
	owner uint64
	root  *Block

	// mu guards the fields below, the position in the root, and the lengths of entries. The bytes of a reserved entry belong to the writer, without a lock.
	// Words and seqs are stored without a lock.
	mu          sync.Mutex
	first, last *Block // linked; nil: there is none
	head        uint64 // the position of the oldest entry, or after the last entry
	end         int    // the offset after the last entry, in the last block
	serial      uint64 // of the next block
	bytes       int    // of all blocks
	reserved    Entry  // Block is nil: there is none
}

// add adds a block without entries.
func (c *Chain) add(b *Block) {
	if c.last == nil {
		c.first = b
	} else {
		c.last.next = b
	}
	c.last, c.end, c.serial = b, 0, b.serial+1
	c.bytes += len(b.mem)
}

func newChain(root *Block) *Chain {
	head := root.row.position.Load()
	return &Chain{arena: root.arena, owner: root.row.owner.Load(), root: root, head: head, serial: head >> offsetBits}
}

// find finds the end of the chain when an arena is opened.
func (c *Chain) find() {
	if c.last == nil {
		return
	}
	for e, ok := c.last.entry(c.end); ok; e, ok = c.last.entry(c.end) {
		c.end = e.end()
	}
}

// Owner returns the number of the chain.
func (c *Chain) Owner() uint64 { return c.owner }

// Size returns how many bytes the blocks of the chain take, without the root.
func (c *Chain) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.bytes)
}

// Word returns a word for the caller, which outlives the process, too. i is below Words.
func (c *Chain) Word(i int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&c.root.mem[8*i])) }

// Reserve returns room for n bytes, of MaxEntry at most, at the end of the chain. The entry is in the chain only from Commit on. The next Reserve takes the
// place of an entry that was not committed.
//
// If the process is killed between Reserve and Commit, then in the next process Reserve of the same n returns the same place, with the
// bytes that were written there. The next process calls Reserve before Drop.
func (c *Chain) Reserve(n int) (Entry, error) {
	if n < 0 || n > MaxEntry {
		return Entry{}, fmt.Errorf("arena: an entry of %d bytes, the most is %d", n, MaxEntry)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == freed {
		return Entry{}, fmt.Errorf("arena: chain %d was freed", c.owner)
	}
	if c.last == nil || c.end+slot(n) > len(c.last.mem) {
		if err := c.grow(slot(n)); err != nil {
			return Entry{}, err
		}
	}
	c.reserved = Entry{c.last, uint32(c.end), uint32(n), uint32(n+7) &^ 7}
	return c.reserved, nil
}

// grow adds a block of least bytes or more. The block has a quarter of the bytes of the chain, if that is more: so a chain of a few lines takes little memory,
// and a chain of many bytes has few blocks.
func (c *Chain) grow(least int) error {
	order := max(orderFor(least), min(bits.Len(uint(c.bytes)/4/unit)-1, top))
	c.arena.mu.Lock()
	defer c.arena.mu.Unlock()
	b, err := c.arena.take(order, c.owner, c.serial<<serialShift)
	if err != nil {
		return err
	}
	c.add(b)
	return nil
}

// Commit adds a reserved entry to the chain, with the first n of its bytes, and returns the entry. After Commit the entry outlives the process. Commit
// panics if e is not from the last Reserve, or is committed already.
func (c *Chain) Commit(e Entry, n int, h Header) Entry { return c.commit(e, n, n, h) }

// CommitWithRoom is Commit, but the entry has all the room that was reserved: Extend may add bytes later.
func (c *Chain) CommitWithRoom(e Entry, n int, h Header) Entry { return c.commit(e, n, int(e.n), h) }

// Extend adds the next n bytes of the room of a committed entry to the entry, by a single store, and returns the longer entry. The caller has written
// them there. Extend panics if e has less room. The goroutine that calls Reserve calls Extend, too.
func (c *Chain) Extend(e Entry, n int) Entry {
	if n < 0 || n > e.Room() {
		panic(fmt.Sprintf("arena: %d bytes for an entry with room for %d", n, e.Room()))
	}
	e.n += uint32(n)
	w := &e.head().word
	store(w, w.Load()&^lengthMask|uint64(e.n))
	return e
}

func (c *Chain) commit(e Entry, n, room int, h Header) Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Block == nil || e != c.reserved || n < 0 || n > int(e.n) {
		panic(fmt.Sprintf("arena: commit of %d bytes, the entry is not reserved or has only %d", n, e.n))
	}
	e.n, e.room = uint32(n), uint32(room+7)&^7
	if next := e.end(); next+entryHeader <= len(e.Block.mem) {
		store(&e.Block.head(next).word, 0) // old bytes are there
	}
	to := e.head()
	store(&to.seq, 0)
	store(&to.atMs, uint64(h.AtMs))
	store(&to.offset, h.Offset)
	store(&to.extra, h.Extra)
	store(&to.word, committed|uint64(h.Stream)<<streamShift|uint64(h.Kind)<<kindShift|uint64(e.room/8)<<roomShift|uint64(n))
	c.end, c.reserved = e.end(), Entry{}
	return e
}

// Drop removes e and all older entries from the chain, by a single store. Blocks without an entry become free when nobody holds them. The caller holds e, or knows
// that e is in the chain; if e was dropped, Drop does nothing.
func (c *Chain) Drop(e Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := e.Block
	if position(b.serial, int(e.at)) < c.head {
		return
	}
	to := position(b.serial, e.end())
	if _, more := b.entry(e.end()); !more && c.reserved.Block != b {
		to = position(b.serial+1, 0)
	}
	c.head = to
	store(&c.root.row.position, to)
	c.release()
}

// position returns the position of an offset in the block with a serial number.
func position(serial uint64, offset int) uint64 { return serial<<offsetBits | uint64(offset) }

// release releases the blocks before the head.
func (c *Chain) release() {
	for c.first != nil && c.first.serial < c.head>>offsetBits {
		b := c.first
		c.first, b.next = b.next, nil
		c.bytes -= len(b.mem)
		b.Release()
	}
	if c.first == nil {
		c.last = nil
	}
}

// freed is the head of a chain after Free: the chain has no entry from there on.
const freed = 1<<64 - 1

// Free removes the chain with all entries and words from the arena, by a single store. Nobody uses the chain and its words any more. Holders of its
// blocks may read on.
func (c *Chain) Free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == freed {
		return
	}
	a := c.arena
	a.mu.Lock()
	a.give(c.root)
	delete(a.chains, c.owner)
	a.mu.Unlock()
	c.head, c.reserved = freed, Entry{}
	c.release()
}

// Entries returns the entries, the oldest first. The loop calls no method of the chain; another goroutine that does waits for the end of
// the loop.
func (c *Chain) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		offset := int(c.head & offsetMask)
		for b := c.first; b != nil; b = b.next {
			for e, ok := b.entry(offset); ok; e, ok = b.entry(e.end()) {
				if !yield(e) {
					return
				}
			}
			offset = 0
		}
	}
}
