package estate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// next returns the estate of the next server of a holder. That of the last one is left as if its server had been killed.
func next(t *testing.T, h *testholder.Holder) *Estate {
	t.Helper()
	e, err := Open(h, h.Next(), 16<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type state1 struct{ A, B string }

// An owner's record outlives its server with the newest of each field. DropRest drops those of owners whom nobody has asked for.
func TestRecords(t *testing.T) {
	h := testholder.New(t)
	e := next(t, h)
	mine, other, gone := e.Owner("p mine"), e.Owner("p other"), e.Owner("p gone")
	mine.Keep(&state1{"a", "b"})
	mine.Keep(&state1{"a", "c"})
	other.Keep(&state1{"x", ""})
	gone.Keep(&state1{"y", ""})
	gone.End()
	gone.Keep(&state1{"z", ""})

	e = next(t, h)
	var got state1
	if names := slices.Sorted(e.Names("p ")); !slices.Equal(names, []string{"p mine", "p other"}) {
		t.Errorf("names %q", names)
	}
	if err := e.Revive("p mine", &got); err != nil || got != (state1{"a", "c"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := e.Revive("p gone", &got); err == nil {
		t.Error("an owner that has ended is there")
	}
	e.Owner("p mine") // goes on, and writes nothing before the death of this server
	e.DropRest()

	e = next(t, h)
	if names := slices.Sorted(e.Names("")); !slices.Equal(names, []string{"p mine"}) {
		t.Errorf("after DropRest: %q", names)
	}
}

// A file outlives the server, until somebody drops it or nobody asks for it.
func TestFiles(t *testing.T) {
	h := testholder.New(t)
	e := next(t, h)
	for _, owner := range []string{"stays", "dropped", "nobody's"} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(owner); err != nil {
			t.Fatal(err)
		}
		if err := e.KeepFile(owner, f); err != nil {
			t.Fatal(err)
		}
	}
	e.DropFile("dropped")
	for range 2 { // the second server after the first has the file, too
		e = next(t, h)
		f := e.File("stays")
		if f == nil {
			t.Fatal("the file is gone")
		}
		b, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
		if f.Close(); string(b) != "stays" || err != nil {
			t.Errorf("the file has %q, %v", b, err)
		}
		e.DropRest()
	}
	e = next(t, h)
	if a, b := e.File("dropped"), e.File("nobody's"); a != nil || b != nil {
		t.Errorf("the files %v and %v are there", a, b)
	}
}

// A record over which three servers have died in a row is given up, at once and for good. Any other record is not.
func TestRecordsThatKill(t *testing.T) {
	h := testholder.New(t)
	e := next(t, h)
	for _, name := range []string{"a", "b", "c"} {
		e.Owner(name).Keep(&state1{A: name})
	}
	for i, server := range []struct {
		tries []string
		lives bool // the server revives all
		gone  []string
	}{
		{[]string{"a", "b"}, false, nil},
		{[]string{"a", "b", "c"}, true, nil}, // b is not to blame
		{[]string{"a"}, false, nil},
		{[]string{"a"}, false, nil},
		{[]string{"a"}, false, nil},
		{[]string{"a", "b"}, false, []string{"a"}}, // dies before DropRest
		{[]string{"b"}, false, nil},
		{[]string{"b"}, false, nil},
		{[]string{"b", "c"}, true, []string{"b"}},
	} {
		e = next(t, h)
		var gone []string
		for _, name := range server.tries {
			var got state1
			if err := e.Revive(name, &got); err != nil {
				gone = append(gone, name)
			} else if got.A != name {
				t.Errorf("server %d: %+v", i, got)
			}
		}
		if !slices.Equal(gone, server.gone) {
			t.Errorf("server %d gives up %q, want %q", i, gone, server.gone)
		}
		if server.lives {
			e.Revived()
		}
	}
	if names := slices.Sorted(next(t, h).Names("")); !slices.Equal(names, []string{"c"}) {
		t.Errorf("the records %q are left", names)
	}
}

// If a server dies while it revives several records at a time, the next ones revive one after the other, until it is known which of them kills.
func TestRecordsThatKillBesideOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	h := testholder.New(t)
	e := next(t, h)
	for _, name := range []string{"a", "b", "c"} {
		e.Owner(name).Keep(&state1{A: name})
	}
	e = next(t, h)
	all := e.Revivers()
	if len(all) != revivers {
		t.Fatalf("%d records are revived at a time, want %d", len(all), revivers)
	}
	var got state1
	for i, name := range []string{"a", "b", "c"} {
		if err := all[i].Revive(name, &got); err != nil {
			t.Fatal(err)
		}
	}
	for range maxDead - 1 { // c kills
		e = next(t, h)
		if all = e.Revivers(); len(all) != 1 {
			t.Fatalf("%d records are revived at a time after a death", len(all))
		}
		for _, name := range []string{"a", "b", "c"} {
			if err := all[0].Revive(name, &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	e = next(t, h)
	for _, name := range []string{"a", "b", "c"} {
		if err := e.Revivers()[0].Revive(name, &got); (err != nil) != (name == "c") {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.Revived()
	if n := len(next(t, h).Revivers()); n != revivers {
		t.Errorf("%d records are revived at a time after a server that lives", n)
	}
}

// list is a ledger of this process.
type list struct {
	records [][]byte
	size    int
	full    bool
}

func (l *list) Append(b []byte) error {
	if l.full {
		return errors.New("full")
	}
	l.records, l.size = append(l.records, bytes.Clone(b)), l.size+len(b)
	return nil
}

func (l *list) Replay(do func([]byte) error) error {
	for _, b := range l.records {
		if err := do(b); err != nil {
			return err
		}
	}
	return nil
}

func (l *list) Compact(counts func([]byte) bool) error {
	var short list
	for _, b := range l.records {
		if counts(b) {
			short.Append(b)
		}
	}
	*l = short
	return nil
}

func (l *list) Size() int { return l.size }

// A ledger that grows is compacted, and means the same. After an Append that fails, the next record has all fields.
func TestLedgerStaysSmall(t *testing.T) {
	l := new(list)
	e, err := of(l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := e.Owner("o")
	big := string(bytes.Repeat([]byte("x"), 64<<10))
	for i := range 200 {
		o.Keep(&state1{A: fmt.Sprint(i, big), B: "stays"})
	}
	if l.size > compactFrom+128<<10 {
		t.Errorf("the ledger has %d bytes", l.size)
	}
	l.full = true
	o.Keep(&state1{A: "lost", B: "stays"})
	l.full, l.records, l.size = false, nil, 0
	o.Keep(&state1{A: "lost", B: "stays"})
	var got state1
	if e, err = of(l, slog.New(slog.DiscardHandler)); err == nil {
		err = e.Revive("o", &got)
	}
	if err != nil || got != (state1{"lost", "stays"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A ledger stays small although each server dies long before the ledger has doubled.
func TestLedgerStaysSmallOverDeaths(t *testing.T) {
	l := new(list)
	big := string(bytes.Repeat([]byte("x"), 64<<10))
	for server := range 100 {
		e, err := of(l, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var s state1
		if server > 0 {
			if err := e.Revive("o", &s); err != nil || s.B != "stays" {
				t.Fatalf("%+v, %v", s, err)
			}
		}
		o := e.Owner("o")
		e.Revived()
		e.DropRest()
		for i := range 8 {
			s = state1{A: fmt.Sprint(server, i, big), B: "stays"}
			o.Keep(&s)
		}
	}
	if l.size > 2*compactFrom {
		t.Errorf("the ledger has %d bytes", l.size)
	}
}

// pipe returns the pipe of a program, with text in it.
func pipe(t *testing.T, text string) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	if _, err := unix.Write(p[1], []byte(text)); err != nil && text != "" {
		t.Fatal(err)
	}
	return p[0], p[1]
}

// outputOf returns the output of a stream that a chain has itself or in a file, and checks the offsets.
func outputOf(t *testing.T, c *arena.Chain, stream uint8, file []byte) string {
	t.Helper()
	var got []byte
	for e := range c.Entries() {
		o := OutputOf(e)
		if o.Offset != uint64(len(got)) || o.Stream != stream {
			t.Errorf("after %q there is %+v", got, o)
		}
		if got = append(got, o.Data...); o.Data == nil {
			got = append(got, file[o.InFile:][:o.N]...)
		}
		if o.End() != uint64(len(got)) {
			t.Errorf("%+v ends at %d, after %d bytes", o, o.End(), len(got))
		}
	}
	return string(got)
}

// lanesAreFree checks that no move is under way.
func lanesAreFree(t *testing.T, e *Estate) {
	t.Helper()
	for range lanes {
		if step, _, err := (<-e.Lanes()).Found(); step != lane.Free || err != nil {
			t.Errorf("a lane is %v, %v", step, err)
		}
	}
}

// Whenever a server dies amid a move of output, the chain of the next server has each byte once, and counts it.
func TestOutputOfADeath(t *testing.T) {
	const had, text = "before ", "the text"
	steps := []string{"taking", "placed", "read", "committed", "counted", "free"}
	for at, step := range steps {
		t.Run(step, func(t *testing.T) {
			h := testholder.New(t)
			e := next(t, h)
			c, _, err := e.NewChains()
			if err != nil {
				t.Fatal(err)
			}
			add := func(offset int, text string) (arena.Entry, func()) {
				to, err := c.Reserve(len(text))
				if err != nil {
					t.Fatal(err)
				}
				return to, func() { c.Commit(to, len(text), arena.Header{Kind: KindOutput, Stream: 2, Offset: uint64(offset)}) }
			}
			to, commit := add(0, had)
			copy(to.Data(), had)
			commit()
			c.Word(2).Store(uint64(len(had)))

			from, _ := pipe(t, text)
			l := <-e.Lanes()
			if n, err := l.Take(from, 100, Stream(c.Owner(), 2), uint64(len(had))); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			to, commit = add(len(had), text)
			for _, do := range []func(){
				func() { l.At(to.Place()) },
				func() { err = l.Read(to.Data()) },
				commit,
				func() { c.Word(2).Store(uint64(len(had + text))) },
				l.Free,
			}[:at] {
				if do(); err != nil {
					t.Fatal(err)
				}
			}

			for range 2 { // the next server may die at once
				e = next(t, h)
				c, _ = e.Chains(c.Owner())
				got := outputOf(t, c, 2, nil)
				if got != had+text || c.Word(2).Load() != uint64(len(had+text)) {
					t.Errorf("%q, %d bytes are counted", got, c.Word(2).Load())
				}
				lanesAreFree(t, e)
			}
		})
	}
}

// Whenever a server dies amid a move of output to a file, the chain of the next server has each byte, or its place in the file, once.
func TestSpooledOutputOfADeath(t *testing.T) {
	const text = "the text"
	for at, step := range []string{"taking", "placed", "read", "in the file", "place written", "committed", "counted", "free"} {
		t.Run(step, func(t *testing.T) {
			h := testholder.New(t)
			e := next(t, h)
			c, _, err := e.NewChains()
			if err != nil {
				t.Fatal(err)
			}
			from, _ := pipe(t, text)
			l := <-e.Lanes()
			if n, err := l.Take(from, 100, Stream(c.Owner(), 1), 0); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			to, err := c.Reserve(PlaceSize + len(text))
			if err != nil {
				t.Fatal(err)
			}
			var file []byte
			for _, do := range []func(){
				func() { l.At(to.Place() + PlaceSize) },
				func() { err = l.Read(to.Data()[PlaceSize:]) },
				func() { file = append(file, to.Data()[PlaceSize:]...) },
				func() { PutPlace(to.Data(), 0, len(text)) },
				func() { c.Commit(to, PlaceSize, arena.Header{Kind: KindSpooled, Stream: 1}) },
				func() { c.Word(1).Store(uint64(len(text))) },
				l.Free,
			}[:at] {
				if do(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the next server may die at once
				e = next(t, h)
				c, _ = e.Chains(c.Owner())
				for e := range c.Entries() {
					if moved := e.Header().Kind != KindSpooled; moved != (at == 0) { // a second death amid the move would tear the bytes
						t.Errorf("the bytes have moved: %v", moved)
					}
				}
				if got := outputOf(t, c, 1, file); got != text || c.Word(1).Load() != uint64(len(text)) {
					t.Errorf("%q, %d bytes are counted", got, c.Word(1).Load())
				}
				lanesAreFree(t, e)
			}
		})
	}
}

// Whenever a server dies amid a move of input, the next server counts what the program has taken.
func TestInputOfADeath(t *testing.T) {
	const text = "the text"
	for at, step := range []string{"filled", "given", "counted", "free"} {
		t.Run(step, func(t *testing.T) {
			h := testholder.New(t)
			e := next(t, h)
			_, c, err := e.NewChains()
			if err != nil {
				t.Fatal(err)
			}
			program, to := pipe(t, "")
			l := <-e.Lanes()
			if err := l.Fill([]byte(text), lane.Move{Stream: Stream(c.Owner(), 0), Offset: 10}); err != nil {
				t.Fatal(err)
			}
			for _, do := range []func(){
				func() { _, err = l.Give(to) },
				func() { c.Word(WordGiven).Store(10 + uint64(len(text))) },
				func() { err = l.Empty() },
			}[:at] {
				if do(); err != nil {
					t.Fatal(err)
				}
			}
			e = next(t, h)
			_, c = e.Chains(c.Owner() - 1)
			got := make([]byte, 100)
			n, err := unix.Read(program, got)
			if n = max(n, 0); n == 0 != (at == 0) {
				t.Errorf("the program has read %d bytes, %v", n, err)
			}
			want := uint64(10 + n)
			if at == 0 {
				want = 10 // nothing is taken
			}
			if given := c.Word(WordGiven).Load(); given != want {
				t.Errorf("%d bytes are counted, want %d", given, want)
			}
			lanesAreFree(t, e)
		})
	}
}

// Chains that nobody asks for are freed, and no owner is used twice.
func TestChainsOfNobody(t *testing.T) {
	h := testholder.New(t)
	e := next(t, h)
	var owners []uint64
	for range 3 {
		out, in, err := e.NewChains()
		if err != nil || in.Owner() != out.Owner()+1 {
			t.Fatal(out, in, err)
		}
		owners = append(owners, out.Owner())
	}
	e = next(t, h)
	if out, in := e.Chains(owners[1]); out == nil || in == nil {
		t.Error("the chains of a process are gone")
	}
	e.DropRest()
	e = next(t, h)
	if found := slices.Sorted(maps.Keys(e.chains)); !slices.Equal(found, []uint64{owners[1], owners[1] + 1}) {
		t.Errorf("chains of %v are left, want those of %d", found, owners[1])
	}
	if out, _, err := e.NewChains(); err != nil || out.Owner() <= owners[2]+1 {
		t.Errorf("the next process has the owner %d, %v", out.Owner(), err)
	}
	if out, _ := e.Chains(owners[0]); out != nil {
		t.Error("a chain of nobody is there")
	}
}
