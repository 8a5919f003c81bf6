package arena

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// helper is the variable with the round of a test binary that is killed.
const helper = "TROUPE_ARENA_HELPER"

func TestMain(m *testing.M) {
	if round := os.Getenv(helper); round != "" {
		n, _ := strconv.Atoi(round)
		scribble(uint64(n))
	}
	os.Exit(m.Run())
}

// The helper tells its parent of each operation with four words: what, chain, number of the entry, place. The pipe keeps them whole.
const (
	toldMade      = iota + 1 // chain
	toldReserved             // entry
	toldCommitted            // entry
	toldNumbered             // entry
	toldDropping             // up to entry
	toldDropped              // up to entry
	toldFreeing              // chain
	toldFreed                // chain
)

const toldBytes = 32

func tell(what int, owner, i, place uint64) {
	var b [toldBytes]byte
	for k, v := range []uint64{uint64(what), owner, i, place} {
		binary.NativeEndian.PutUint64(b[8*k:], v)
	}
	if _, err := os.Stdout.Write(b[:]); err != nil {
		os.Exit(1) // the parent has gone
	}
}

// length returns the length of entry i of a chain.
func length(owner, i uint64) int {
	h := (owner*0x94D049BB133111EB + i) * 0xD6E8FEB86659FD93 >> 20
	switch k := int(h >> 8 % (1 << 20)); h % 100 {
	case 0:
		return 64 << 10
	case 1:
		return k % (MaxEntry + 1)
	case 2, 3, 4:
		return k % 5000
	default:
		return k % 200
	}
}

func header(owner, i uint64) Header {
	return Header{Kind: uint8(i), Stream: uint8(owner), AtMs: int64(i * 3), Offset: i * owner, Extra: i}
}

// scribble is a process with two writers. Each writer has some chains, and for them a second goroutine that numbers and drops what the writer
// has committed. The first word of a chain is the number of its next entry, when the process starts; the second counts the entries.
func scribble(round uint64) {
	a, err := Open(os.NewFile(3, "arena"), 0)
	if err != nil {
		panic(err)
	}
	for g := range uint64(2) {
		out := make(chan work, 100)
		var chains []*Chain
		for c := range a.Chains() {
			if c.Owner()%2 == g {
				chains = append(chains, c)
			}
		}
		go number(out)
		go write(a, round, g, chains, out)
	}
	for {
		if err := a.Trim(); err != nil {
			panic(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// work is what a writer passes on: an entry, or, if the entry has no block, a chain to free or to begin with.
type work struct {
	chain *Chain
	entry Entry
	i     uint64
	free  bool
}

func write(a *Arena, round, g uint64, chains []*Chain, out chan work) {
	next := make(map[*Chain]uint64)
	for _, c := range chains {
		next[c] = c.Word(0).Load()
		out <- work{chain: c}
	}
	for k := uint64(0); ; {
		switch dice := rand.IntN(200); {
		case len(chains) < 3 || dice == 0 && len(chains) < 8:
			k++
			c, err := a.Chain(round<<32 | k<<1 | g)
			if err != nil {
				panic(err)
			}
			tell(toldMade, c.Owner(), 0, 0)
			chains = append(chains, c)
			continue
		case dice == 1:
			i := rand.IntN(len(chains))
			out <- work{chain: chains[i], free: true}
			chains = slices.Delete(chains, i, i+1)
			continue
		}
		c := chains[rand.IntN(len(chains))]
		i := next[c]
		next[c]++
		n := length(c.Owner(), i)
		more := 0
		if n < 1000 && i%5 == 0 {
			more = 50 // reserved, and not committed
		}
		e, err := c.Reserve(n + more)
		if err != nil {
			panic(err)
		}
		copy(e.Data(), fill(c.Owner(), i, n))
		tell(toldReserved, c.Owner(), i, e.Place())
		e = c.Commit(e, n, header(c.Owner(), i))
		c.Word(1).Store(i + 1)
		tell(toldCommitted, c.Owner(), i, 0)
		out <- work{chain: c, entry: e, i: i}
	}
}

// number numbers the entries that come, and drops them some time later.
func number(in chan work) {
	queues := make(map[*Chain][]work)
	var held []work
	see := func(w work) {
		if w.entry.Seq() == 0 {
			w.entry.SetSeq(w.i + 1)
			tell(toldNumbered, w.chain.Owner(), w.i, 0)
		}
		queues[w.chain] = append(queues[w.chain], w)
	}
	for w := range in {
		switch {
		case w.free:
			tell(toldFreeing, w.chain.Owner(), 0, 0)
			w.chain.Free()
			tell(toldFreed, w.chain.Owner(), 0, 0)
			delete(queues, w.chain)
			continue
		case w.entry.Block == nil:
			for e := range w.chain.Entries() {
				i := e.Header().Extra
				if i >= w.chain.Word(0).Load() {
					break // the writer passes on the rest
				}
				see(work{chain: w.chain, entry: e, i: i})
			}
			continue
		}
		see(w)
		q := queues[w.chain]
		if most := rand.IntN(150); len(q) < most || len(q) < 100 && rand.IntN(20) > 0 {
			continue
		}
		k := rand.IntN(len(q))
		if rand.IntN(4) == 0 {
			k = len(q) - 1
		}
		last := q[k]
		queues[w.chain] = q[k+1:]
		last.entry.Block.Hold()
		held = append(held, last)
		tell(toldDropping, w.chain.Owner(), last.i, 0)
		w.chain.Drop(last.entry)
		tell(toldDropped, w.chain.Owner(), last.i, 0)
		if len(held) > 5 {
			e := held[0].entry
			if !bytes.Equal(e.Data(), fill(held[0].chain.Owner(), held[0].i, len(e.Data()))) {
				panic("the bytes of a held entry changed")
			}
			e.Block.Release()
			held = held[1:]
		}
	}
}

// heard is what the parent knows of a chain.
type heard struct {
	oldest, dropping, next uint64 // numbers of entries
	numbered               uint64 // the number of the first entry without a seq
	freeing, freed         bool
	place                  uint64 // of the reservation for next; 0: none
}

// hear applies what a process has told before its death.
func hear(all map[uint64]*heard, told []byte) error {
	for ; len(told) >= toldBytes; told = told[toldBytes:] {
		var word [4]uint64
		for k := range word {
			word[k] = binary.NativeEndian.Uint64(told[8*k:])
		}
		owner, i := word[1], word[2]
		h := all[owner]
		if word[0] == toldMade {
			h = new(heard)
			all[owner] = h
		}
		switch word[0] {
		case toldReserved:
			if h.place = word[3]; i != h.next {
				return fmt.Errorf("chain %d: entry %d was reserved, want %d", owner, i, h.next)
			}
		case toldCommitted:
			h.next, h.place = i+1, 0
		case toldNumbered:
			h.numbered = i + 1
		case toldDropping:
			h.dropping = i + 1
		case toldDropped:
			h.oldest = i + 1
		case toldFreeing:
			h.freeing = true
		case toldFreed:
			h.freed = true
		}
	}
	if len(told) > 0 {
		return fmt.Errorf("%d bytes are left", len(told))
	}
	return nil
}

// seen counts what the deaths have left.
type seen struct {
	entries, freed, reserved, untold, dropped int
}

// matches says how a chain differs from what was heard, and makes h the state of the chain.
func (h *heard) matches(c *Chain, seen *seen) error {
	owner, first, next := c.Owner(), uint64(0), uint64(0)
	for e := range c.Entries() {
		i := e.Header().Extra
		if next == 0 {
			first, next = i, i
		}
		n := length(owner, i)
		switch {
		case i != next:
			return fmt.Errorf("entry %d follows entry %d", i, next-1)
		case e.Header() != header(owner, i):
			return fmt.Errorf("entry %d has the header %+v", i, e.Header())
		case !bytes.Equal(e.Data(), fill(owner, i, n)):
			return fmt.Errorf("entry %d has other bytes", i)
		case e.Seq() != i+1 && (e.Seq() != 0 || i < h.numbered), e.Seq() != 0 && i > h.numbered:
			return fmt.Errorf("entry %d has the seq %d, %d entries were numbered", i, e.Seq(), h.numbered)
		}
		if next++; e.Seq() != 0 {
			h.numbered = max(h.numbered, next)
		}
	}
	if next == 0 {
		first, next = h.next, h.next
	}
	if first != h.oldest && first != h.dropping || next != h.next && next != h.next+1 {
		return fmt.Errorf("entries %d to %d, want %d or %d to %d, or to one more", first, next, h.oldest, h.dropping, h.next)
	}
	if n := c.Word(1).Load(); n != next && n+1 != next {
		return fmt.Errorf("the word says %d entries, there were %d", n, next)
	}
	seen.untold += int(next - h.next)
	if first != h.oldest {
		seen.dropped++
	}
	if h.place != 0 && next == h.next {
		seen.reserved++
		n := length(owner, next)
		e, err := c.Reserve(n)
		if err != nil || e.Place() != h.place || !bytes.Equal(e.Data(), fill(owner, next, n)) {
			return fmt.Errorf("entry %d was reserved at %d, and is at %d, or has other bytes, or %v", next, h.place, e.Place(), err)
		}
	}
	c.Word(0).Store(next)
	c.Word(1).Store(next)
	*h = heard{oldest: first, dropping: first, next: next, numbered: max(h.numbered, first)}
	return nil
}

// TestKilledWriters kills processes at any time: the next finds each committed entry, and nothing else.
func TestKilledWriters(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 5
	}
	f := memory(t)
	defer f.Close()
	a := open(t, f, 64<<20)
	all := make(map[uint64]*heard)
	var seen seen
	for round := 1; round <= kills; round++ {
		a.Close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var problem bytes.Buffer
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", helper, round))
		cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{f}, w, &problem
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		told := make([]byte, toldBytes)
		if _, err := io.ReadFull(r, told); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(rand.IntN(25_000))*time.Microsecond, func() { cmd.Process.Kill() })
		rest, err := io.ReadAll(r)
		r.Close()
		cmd.Wait()
		if err != nil || problem.Len() > 0 {
			t.Fatalf("%v\n%s", err, &problem)
		}
		if err := hear(all, append(told, rest...)); err != nil {
			t.Fatal(err)
		}
		a = open(t, f, 0)
		check(t, a)
		gone := maps.Clone(all)
		for c := range a.Chains() {
			owner := c.Owner()
			h := all[owner]
			if h == nil { // made, and not told yet
				h = new(heard)
				all[owner] = h
			}
			if h.freed {
				t.Fatalf("round %d: chain %d was freed, and is there", round, owner)
			}
			if err := h.matches(c, &seen); err != nil {
				t.Fatalf("round %d, chain %d: %v", round, owner, err)
			}
			delete(gone, owner)
		}
		for owner, h := range gone {
			if !h.freeing {
				t.Fatalf("round %d: chain %d with %d entries is lost", round, owner, h.next)
			}
			seen.entries += int(h.next)
			seen.freed++
			delete(all, owner)
		}
	}
	for _, h := range all {
		seen.entries += int(h.next)
	}
	t.Logf("%d kills, %d entries, %d chains freed, %d chains and %d bytes left; found: %d reservations, %d untold commits, %d untold drops",
		kills, seen.entries, seen.freed, len(all), a.Used(), seen.reserved, seen.untold, seen.dropped)
	for c := range a.Chains() {
		c.Free()
	}
	if check(t, a); a.Used() != 0 {
		t.Errorf("%d bytes are in use, and there is no chain", a.Used())
	}
	a.Close()
}
