package arena

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func memory(t fataler) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("arena", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "arena")
}

// room returns the size of a file with some regions.
func room(regions int) int64 { return int64(2*page + regions*perRegion) }

func open(t fataler, f *os.File, size int64) *Arena {
	t.Helper()
	a, err := Open(f, size)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// random has the bytes of all entries.
var random = func() []byte {
	b := make([]byte, 2*MaxEntry)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// fill returns the n bytes of entry i of a chain.
func fill(owner, i uint64, n int) []byte {
	return random[(owner*0x9E3779B97F4A7C15^i*0xBF58476D1CE4E5B9)>>47%MaxEntry:][:n]
}

// check reports memory that is neither free nor in a block, or is there twice, and blocks that are neither in a chain nor held.
func check(t fataler, a *Arena, held ...Entry) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	owners := make(map[int]uint64) // of blocks, by place
	own := func(b *Block, owner uint64) {
		if was, ok := owners[b.place]; ok {
			t.Fatalf("the block at %d belongs to %d and %d", b.place, was, owner)
		}
		owners[b.place] = owner
	}
	for owner, c := range a.chains {
		own(c.root, owner)
		n := 0
		for b := c.first; b != nil; b = b.next {
			own(b, owner)
			if n += len(b.mem); b.next == nil && b != c.last {
				t.Fatalf("chain %d has two last blocks", owner)
			}
		}
		if n != c.bytes {
			t.Fatalf("chain %d has blocks of %d bytes, and says %d", owner, n, c.bytes)
		}
	}
	for _, e := range held {
		if _, ok := owners[e.Block.place]; !ok {
			owners[e.Block.place] = e.Block.row.owner.Load()
		}
	}
	var used int64
	type piece struct{ place, n int }
	var pieces []piece
	for i := range a.rows[:a.head.rows.Load()] {
		r := &a.rows[i]
		owner, place, n := r.owner.Load(), int(r.place.Load()), size(int(r.meta.Load()&orderMask))
		if free := slices.Contains(a.free, r); free != (owner == 0) {
			t.Fatalf("row %d has the owner %d, and is in the list: %v", i, owner, free)
		}
		if owner == 0 {
			continue
		}
		if owners[place] != owner {
			t.Fatalf("the block at %d has the owner %d, want %d", place, owner, owners[place])
		}
		delete(owners, place)
		pieces = append(pieces, piece{place, n})
		used += int64(n)
	}
	if len(owners) > 0 {
		t.Fatalf("blocks without a row: %v", owners)
	}
	if used != a.used {
		t.Fatalf("blocks have %d bytes, Used is %d", used, a.used)
	}
	for _, r := range a.space.idle {
		if a.space.regions[r] != nil {
			t.Fatalf("region %d is idle and has blocks", r)
		}
		pieces = append(pieces, piece{a.space.place(r, 0), regionSize})
	}
	for r, cells := range a.space.regions {
		if cells == nil {
			continue
		}
		for u, cell := range cells {
			if cell == 0 {
				continue
			}
			order, n := int(cell-1), 1<<(cell-1)
			place := a.space.place(r, u)
			if !slices.Contains(a.space.free[order], place) {
				t.Fatalf("the free block at %d is not in the list of %d", place, order)
			}
			if u/n%2 == 0 && cells[u+n] == cell {
				t.Fatalf("the buddies at %d are free and not joined", place)
			}
			pieces = append(pieces, piece{place, n * unit})
		}
	}
	slices.SortFunc(pieces, func(x, y piece) int { return cmp.Compare(x.place, y.place) })
	end := a.space.start
	for _, p := range pieces {
		if (p.place-a.space.start)%regionSize == 0 && end == p.place-page { // the last page of a cut region
			end += page
		}
		if p.place != end {
			t.Fatalf("after the piece of memory to %d, the next is at %d", end, p.place)
		}
		end += p.n
	}
	if all := a.space.place(len(a.space.regions), 0); end != all && end != all-page {
		t.Fatalf("the memory ends at %d, want %d", end, all)
	}
}

// model is what an arena must have.
type model map[uint64]*queue

// queue is a chain.
type queue struct {
	first   uint64 // the number of the oldest entry
	entries []entry
	words   [Words]uint64
}

type entry struct {
	Header
	n   int
	seq uint64
}

func (m model) clone() model {
	c := make(model)
	for owner, q := range m {
		c[owner] = &queue{q.first, slices.Clone(q.entries), q.words}
	}
	return c
}

// differs says how an arena differs from the model.
func (m model) differs(a *Arena) error {
	var owners []uint64
	for c := range a.Chains() {
		owners = append(owners, c.Owner())
	}
	if want := slices.Sorted(maps.Keys(m)); !slices.Equal(owners, want) {
		return fmt.Errorf("chains %v, want %v", owners, want)
	}
	for c := range a.Chains() {
		q, i := m[c.Owner()], 0
		for e := range c.Entries() {
			if i == len(q.entries) {
				return fmt.Errorf("chain %d has more than %d entries", c.Owner(), i)
			}
			if got, want := (entry{e.Header(), len(e.Data()), e.Seq()}), q.entries[i]; got != want {
				return fmt.Errorf("chain %d, entry %d: %+v, want %+v", c.Owner(), i, got, want)
			}
			want := fill(c.Owner(), q.first+uint64(i), len(e.Data()))
			if !bytes.Equal(e.Data(), want) || !bytes.Equal(a.At(e.Place(), len(want)), want) {
				return fmt.Errorf("chain %d, entry %d: other bytes", c.Owner(), i)
			}
			i++
		}
		if i < len(q.entries) {
			return fmt.Errorf("chain %d has %d entries, want %d", c.Owner(), i, len(q.entries))
		}
		for i, want := range q.words {
			if got := c.Word(i).Load(); got != want {
				return fmt.Errorf("chain %d, word %d: %d, want %d", c.Owner(), i, got, want)
			}
		}
	}
	return nil
}

// A world has an arena, its model, and a user of the arena.
type world struct {
	t       fataler
	draw    func(n int, what string) int // 0 to n-1
	file    *os.File
	arena   *Arena
	is, may model // may is after the operation under way
	owner   uint64
	held    []Entry
	bytes   [][]byte // of held
	open    *reservation
}

// A reservation is not committed.
type reservation struct {
	owner, place uint64
	entry        Entry
	bytes        []byte // that stay
}

func newWorld(t fataler, draw func(n int, what string) int) *world {
	w := &world{t: t, draw: draw, file: memory(t), is: make(model)}
	w.arena = open(t, w.file, room(5))
	return w
}

// reopen has another process go on, after a process that dies while it opens the arena, or not if deadly is 0.
func (w *world) reopen(deadly int) {
	unix.Munmap(w.arena.mem) // the dead may have locked mu
	w.held, w.bytes = nil, nil
	die(deadly, func() {
		if deadly == 0 {
			return
		}
		if a, err := Open(w.file, 0); err == nil { // there were fewer stores
			a.Close()
		}
	})
	w.arena = open(w.t, w.file, 0)
	if err := w.is.differs(w.arena); err != nil {
		if w.may == nil || w.may.differs(w.arena) != nil {
			w.t.Fatal(err)
		}
		w.is, w.open = w.may, nil
	}
	w.may = nil
	check(w.t, w.arena)
	if r := w.open; r != nil && w.is[r.owner] != nil {
		c := w.arena.chains[r.owner]
		e, err := c.Reserve(int(r.entry.n))
		if err != nil || e.Place() != r.place || !bytes.Equal(e.Data()[:len(r.bytes)], r.bytes) {
			w.t.Fatalf("chain %d: the reservation at %d is at %d, or has other bytes, or %v", r.owner, r.place, e.Place(), err)
		}
		c.Commit(e, 0, Header{})
		w.is[r.owner].entries = append(w.is[r.owner].entries, entry{})
	}
	w.open = nil
}

// chain draws a chain.
func (w *world) chain() (*Chain, *queue) {
	owners := slices.Sorted(maps.Keys(w.is))
	if len(owners) == 0 {
		return nil, nil
	}
	owner := owners[w.draw(len(owners), "chain")]
	return w.arena.chains[owner], w.may[owner]
}

var lengths = []int{0, 1, 7, 8, 80, 80, 80, 88, 150, 1000, 4096, 9000, 64 << 10, MaxEntry}

// step is a random operation.
func (w *world) step() {
	w.may = w.is.clone()
	c, q := w.chain()
	switch op := w.draw(16, "operation"); {
	case c == nil || op == 0:
		w.owner++
		w.may[w.owner] = new(queue)
		if _, err := w.arena.Chain(w.owner); errors.Is(err, ErrFull) {
			delete(w.may, w.owner)
		} else if err != nil {
			w.t.Fatal(err)
		}
	case op == 1:
		delete(w.may, c.Owner())
		if w.open != nil && w.open.owner == c.Owner() {
			w.open = nil
		}
		c.Free()
	case op <= 3:
		if i := w.draw(Words, "word"); true {
			q.words[i]++
			c.Word(i).Add(1)
		}
	case op <= 5 && len(q.entries) > 0: // number some entry
		i := w.draw(len(q.entries), "entry")
		q.entries[i].seq = uint64(w.draw(1000, "seq"))
		w.entry(c, i).SetSeq(q.entries[i].seq)
	case op <= 7 && len(q.entries) > 0: // drop some
		i := w.draw(len(q.entries), "entry")
		if w.draw(3, "all") == 0 {
			i = len(q.entries) - 1
		}
		q.first += uint64(i) + 1
		q.entries = q.entries[i+1:]
		e := w.entry(c, i)
		if w.draw(2, "hold") == 0 {
			e.Block.Hold()
			w.held, w.bytes = append(w.held, e), append(w.bytes, bytes.Clone(e.Data()))
		}
		c.Drop(e)
	case op == 8 && len(w.held) > 0:
		e := w.held[0]
		if !bytes.Equal(e.Data(), w.bytes[0]) {
			w.t.Fatal("the bytes of a held entry changed")
		}
		w.held, w.bytes = w.held[1:], w.bytes[1:]
		e.Block.Release()
	case op == 9:
		if err := w.arena.Trim(); err != nil {
			w.t.Fatal(err)
		}
	case op == 10 && w.open != nil && w.open.owner == c.Owner():
		w.commit(c, q)
	default:
		w.open = nil
		n := lengths[w.draw(len(lengths), "length")]
		e, err := c.Reserve(n)
		if errors.Is(err, ErrFull) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
		copy(e.Data(), fill(c.Owner(), q.first+uint64(len(q.entries)), n))
		w.open = &reservation{c.Owner(), e.Place(), e, bytes.Clone(e.Data())}
		if op > 11 {
			w.commit(c, q)
		}
	}
	w.is, w.may = w.may, nil
}

// commit commits a reservation.
func (w *world) commit(c *Chain, q *queue) {
	n := len(w.open.bytes)
	n -= w.draw(2, "less") * n / 3
	w.open.bytes = w.open.bytes[:n]
	h := Header{uint8(w.draw(256, "kind")), uint8(w.draw(256, "stream")), -int64(w.draw(1000, "time")), uint64(n), uint64(w.owner) << 60}
	q.entries = append(q.entries, entry{h, n, 0})
	c.Commit(w.open.entry, n, h)
	w.open = nil
}

func (w *world) entry(c *Chain, i int) Entry {
	for e := range c.Entries() {
		if i == 0 {
			return e
		}
		i--
	}
	w.t.Fatalf("chain %d has no entry %d", c.Owner(), i)
	return Entry{}
}

// live makes steps until the world dies, and reports whether it lives.
func (w *world) live(steps, deadly int) (alive bool) {
	return die(deadly, func() {
		for range steps {
			w.step()
		}
	})
}

// die calls f, and ends the call after a store; 0: does not end it. alive reports that f has returned.
func die(deadly int, f func()) (alive bool) {
	errDied := errors.New("died")
	defer func() {
		strike = func() {}
		if r := recover(); r != nil && r != errDied {
			panic(r)
		}
	}()
	strikes := 0
	strike = func() {
		if strikes++; strikes == deadly {
			panic(errDied)
		}
	}
	f()
	return true
}

func (w *world) close() {
	unix.Munmap(w.arena.mem)
	w.file.Truncate(0) // a process that died in Open has left its mapping
	w.file.Close()
}

// Whatever is done with chains, and whenever the process dies, the next process finds the same chains.
func TestArenaIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) })
		defer w.close()
		for range rapid.IntRange(1, 6).Draw(t, "processes") {
			deadly := rapid.SampledFrom([]int{0, 10, 50, 200}).Draw(t, "deadly")
			if w.live(rapid.IntRange(1, 40).Draw(t, "steps"), deadly+rapid.IntRange(0, 40).Draw(t, "more")) {
				check(t, w.arena, w.held...)
				if err := w.is.differs(w.arena); err != nil {
					t.Fatal(err)
				}
			}
			w.reopen(rapid.IntRange(0, 20).Draw(t, "deadly in Open"))
		}
	})
}

// TestDeathBetweenAnyTwoStores has a process die after each of its stores in turn, once, and another process go on.
func TestDeathBetweenAnyTwoStores(t *testing.T) {
	deaths := 0
	for seed := range uint64(4) {
		for deadly, alive := 1, false; !alive; deadly++ {
			dice := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, func(n int, _ string) int { return dice.IntN(n) })
			alive = w.live(60, deadly)
			w.reopen(deadly % 20)
			w.live(20, 0)
			check(t, w.arena, w.held...)
			w.reopen(0)
			w.close()
			deaths++
		}
	}
	t.Logf("%d deaths", deaths-4)
}

// blocks returns how many bytes of memory a file takes.
func blocks(t fataler, f *os.File) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func chain(t fataler, a *Arena, owner uint64) *Chain {
	t.Helper()
	c, err := a.Chain(owner)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func add(t fataler, c *Chain, n int) Entry {
	t.Helper()
	e, err := c.Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	return c.Commit(e, n, Header{})
}

// An idle chain takes little of the file, and so do a line and many lines. A flood has four reads of a pipe in a region.
func TestSmall(t *testing.T) {
	f := memory(t)
	defer f.Close()
	a := open(t, f, 1<<30)
	defer a.Close()
	const chains = 5000
	before := blocks(t, f)
	for i := range uint64(chains) {
		chain(t, a, i+1)
	}
	if n := (blocks(t, f) - before) / chains; n > 200 || a.Used()/chains > 128 {
		t.Errorf("an idle chain takes %d bytes of memory, %d in its block", n, a.Used()/chains)
	}
	lines := chain(t, a, chains+1)
	before = a.Used()
	add(t, lines, 80)
	if n := a.Used() - before; n > 128 {
		t.Errorf("a line takes %d bytes", n)
	}
	for range 999 {
		add(t, lines, 80)
	}
	if n := (a.Used() - before) / 1000; n > 160 {
		t.Errorf("each of 1000 lines takes %d bytes", n)
	}
	if n := lines.blocks(); n > 40 {
		t.Errorf("1000 lines are in %d blocks", n)
	}
	steady := chain(t, a, chains+3) // keeps 400 lines
	before = a.Used()
	var kept []Entry
	for range 5000 {
		if kept = append(kept, add(t, steady, 80)); len(kept) > 400 {
			steady.Drop(kept[0])
			kept = kept[1:]
			if n := (a.Used() - before) / 400; n > 120*3/2 {
				t.Fatalf("each of the newest 400 lines takes %d bytes", n)
			}
		}
	}
	flood := chain(t, a, chains+2)
	before = a.Used()
	for range 100 {
		add(t, flood, 64<<10)
	}
	if n := (a.Used() - before) / 100; n > 80<<10 {
		t.Errorf("each of 100 entries of 64 KiB takes %d bytes", n)
	}
}

// blocks returns how many blocks with entries a chain has.
func (c *Chain) blocks() (n int) {
	for b := c.first; b != nil; b = b.next {
		n++
	}
	return n
}

// Adding, numbering and dropping entries allocates nothing.
func TestNoGarbage(t *testing.T) {
	if poisoned {
		t.Skip("the race detector has sync.Pool lose what it keeps")
	}
	f := memory(t)
	defer f.Close()
	a := open(t, f, 64<<20)
	defer a.Close()
	for i, n := range []int{80, 64 << 10} {
		c := chain(t, a, uint64(i)+1)
		var last []Entry
		turn := func() {
			e := add(t, c, n)
			e.SetSeq(1)
			if last = append(last, e); len(last) == cap(last) {
				c.Drop(last[len(last)/2])
				last = append(last[:0], last[len(last)/2+1:]...)
			}
		}
		last = make([]Entry, 0, 100)
		for range 1000 {
			turn()
		}
		if got := testing.AllocsPerRun(1000, turn); got > 0 {
			t.Errorf("an entry of %d bytes makes %v allocations", n, got)
		}
	}
}

// Trim gives memory back, but not the memory of chains and of a few regions.
func TestTrim(t *testing.T) {
	f := memory(t)
	defer f.Close()
	a := open(t, f, 64<<20)
	stays, goes := chain(t, a, 1), chain(t, a, 2)
	copy(add(t, stays, MaxEntry).Data(), random)
	for range 100 {
		copy(add(t, goes, MaxEntry).Data(), random)
	}
	full := blocks(t, f)
	goes.Free()
	if err := a.Trim(); err != nil || blocks(t, f) > full/4 {
		t.Errorf("Trim has changed the memory of the file from %d to %d bytes, %v", full, blocks(t, f), err)
	}
	goes = chain(t, a, 3) // in regions that have lost their memory
	for range 100 {
		copy(add(t, goes, MaxEntry).Data(), random)
	}
	full = blocks(t, f)
	goes.Free()
	if n := blocks(t, f); n != full {
		t.Errorf("Free has changed the memory of the file from %d to %d bytes", full, n)
	}
	for _, least := range []int64{keep * regionSize, 0} { // the second process does not know which regions have memory
		if err := a.Trim(); err != nil {
			t.Fatal(err)
		}
		most := int64((keep+3)*regionSize + 64<<10)
		if n := blocks(t, f); full < 100*MaxEntry || n > most || n < least {
			t.Errorf("the file has %d bytes of memory, %d before Trim, want %d to %d", n, full, least, most)
		}
		a.Close()
		a = open(t, f, 0)
	}
	defer a.Close()
	for e := range a.chains[1].Entries() {
		if !bytes.Equal(e.Data(), random[:MaxEntry]) {
			t.Error("the bytes of an entry have changed")
		}
	}
}

// A full arena refuses entries, and has room again after a Drop.
func TestFull(t *testing.T) {
	f := memory(t)
	defer f.Close()
	a := open(t, f, room(3))
	defer a.Close()
	c := chain(t, a, 1)
	var all []Entry
	for {
		e, err := c.Reserve(MaxEntry)
		if errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, c.Commit(e, MaxEntry, Header{}))
	}
	if len(all) != 4 { // two in a region, and the root is in the third
		t.Errorf("room for %d entries in three regions, want 4", len(all))
	}
	for i := range uint64(10_000) {
		if _, err := a.Chain(i + 2); errors.Is(err, ErrFull) {
			break
		} else if err != nil || i > units {
			t.Fatalf("chain %d: %v", i+2, err)
		}
	}
	check(t, a)
	c.Drop(all[2])
	add(t, c, MaxEntry)
}

func TestRefused(t *testing.T) {
	f := memory(t)
	defer f.Close()
	if _, err := Open(f, room(1)-1); err == nil {
		t.Error("a file without a region was taken")
	}
	a := open(t, f, room(2))
	c := chain(t, a, 7)
	for _, owner := range []uint64{0, 7} {
		if _, err := a.Chain(owner); err == nil {
			t.Errorf("%d was taken as an owner", owner)
		}
	}
	for _, n := range []int{-1, MaxEntry + 1} {
		if _, err := c.Reserve(n); err == nil {
			t.Errorf("an entry of %d bytes was taken", n)
		}
	}
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s was taken", what)
			}
		}()
		f()
	}
	old, _ := c.Reserve(100)
	e, err := c.Reserve(10)
	if err != nil || e.Place() != old.Place() {
		t.Errorf("the next reservation is at %d, after one at %d, %v", e.Place(), old.Place(), err)
	}
	panics("the commit of an old reservation", func() { c.Commit(old, 10, Header{}) })
	panics("a commit of more bytes than reserved", func() { c.Commit(e, 11, Header{}) })
	c.Commit(e, 10, Header{})
	panics("a second commit", func() { c.Commit(e, 10, Header{}) })
	e.Block.Hold()
	newer := add(t, c, 10)
	newest := add(t, c, 10)
	c.Drop(newer)
	c.Drop(e) // does nothing
	for left := range c.Entries() {
		if left != newest {
			t.Error("a dropped entry is back")
		}
	}
	c.Drop(newest)
	e.Block.Release()
	panics("a release without a holder", e.Block.Release)
	var none *Block
	none.Hold()
	none.Release()
	c.Free()
	c.Free()
	if _, err := c.Reserve(1); err == nil {
		t.Error("a freed chain gives room")
	}
	for range c.Entries() {
		t.Error("a freed chain has an entry")
	}
	store(&a.head.version, version+1)
	a.Close()
	if _, err := Open(f, 0); err == nil {
		t.Error("another layout was taken")
	}
}

// Writers, droppers and readers work at once. Each reader finds the bytes of the entries that it holds, until it releases them.
func TestReadersHold(t *testing.T) {
	f := memory(t)
	defer f.Close()
	a := open(t, f, 64<<20)
	defer a.Close()
	type item struct {
		entry Entry
		i     uint64
	}
	var all sync.WaitGroup
	for owner := range uint64(3) {
		c := chain(t, a, owner+1)
		written, read := make(chan item, 50), make(chan item, 100)
		all.Go(func() {
			for i := range uint64(5000) {
				n := length(c.Owner(), i)
				e, err := c.Reserve(n)
				if err != nil {
					t.Error(err)
					break
				}
				copy(e.Data(), fill(c.Owner(), i, n))
				written <- item{c.Commit(e, n, Header{Extra: i}), i}
			}
			close(written)
		})
		all.Go(func() {
			var keep []item
			for x := range written {
				x.entry.SetSeq(x.i + 1)
				if keep = append(keep, x); len(keep) == 100 || x.i%700 == 0 {
					for _, k := range keep[:len(keep)/3+1] {
						k.entry.Block.Hold()
						c.Drop(k.entry)
						read <- k
					}
					keep = slices.Clone(keep[len(keep)/3+1:])
				}
			}
			close(read)
			c.Free()
		})
		all.Go(func() {
			for x := range read {
				if n := length(c.Owner(), x.i); x.entry.Seq() != x.i+1 || !bytes.Equal(x.entry.Data(), fill(c.Owner(), x.i, n)) {
					t.Errorf("chain %d: entry %d has changed while held", c.Owner(), x.i)
				}
				x.entry.Block.Release()
			}
		})
	}
	all.Wait()
	if check(t, a); a.Used() != 0 {
		t.Errorf("%d bytes are in use at the end", a.Used())
	}
}

// An entry grows within its room, and no further. The next process finds the entry as long as it is, and the entry after its room.
func TestExtend(t *testing.T) {
	f := memory(t)
	a := open(t, f, room(4))
	c := chain(t, a, 7)
	e, err := c.Reserve(100)
	if err != nil {
		t.Fatal(err)
	}
	copy(e.Data(), fill(7, 0, 100))
	e = c.CommitWithRoom(e, 10, Header{Kind: 3, Stream: 2, AtMs: 5, Offset: 6, Extra: 8})
	next := add(t, c, 20)
	for _, n := range []int{0, 1, 30} {
		e = c.Extend(e, n)
	}
	if len(e.Data()) != 41 || e.Room() != 104-41 || len(e.All()) != 104 {
		t.Errorf("%d bytes, room for %d, %d in all", len(e.Data()), e.Room(), len(e.All()))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an entry grew beyond its room")
			}
		}()
		c.Extend(e, e.Room()+1)
	}()
	a.Close()
	c = open(t, f, 0).Find(7)
	var got []Entry
	for e := range c.Entries() {
		got = append(got, e)
	}
	if len(got) != 2 || !bytes.Equal(got[0].Data(), fill(7, 0, 41)) || got[0].Header() != (Header{Kind: 3, Stream: 2, AtMs: 5, Offset: 6, Extra: 8}) || got[1].Place() != next.Place() {
		t.Errorf("the next process finds %d entries: %v", len(got), got)
	}
	if open(t, memory(t), room(1)).Find(7) != nil {
		t.Error("a chain that nobody has made")
	}
}
