package arena

import (
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/slab"
)

var benchmarked = []int{80, 4 << 10, 64 << 10}

// kept is how many bytes of output a chain keeps in benchmarks.
const kept = 1 << 20

// emptyChain returns a new arena, and a chain in it.
func emptyChain(b *testing.B) (*Arena, *Chain) {
	f := memory(b)
	b.Cleanup(func() { f.Close() })
	a := open(b, f, 64<<20)
	b.Cleanup(func() { a.Close() })
	c, err := a.Chain(1)
	if err != nil {
		b.Fatal(err)
	}
	return a, c
}

// BenchmarkCommit adds entries to a chain, and drops the oldest. The bytes of the file are those of all blocks for each entry in the chain.
func BenchmarkCommit(b *testing.B) {
	for _, n := range benchmarked {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a, c := emptyChain(b)
			data := random[:n]
			ring := make([]Entry, kept/n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			i := 0
			for b.Loop() {
				e, err := c.Reserve(n)
				if err != nil {
					b.Fatal(err)
				}
				copy(e.Data(), data)
				e = c.Commit(e, n, Header{})
				oldest := &ring[i%len(ring)]
				if oldest.Block != nil {
					c.Drop(*oldest)
				}
				*oldest = e
				i++
			}
			b.ReportMetric(float64(a.Used())/float64(min(i, len(ring))), "file-B/entry")
		})
	}
}

// BenchmarkSlab does the same with slabs: short output is copied to its own memory, long output keeps its slab.
func BenchmarkSlab(b *testing.B) {
	for _, n := range benchmarked {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			data := random[:n]
			type entry struct {
				slab *slab.Slab
				data []byte
			}
			ring := make([]entry, kept/n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			i := 0
			for b.Loop() {
				s := slab.Get()
				e := entry{slab: s, data: s.Bytes()[:copy(s.Bytes(), data)]}
				if n < slab.Size/2 {
					e.data = append([]byte(nil), e.data...)
					s.Release()
					e.slab = nil
				}
				oldest := &ring[i%len(ring)]
				oldest.slab.Release()
				*oldest = e
				i++
			}
		})
	}
}

// BenchmarkEcho adds a line to an empty chain, and drops the line.
func BenchmarkEcho(b *testing.B) {
	_, c := emptyChain(b)
	b.ReportAllocs()
	for b.Loop() {
		e, err := c.Reserve(80)
		if err != nil {
			b.Fatal(err)
		}
		copy(e.Data(), random[:80])
		c.Drop(c.Commit(e, 80, Header{}))
	}
}
