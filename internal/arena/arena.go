// Package arena has memory for the output of programs. The memory outlives the server: a server may be killed between any two stores, and
// the next server finds each committed entry, whole and in order, and no other entry.
//
// An arena is a file in memory (memfd_create(2)), mapped once at its full size. The file has chains. A Chain is a queue of entries with a
// number, its owner. Reserve gives room for an entry at the end of the chain, and Commit adds the entry to the chain by a single store. Drop removes the
// oldest entries.
//
// The file:
//
//	┌──────┬──────────────────────────┬──────────┬──────────┬─────
//	│ head │ rows: 32 bytes for each  │ region 0 │ region 1 │ …
//	│      │ block                    │          │          │
//	└──────┴──────────────────────────┴──────────┴──────────┴─────
//
//	head   version of the layout; how many rows were ever used
//	row    owner; serial number in the chain, and size; place of the block in a region; position
//
// A row without an owner is free. The store of the owner, the last store, takes the row with its block, and a store of 0 frees both. A chain has a root, a block
// with the words of the caller: the chain exists while its root has an owner. The row of the root has the position of the oldest entry. The
// other blocks have entries, the block with the lowest serial number the oldest. An entry is five words of 8 bytes, and its bytes:
//
//	word   0: no entry follows in this block. Else length, kind and stream. This store, the last, is the commit.
//	seq    0: not set yet
//	time, offset, extra
//
// A position in a chain is the serial number of a block and an offset in the block. Entries before the position of the root are dropped. Open frees
// blocks before the position, and blocks whose owner has no root. All memory without a block is free, and Open makes a list of it. A killed process cannot tear
// its stores, and no program survives the machine. So there is no checksum, and nothing is synchronized with a disk.
//
// The size of the file is address space: memory comes with the first touch of each page, and goes back with Trim. The rows have a fifth of the size. A full
// arena refuses entries and chains (ErrFull). Free memory may lie in pieces too small for an entry. So the caller looks at Used, and keeps a budget
// well below the size.
package arena

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// fileHead is the begin of the file.
type fileHead struct {
	version, rows atomic.Uint64
}

// row describes a block. meta is the order, rootFlag, and the serial number from serialShift on. position belongs to a root.
type row struct {
	owner, meta, place, position atomic.Uint64
}

const (
	version     = 'T'<<56 | 'a'<<48 | 'r'<<40 | 'e'<<32 | 'n'<<24 | 'a'<<16 | 1
	orderMask   = 1<<7 - 1
	rootFlag    = 1 << 7
	serialShift = 8
	// perRegion is how many bytes of the file a region takes, with a row for each block.
	perRegion = regionSize + units*int(unsafe.Sizeof(row{}))
)

// ErrFull means: the file has no room for the entry or the chain.
var ErrFull = errors.New("arena: full")

// strike is called after each store. Tests replace strike.
var strike = func() {}

// store stores a word of the file.
func store(w *atomic.Uint64, v uint64) {
	w.Store(v)
	strike()
}

// Arena is a view of the file. At a time, a single process may have an Arena of the same file. Any goroutine may call any method.
type Arena struct {
	// Fixed by Open.
	file *os.File
	mem  []byte
	head *fileHead
	rows []row

	// mu guards the fields below, and in the file all but positions, words of chains, and entries. A Chain locks its own mu first.
	mu     sync.Mutex
	free   []*row // of the rows that were used
	space  space
	used   int64
	chains map[uint64]*Chain
}

// Open returns the arena of a file. An empty file gets size bytes and makes an arena without a chain. Any other file keeps its size, and
// has the chains of the last process.
func Open(f *os.File, size int64) (*Arena, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	if st.Size() > 0 {
		size = st.Size()
	}
	regions := int(size-2*page) / perRegion
	if regions < 1 {
		return nil, fmt.Errorf("arena: %d bytes are too few, the least is %d", size, 2*page+perRegion)
	}
	if err := f.Truncate(size); err != nil {
		return nil, fmt.Errorf("arena: a file of %d bytes: %w", size, err)
	}
	mem, err := share(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("arena: map %d bytes: %w", size, err)
	}
	rows := unsafe.Slice((*row)(unsafe.Pointer(&mem[page])), regions*units)
	a := &Arena{file: f, mem: mem, head: (*fileHead)(unsafe.Pointer(&mem[0])), rows: rows, chains: make(map[uint64]*Chain)}
	end := page + len(rows)*int(unsafe.Sizeof(row{}))
	a.space = space{start: (end + page - 1) / page * page, regions: make([]*[units]uint8, regions)}
	if v := a.head.version.Load(); v != 0 && v != version {
		return nil, errors.Join(fmt.Errorf("arena: the first word of the file is %#x, this program writes %#x", v, uint64(version)), a.Close())
	}
	store(&a.head.version, version)
	a.find()
	return a, nil
}

// Close gives the address space back. Nobody uses the arena, its chains and their bytes any more. All chains stay in the file.
func (a *Arena) Close() error { return unshare(a.mem) }

// find makes the chains and the free memory from the rows.
func (a *Arena) find() {
	var taken, entries []*Block
	for i := range a.rows[:a.head.rows.Load()] {
		r := &a.rows[i]
		if r.owner.Load() == 0 {
			a.free = append(a.free, r)
			continue
		}
		b := a.block(r)
		taken = append(taken, b)
		a.used += int64(len(b.mem))
		if r.meta.Load()&rootFlag == 0 {
			entries = append(entries, b)
		} else {
			a.chains[r.owner.Load()] = newChain(b)
		}
	}
	a.space.find(taken)
	slices.SortFunc(entries, func(x, y *Block) int { return cmp.Compare(x.serial, y.serial) })
	for _, b := range entries {
		if c := a.chains[b.row.owner.Load()]; c != nil && b.serial >= c.head>>offsetBits {
			c.add(b)
		} else { // dropped, or the chain was freed
			b.Release()
		}
	}
	for _, c := range a.chains {
		c.find()
	}
}

// take takes a free block for an owner. The block begins with zeros: the words of a root, or no entry. The caller has locked mu.
func (a *Arena) take(order int, owner, meta uint64) (*Block, error) {
	place, ok := a.space.take(order)
	if !ok {
		return nil, fmt.Errorf("%w: blocks use %d of %d bytes, and there is no free block of %d bytes", ErrFull, a.used, len(a.mem), size(order))
	}
	var r *row
	if last := len(a.free) - 1; last >= 0 {
		r, a.free = a.free[last], a.free[:last]
	} else { // there are as many rows as blocks
		n := a.head.rows.Load()
		r = &a.rows[n]
		store(&a.head.rows, n+1)
	}
	clear(a.mem[place:][:unit])
	strike()
	store(&r.meta, meta|uint64(order))
	store(&r.place, uint64(place))
	store(&r.position, 0)
	store(&r.owner, owner)
	a.used += int64(size(order))
	return a.block(r), nil
}

// give frees a block. The caller has locked mu.
func (a *Arena) give(b *Block) {
	store(&b.row.owner, 0)
	if poisoned {
		clear(b.mem)
	}
	a.free = append(a.free, b.row)
	a.space.give(b.place, int(b.row.meta.Load()&orderMask))
	a.used -= int64(len(b.mem))
	unused.Put(b)
}

// Trim gives the memory of free regions back to the system, except for a few. The caller calls Trim now and then.
func (a *Arena) Trim() error {
	for {
		a.mu.Lock()
		place, ok := a.space.trim()
		var err error
		if ok { // others wait for some 20 µs
			err = punch(a.file, int64(place), regionSize)
		}
		a.mu.Unlock()
		if err != nil {
			return fmt.Errorf("arena: give memory back: %w", err)
		}
		if !ok {
			return nil
		}
	}
}

// Used returns how many bytes the blocks of all chains take, with dropped blocks that have holders.
func (a *Arena) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// At returns n bytes at a place.
func (a *Arena) At(place uint64, n int) []byte { return a.mem[place:][:n:n] }

// Chains returns all chains, by owner.
func (a *Arena) Chains() iter.Seq[*Chain] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Values(slices.SortedFunc(maps.Values(a.chains), func(x, y *Chain) int { return cmp.Compare(x.owner, y.owner) }))
}

// Find returns the chain with an owner; nil: there is none.
func (a *Arena) Find(owner uint64) *Chain {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.chains[owner]
}

// Chain makes a chain without entries, with words of 0. owner is not 0, and was never the owner of another chain.
func (a *Arena) Chain(owner uint64) (*Chain, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner == 0 || a.chains[owner] != nil {
		return nil, fmt.Errorf("arena: %d cannot be the owner of a new chain", owner)
	}
	b, err := a.take(0, owner, rootFlag)
	if err != nil {
		return nil, err
	}
	c := newChain(b)
	a.chains[owner] = c
	return c, nil
}
