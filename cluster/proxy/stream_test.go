package proxy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// far is a process of a node, with the stream of its connection.
type far struct {
	last   uint64 // of its log
	oldest uint64 // held
	sent   uint64 // to the connection
}

func data(seq uint64) []byte { return make([]byte, seq*7919%300) }

func output(seq uint64) item {
	return entry(outlog.Entry{Seq: seq, Kind: outlog.Output, Stream: protocol.Stdout, Data: data(seq)})
}

// read answers a process/read.
func (f *far) read(after uint64, most int) *protocol.ProcessReadResult {
	r := &protocol.ProcessReadResult{FirstSeq: f.oldest, NextSeq: max(after, f.oldest-1) + 1}
	n := 0
	for seq := r.NextSeq; seq <= f.last && (n == 0 || n+len(data(seq)) <= most); seq++ {
		n += len(data(seq))
		r.Chunks = append(r.Chunks, protocol.Chunk{Seq: seq, Stream: protocol.Stdout, Chunk: data(seq)})
		r.NextSeq = seq + 1
	}
	return r
}

// Whatever the order of pushes, cuts, resumes, and fast or slow viewers, each viewer gets everything once and in order, and the
// stream holds no more than its bound.
func TestStream(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &stream{most: 2000}
		s.watch(true)
		f := &far{oldest: 1}
		at := make([]uint64, 3)
		joined := false
		look := func(v int, most int) {
			gap, entries, behind := s.take(at[v], most)
			if behind && !s.comes(at[v]) {
				gap, entries, _ = collect(itemsOf(f.read(at[v], most), at[v]), at[v], most)
				if len(entries) == 0 && gap.From == 0 {
					t.Fatalf("seed %d: a viewer at %d is behind, and a read has nothing: last %d", seed, at[v], f.last)
				}
			}
			if gap.From != 0 {
				if gap.From != at[v]+1 || gap.To >= f.oldest {
					t.Fatalf("seed %d: a gap from %d to %d after %d, the oldest is %d", seed, gap.From, gap.To, at[v], f.oldest)
				}
				at[v] = gap.To
			}
			for _, e := range entries {
				if e.Seq != at[v]+1 || len(e.Data) != len(data(e.Seq)) {
					t.Fatalf("seed %d: seq %d after %d", seed, e.Seq, at[v])
				}
				at[v] = e.Seq
			}
			s.trim(slices.Min(at))
		}
		var push func()
		join := func() {
			after := s.from(slices.Min(at))
			for range random.IntN(4) { // before the node has the request
				if joined {
					push()
				}
			}
			f.sent, joined = after, true
			s.begin(after, f.last)
		}
		push = func() {
			if f.sent+1 < f.oldest { // dropped, to the cost of this connection
				s.push(item{gap: outlog.Gap{From: f.sent + 1, To: f.oldest - 1}})
				f.sent = f.oldest - 1
			}
			if f.sent < f.last {
				f.sent++
				s.push(output(f.sent))
			}
		}
		for range 400 {
			switch random.IntN(8) {
			case 0, 1:
				f.last += random.Uint64N(5)
			case 2, 3, 4:
				if joined {
					push()
				}
			case 5:
				look(random.IntN(2), 1+random.IntN(800)) // the third is slow
			case 6:
				if random.IntN(10) == 0 {
					s.cut()
					joined = false
				} else if !joined || random.IntN(10) == 0 {
					join()
				}
			case 7:
				if random.IntN(10) == 0 {
					f.oldest = min(f.oldest+random.Uint64N(3), f.last+1)
				}
			}
			if n := len(s.items); n > 1 && s.bytes > s.most {
				t.Fatalf("seed %d: %d bytes in %d items", seed, s.bytes, n)
			}
		}
		join()
		for f.sent < f.last {
			push()
		}
		for v := range at {
			for range 3000 {
				look(v, 500)
			}
			if at[v] != f.last {
				t.Fatalf("seed %d: viewer %d is at %d, want %d", seed, v, at[v], f.last)
			}
		}
	}
}

// At the end, a viewer gets the held entries, and a gap only if the rest is gone.
func TestStreamRest(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{true, false} {
		s := &stream{most: 500}
		s.watch(true)
		s.begin(0, 0)
		for seq := range uint64(10) {
			s.push(output(seq + 1))
		}
		s.push(entry(outlog.Entry{Seq: 11, Kind: outlog.Closed}))
		var gap uint64
		var last outlog.Entry
		for at := uint64(0); ; {
			g, entries := s.rest(at, 100, gone)
			if g.From == 0 && len(entries) == 0 {
				break
			}
			if g.From != 0 {
				gap += g.To - g.From + 1
				at = g.To
			}
			for _, last = range entries {
				at = last.Seq
			}
		}
		if (last.Kind == outlog.Closed) != gone || (gap > 0) != gone {
			t.Errorf("gone %t: %d entries are missing, and the last is %v", gone, gap, last)
		}
	}
	s := &stream{most: 500} // nothing has come, and the end is known
	s.knows(7, true)
	if gap, entries := s.rest(2, 100, true); gap != (outlog.Gap{From: 3, To: 6}) || len(entries) != 1 || entries[0].Seq != 7 || entries[0].Kind != outlog.Closed {
		t.Errorf("%v %v", gap, entries)
	}
}
