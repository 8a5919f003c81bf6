package outlog

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// Readers get a prefix of the written bytes, each byte once, and a gap for each loss. All readers get the same entries. This holds for
// any number of readers, any order of appends, drops and reads, and for memory and disk. In the end all memory and disk space is given
// back.
func TestReadersGetEveryByteOnce(t *testing.T) {
	dir := t.TempDir()
	eventually := func(t *rapid.T, what string, ok func() bool) {
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatal("not within 30s: ", what)
			}
		}
	}
	type entry struct {
		atMs     int64
		kind     Kind
		stream   protocol.Stream
		from, to uint64 // of the output
	}
	rapid.Check(t, func(t *rapid.T) {
		var (
			disk    = spool.NewDisk(dir, 1<<30, nil)
			file    = disk.New(1 << 30)
			l       Log
			written []byte               // all output, of both streams
			streams []protocol.Stream    // of each byte
			known   = map[uint64]entry{} // by seq, what a reader had
			cursors [3]Cursor
			got     [3]uint64 // bytes had, those in gaps included
			next    = [3]uint64{1, 1, 1}
		)
		if err := file.Open(); err != nil {
			t.Fatal(err)
		}
		read := func(i int) {
			limit := rapid.IntRange(0, 300).Draw(t, "limit")
			entries, gap := l.Read(&cursors[i], limit, nil)
			if gap.From != 0 {
				if gap.From != next[i] || gap.To < gap.From {
					t.Fatalf("gap %+v, wanted seq %d", gap, next[i])
				}
				next[i] = gap.To + 1
				got[i] += gap.Bytes
			}
			n, outputs := 0, 0
			for _, e := range entries {
				if e.Kind == Output {
					outputs++
				}
				if e.Seq != next[i] {
					t.Fatalf("got seq %d, want %d", e.Seq, next[i])
				}
				next[i]++
				n += e.Len()
				had := entry{e.AtMs, e.Kind, e.Stream, got[i], got[i] + uint64(e.Len())}
				if was, ok := known[e.Seq]; ok && had != was {
					t.Fatalf("a reader gets %+v, and another had %+v", had, was)
				}
				known[e.Seq] = had
				for _, stream := range streams[got[i] : got[i]+uint64(e.Len())] {
					if e.Stream != stream {
						t.Fatalf("seq %d of %s has output of %s", e.Seq, e.Stream, stream)
					}
				}
				data := e.Data
				if e.Spooled != nil {
					var err error
					if data, err = e.Spooled.Read(nil); err != nil {
						t.Fatal(err)
					}
				}
				want := written[got[i] : got[i]+uint64(e.Len())]
				if !bytes.Equal(data, want) {
					t.Fatalf("seq %d: got %q, want %q", e.Seq, data, want)
				}
				got[i] += uint64(e.Len())
				e.Release()
			}
			if n > limit && outputs > 1 {
				t.Fatalf("%d bytes in %d entries, limit %d", n, len(entries), limit)
			}
			if outputs == 0 && cursors[i].Seq != l.Last() {
				t.Fatalf("nothing read at %d of %d", cursors[i].Seq, l.Last())
			}
		}
		write := func(t *rapid.T) (b []byte, s protocol.Stream) {
			b = rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "data")
			s = rapid.SampledFrom([]protocol.Stream{protocol.Stdout, protocol.Stderr}).Draw(t, "stream")
			written, streams = append(written, b...), append(streams, slices.Repeat([]protocol.Stream{s}, len(b))...)
			return b, s
		}
		put := func(b []byte) int64 {
			file.Reserve(int64(len(b)))
			at, err := file.Write(b)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				b, s := write(t)
				l.Append(s, b, nil)
			},
			"spool": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "pieces") {
					b, s := write(t)
					l.AppendSpooled(s, file, put(b), len(b))
				}
			},
			"hole": func(*rapid.T) { file.Free(put([]byte("lost")), 4) },
			"clock": func(t *rapid.T) {
				l.NowMs += rapid.SampledFrom([]int64{1, 10, 200, 1 << 40, -1}).Draw(t, "ms")
			},
			"event": func(t *rapid.T) { l.AppendExited(protocol.ExitStatus{}, false) },
			"drop": func(t *rapid.T) {
				keep := rapid.Uint64Range(0, l.Last()+1).Draw(t, "keep")
				held, last := l.Cost(keep), l.Last()
				least := rapid.Int64Range(0, 2000).Draw(t, "least")
				l.Drop(least, least+rapid.Int64Range(0, 2000).Draw(t, "more"), keep)
				if now := l.Cost(keep); now != held || l.Last() != last {
					t.Fatalf("drop that keeps all after %d changed its cost from %d to %d, and the last seq from %d to %d", keep, held, now, last, l.Last())
				}
			},
			"": func(t *rapid.T) {
				if l.Written() != uint64(len(written)) {
					t.Fatalf("%d bytes are written, want %d", l.Written(), len(written))
				}
				for seq := l.First() - 1; seq < l.Last(); seq++ {
					if l.Cost(seq) <= l.Cost(seq+1) {
						t.Fatalf("the entries after %d cost %d, and those after the next %d", seq, l.Cost(seq), l.Cost(seq+1))
					}
				}
				events := 0
				reads := l // the reader of a copy does not keep output from growing
				for c := reads.At(0); c.Seq < l.Last(); {
					es, _ := reads.ReadEvents(&c)
					events += len(es)
				}
				if es, to := l.Events(0, math.MaxInt); len(es) != events || to != l.Last() {
					t.Fatalf("%d events up to %d, want %d up to %d", len(es), to, events, l.Last())
				}
			},
			"read0": func(t *rapid.T) { read(0) },
			"read1": func(t *rapid.T) { read(1) },
			"read2": func(t *rapid.T) { read(2) },
		})
		for i := range cursors {
			for cursors[i].Seq < l.Last() {
				read(i)
			}
			if got[i] != uint64(len(written)) {
				t.Fatalf("reader %d had %d of %d bytes", i, got[i], len(written))
			}
		}
		eventually(t, "what is on disk is what the log counts", func() bool { return file.Held() == l.Spooled() })
		l.Drop(0, 0, l.Last())
		if l.coded != 0 {
			t.Fatalf("%d bytes of entries are left in an empty log", l.coded)
		}
		file.Close()
		eventually(t, "nothing is on disk", func() bool { return l.Spooled() == 0 && disk.Used() == 0 })
	})
}

func TestDrop(t *testing.T) {
	var l Log
	for i := range 10 {
		l.Append(protocol.Stdout, bytes.Repeat([]byte{byte('0' + i)}, 100), nil)
		l.seen = l.Last() // as if read: each append is its own entry
	}
	const each = 100 + entryCost
	for _, c := range []struct {
		least, most int64
		keep        uint64
		first       uint64
	}{
		{10 * each, 100 * each, 10, 1},       // fits
		{8 * each, 100 * each, 1, 2},         // only the first may go
		{8*each - each/2, 100 * each, 10, 3}, // half an entry more than wanted stays
		{8 * each, 7*each + 1, 10, 4},        // too much in all
		{0, 0, 5, 6},
		{0, 0, 10, 11},
	} {
		l.Drop(c.least, c.most, c.keep)
		if l.First() != c.first || l.Last() != 10 {
			t.Errorf("Drop(%d, %d, %d): holds %d to %d, want %d to 10", c.least, c.most, c.keep, l.First(), l.Last(), c.first)
		}
	}
	if n := l.Cost(0); n != 0 {
		t.Errorf("an empty log costs %d", n)
	}
	l.Append(protocol.Stderr, []byte("x"), nil)
	if l.Last() != 11 {
		t.Errorf("seq after all was dropped: %d, want 11", l.Last())
	}
}

// Bytes on disk count for Drop as bytes in memory do.
func TestDropOnDisk(t *testing.T) {
	var l Log
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for i := range int64(10) {
		l.AppendSpooled(protocol.Stdout, file, i<<20, 64<<10)
		l.seen = l.Last()
	}
	l.Drop(128<<10, math.MaxInt64, 10)
	if first, on := l.First(), l.Spooled(); first != 9 || on != 128<<10 {
		t.Errorf("the log begins at %d with %d bytes on disk, want the last two of 64 KiB", first, on)
	}
	l.Drop(100<<10, 100<<10, 10)
	if l.First() != 10 {
		t.Errorf("the log begins at %d, want 10 for at most 100 KiB", l.First())
	}
}

// A client that comes back may give a cursor any seq.
func TestAt(t *testing.T) {
	var l Log
	for range 4 {
		l.Append(protocol.Stdout, []byte("ab"), nil)
		l.seen = l.Last()
	}
	l.Drop(0, 0, 2)
	for _, c := range []struct {
		after uint64
		want  string
	}{
		{0, "gap 1-2 4 bytes, 3 4"},
		{1, "gap 2-2 0 bytes, 3 4"}, // how many bytes 1 had is not known any more
		{2, " 3 4"},
		{3, " 4"},
		{4, ""},
		{99, ""},
	} {
		cur := l.At(c.after)
		entries, gap := l.Read(&cur, 1000, nil)
		got := ""
		if gap.From != 0 {
			got = fmt.Sprintf("gap %d-%d %d bytes,", gap.From, gap.To, gap.Bytes)
		}
		for _, e := range entries {
			got += fmt.Sprint(" ", e.Seq)
		}
		if got != c.want {
			t.Errorf("after %d: got %q, want %q", c.after, got, c.want)
		}
	}
}

// The empty output in place of Closed does not grow: whoever was told of Closed by Events reads on after it.
func TestOutputAfterReopen(t *testing.T) {
	var l Log
	l.AppendClosed()
	events, to := l.Events(0, 10)
	l.Reopen()
	l.Append(protocol.Stdout, []byte("x"), nil)
	c := l.At(to)
	if read, _ := l.Read(&c, 1000, nil); len(events) != 1 || len(read) != 1 || string(read[0].Data) != "x" {
		t.Errorf("after the events %+v: %+v, want x", events, read)
	}
}

// Unread output grows. Read output does not grow.
func TestGrowth(t *testing.T) {
	var l Log
	l.Append(protocol.Stdout, []byte("a"), nil)
	l.Append(protocol.Stdout, []byte("b"), nil)
	l.Append(protocol.Stderr, []byte("c"), nil)
	c := l.At(0)
	read, _ := l.Read(&c, 1000, nil)
	l.Append(protocol.Stderr, []byte("d"), nil)
	if len(read) != 2 || string(read[0].Data) != "ab" || string(read[1].Data) != "c" || l.Last() != 3 {
		t.Fatalf("read %v, last %d", read, l.Last())
	}
	for range 2 * growMax {
		l.Append(protocol.Stdout, []byte("x"), nil)
	}
	if l.Last() != 5 {
		t.Errorf("%d single bytes are entries up to seq %d, want 5", 2*growMax, l.Last())
	}
	l.Append(protocol.Stderr, []byte("x"), nil)
	c = l.At(l.Last())
	l.Append(protocol.Stderr, []byte("y"), nil)
	if read, _ := l.Read(&c, 1000, nil); len(read) != 1 || string(read[0].Data) != "y" {
		t.Errorf("behind all that was there: %v, want y", read)
	}
}

// The cost of entries is the memory in use. Otherwise a child that writes single bytes would hold more than its
// retention.
func TestCostIsMemory(t *testing.T) {
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	var l Log
	for range 500_000 { // streams alternate: two outputs of a stream would become a single entry
		l.Append(protocol.Stdout, append([]byte(nil), 'x'), nil)
		l.Append(protocol.Stderr, append([]byte(nil), 'y'), nil)
	}
	used, cost := inUse()-before, l.Cost(0)
	if l.Last() != 1e6 || used > cost*13/10 {
		t.Errorf("%d entries cost %d MiB and take %d", l.Last(), cost>>20, used>>20)
	}
	runtime.KeepAlive(&l)
}

// An entry on disk costs little memory, also if it is small and the next is of the other stream. Its cost is this memory.
func TestCostOnDisk(t *testing.T) {
	const n = 1_000_000
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	file := spool.NewDisk(t.TempDir(), 1<<40, nil).New(1 << 40)
	before := inUse()
	var l Log
	for i := range int64(n) {
		l.AppendSpooled(protocol.Stream(1+i%2), file, i*80, 80)
	}
	used, cost := inUse()-before, l.Cost(0)
	if l.Last() != n || cost > 4*n || used > cost*13/10 {
		t.Errorf("%d entries cost %d KiB and take %d", l.Last(), cost>>10, used>>10)
	}
	c := l.At(n / 2)
	if read, _ := l.Read(&c, 160, nil); len(read) != 2 || read[0].Seq != n/2+1 || read[1].Stream != protocol.Stream(1+(n/2+1)%2) {
		t.Errorf("in the midst of the log: %+v", read)
	}
	l.Close()
	if l.Cost(0) != 0 || l.Spooled() != 0 {
		t.Errorf("without entries the log costs %d, and has %d bytes on disk", l.Cost(0), l.Spooled())
	}
	runtime.KeepAlive(file)
}

// BenchmarkLog is a flood: a chunk is added, read, acknowledged and dropped.
func BenchmarkLog(b *testing.B) {
	for _, size := range []int{100, 4 << 10, slab.Size} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var l Log
			var c Cursor
			var entries []Entry
			lent := slab.Get()
			data := lent.Bytes()[:size]
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				l.Append(protocol.Stdout, data[:size:size], lent)
				entries, _ = l.Read(&c, slab.Size, entries[:0])
				for i := range entries {
					entries[i].Release()
				}
				l.Drop(64<<10, math.MaxInt64, c.Seq)
			}
		})
	}
}

// BenchmarkSpooled is a flood on disk, to both streams in turn: chunks are written, added, read, acknowledged and dropped.
func BenchmarkSpooled(b *testing.B) {
	for _, size := range []int{80, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			file := spool.NewDisk(b.TempDir(), 1<<30, nil).New(1 << 30)
			if err := file.Open(); err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			var l Log
			var c Cursor
			var entries []Entry
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				file.Reserve(int64(size))
				at, _ := file.Write(data)
				l.AppendSpooled(protocol.Stream(1+i%2), file, at, size)
				if i%64 < 63 {
					continue
				}
				for c.Seq < l.Last() {
					entries, _ = l.Read(&c, 128<<10, entries[:0])
					for i := range entries {
						entries[i].Release()
					}
				}
				l.Drop(0, 0, c.Seq)
			}
		})
	}
}

// Output is added to an entry for 100 ms only: the time of the entry is then the time of all its output.
func TestOldEntriesDoNotGrow(t *testing.T) {
	var l Log
	for _, ms := range []int64{1000, 1099, 1100, 1150, 1020} { // at last the clock is set back
		l.NowMs = ms
		l.Append(protocol.Stdout, []byte{'x'}, nil)
	}
	entries, _ := l.Read(&Cursor{}, 100, nil)
	var got []int64
	for _, e := range entries {
		got = append(got, e.AtMs)
	}
	if !slices.Equal(got, []int64{1000, 1100, 1020}) {
		t.Errorf("entries begin at %v, want at 1000, 1100 and 1020", got)
	}
}

// A program that writes a line every now and then, to one stream, fills its spool and not the list of its places: the more entries are
// on disk, the longer each grows. When they are gone, an entry grows for 100 ms again.
func TestSlowProgramFillsItsSpool(t *testing.T) {
	const most = 1 << 30
	file := spool.NewDisk(t.TempDir(), most, nil).New(most)
	var l Log
	for at := int64(0); at < most && l.Cost(0) < 1<<20; at += 800 {
		l.NowMs += 1000
		l.AppendSpooled(protocol.Stdout, file, at, 800)
	}
	if l.Spooled() < most || l.Last() < 100_000 {
		t.Errorf("%d MiB are on disk in %d entries that cost %d KiB", l.Spooled()>>20, l.Last(), l.Cost(0)>>10)
	}
	from := l.Last() + 1
	l.Drop(0, 0, l.Last())
	for i := range int64(3) {
		l.NowMs += 99
		l.AppendSpooled(protocol.Stdout, file, most+i, 1)
	}
	if l.First() != from || l.Last() != from+1 {
		t.Errorf("the log has seq %d to %d, want %d and the next", l.First(), l.Last(), from)
	}
}

// A kind prints as a name.
func TestKindNames(t *testing.T) {
	for kind, want := range map[Kind]string{Output: "output", Exited: "exited", Restarted: "restarted", Ready: "ready", Evicted: "evicted", Closed: "closed", 0: "Kind(0)", Closed + 1: "Kind(7)"} {
		if got := fmt.Sprint(kind); got != want {
			t.Errorf("%d prints as %s, want %s", uint8(kind), got, want)
		}
	}
}

// Instead of output, ReadEvents has gaps: of dropped entries, of entries that the log holds, and of output that nobody can read.
func TestReadEvents(t *testing.T) {
	var l Log
	output := func() {
		l.Append(protocol.Stdout, []byte("ab"), nil)
		l.seen = l.Last()
	}
	output()
	output()
	l.AppendReady(1)
	output()
	l.AppendLost(protocol.Stderr, 100)
	l.AppendExited(protocol.ExitStatus{ExitCode: 7}, false)
	output()
	l.AppendClosed()
	l.Drop(0, 0, 1)
	for _, c := range []struct {
		after uint64
		want  string
	}{
		{0, "1-2 4 bytes, ready; 4-5 102 bytes, exited; 7-7 2 bytes, closed; "},
		{1, "2-2 2 bytes, ready; 4-5 102 bytes, exited; 7-7 2 bytes, closed; "},
		{3, "4-5 102 bytes, exited; 7-7 2 bytes, closed; "},
		{5, "0-0 0 bytes, exited; 7-7 2 bytes, closed; "},
		{7, "0-0 0 bytes, closed; "},
		{8, ""},
	} {
		got := ""
		for cur := l.At(c.after); cur.Seq < l.Last(); {
			events, gap := l.ReadEvents(&cur)
			got += fmt.Sprintf("%d-%d %d bytes, ", gap.From, gap.To, gap.Bytes)
			for _, e := range events {
				got += e.Kind.String()
			}
			got += "; "
		}
		if got != c.want {
			t.Errorf("after %d: %q, want %q", c.after, got, c.want)
		}
	}
}

// No entry grows beyond MaxChunk, in memory or on disk.
func TestMaxChunk(t *testing.T) {
	l := Log{MaxChunk: 1000}
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for range 3 {
		l.Append(protocol.Stdout, make([]byte, 400), nil)
	}
	for i := range int64(3) {
		l.AppendSpooled(protocol.Stderr, file, 4000+400*i, 400)
	}
	c := l.At(0)
	entries, _ := l.Read(&c, 1<<20, nil)
	most := map[protocol.Stream]int{}
	for i := range entries {
		most[entries[i].Stream] = max(most[entries[i].Stream], entries[i].Len())
	}
	if most[protocol.Stdout] != 800 || most[protocol.Stderr] != 800 {
		t.Errorf("the largest entries have %v bytes, want 800", most)
	}
}

// An event that is repeated is in the log once, whatever came in between. An event of another run is another event.
func TestEventsOnce(t *testing.T) {
	for name, add := range map[string]func(l *Log, run int) bool{
		"exited":    func(l *Log, run int) bool { return l.AppendExited(protocol.ExitStatus{Run: run}, false) },
		"restarted": func(l *Log, run int) bool { return l.AppendRestarted(Restart{Run: run}) },
		"ready":     func(l *Log, run int) bool { return l.AppendReady(run) },
	} {
		var l Log
		if !add(&l, 1) || add(&l, 1) || l.Last() != 1 {
			t.Errorf("%s: a repeated event makes %d entries", name, l.Last())
		}
		if !add(&l, 2) || l.Last() != 2 {
			t.Errorf("%s: that of another run makes %d entries", name, l.Last())
		}
		l.Append(protocol.Stdout, []byte("x"), nil)
		if add(&l, 2) || l.Last() != 3 {
			t.Errorf("%s: after output, there are %d entries", name, l.Last())
		}
	}
	var l Log
	if !l.AppendEvicted("x") || l.AppendEvicted("x") || !l.AppendClosed() || l.AppendClosed() || l.Last() != 2 {
		t.Errorf("evicted and closed make %d entries", l.Last())
	}
	if l.Reopen(); !l.AppendEvicted("x") || !l.AppendClosed() || l.Last() != 4 {
		t.Errorf("evicted and closed again make %d entries", l.Last())
	}
}

// A log that is made again from its entries is the same log.
func TestRestore(t *testing.T) {
	file := spool.NewDisk(t.TempDir(), 0, nil).New(math.MaxInt64)
	if err := file.Open(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		l := Log{NowMs: 1000}
		pieces := make(map[uint64]spool.Piece) // on disk, by seq
		for run, n := 1, rapid.IntRange(0, 30).Draw(t, "entries"); n > 0; n-- {
			switch l.NowMs += 200; rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				l.AppendExited(protocol.ExitStatus{Run: run, ExitCode: n}, false)
			case 1:
				run++
				l.AppendRestarted(Restart{Run: run})
			case 2:
				l.AppendReady(run)
			case 3:
				l.AppendEvicted("why")
			case 4:
				l.AppendClosed()
				l.Reopen()
			case 5:
				l.Drop(0, 0, uint64(rapid.IntRange(0, int(l.Last())).Draw(t, "keep")))
			case 6:
				for range rapid.IntRange(1, 3).Draw(t, "pieces") {
					file.Reserve(int64(n))
					at, err := file.Write(bytes.Repeat([]byte{byte(n)}, n))
					if err != nil {
						t.Fatal(err)
					}
					l.AppendSpooled(protocol.Stdout, file, at, n)
					if p, more := pieces[l.Last()]; more {
						pieces[l.Last()] = spool.Piece{At: p.At, N: p.N + int64(n)}
					} else {
						pieces[l.Last()] = spool.Piece{At: at, N: int64(n)}
					}
				}
			default:
				l.Append(protocol.Stderr, make([]byte, n), nil)
			}
		}
		if rapid.Bool().Draw(t, "closed") {
			l.AppendClosed()
		}
		read := func(l *Log) []Entry {
			c := Cursor{}
			all, _ := l.Read(&c, math.MaxInt, nil)
			for i := range all {
				if e := &all[i]; e.Spooled != nil {
					var err error
					if e.Data, err = e.Spooled.Read(nil); err != nil {
						t.Fatal(err)
					}
					e.Release()
					e.Spooled = nil
				}
			}
			return all
		}
		want := read(&l)
		var kept []Restored
		for _, e := range want {
			r := Restored{Entry: e}
			if p, ok := pieces[e.Seq]; ok {
				r.Data, r.File, r.Piece = nil, file, p
			}
			if e.Kind != Output || len(e.Data) > 0 {
				kept = append(kept, r)
			}
		}
		var again Log
		again.Restore(l.First(), l.Last(), l.Written(), kept)
		got := read(&again)
		for i := range want {
			if e := want[i]; e.Kind == Output && len(e.Data) == 0 { // after Reopen
				want[i] = Entry{Seq: e.Seq, Kind: Output, Stream: protocol.Stdout}
				got[i].AtMs = 0
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the log has\n%+v\nwant\n%+v", got, want)
		}
		for seq := l.First() - 1; seq <= l.Last(); seq++ {
			if again.Bytes(seq) != l.Bytes(seq) {
				t.Errorf("%d bytes after %d, want %d", again.Bytes(seq), seq, l.Bytes(seq))
			}
		}
		if again.First() != l.First() || again.Last() != l.Last() || again.Written() != l.Written() || again.Spooled() != l.Spooled() || again.Dropped() != l.Dropped() {
			t.Errorf("first %d last %d written %d dropped %d, want %d %d %d %d", again.First(), again.Last(), again.Written(), again.Dropped(), l.First(), l.Last(), l.Written(), l.Dropped())
		}
		l.NowMs += 200
		again.NowMs = l.NowMs
		for _, e := range kept { // what is there is not added again
			if e.Kind == Exited && again.AppendExited(*e.Status, e.Denied) != l.AppendExited(*e.Status, e.Denied) {
				t.Errorf("the exit of run %d", e.Status.Run)
			}
		}
		if again.AppendClosed() != l.AppendClosed() {
			t.Error("closed")
		}
	})
}
