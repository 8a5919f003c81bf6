package child

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
)

// noHolder keeps nothing: the estate ends with the test.
type noHolder struct{}

func (noHolder) KeepNoted(string, string, map[string]int) error { return nil }
func (noHolder) Drop(string, ...string) error                   { return nil }

func newEstate(t *testing.T) *estate.Estate {
	t.Helper()
	e, err := estate.Open(noHolder{}, nil, 64<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// piecesOf returns the bytes that a chain has of a stream, and checks their offsets. Of input skip is the length of the id.
func piecesOf(t *testing.T, c *arena.Chain, stream uint8, skip int) (all []byte) {
	t.Helper()
	for e := range c.Entries() {
		if h := e.Header(); h.Stream == stream {
			if h.Offset != uint64(len(all)) {
				t.Errorf("a piece at %d follows %d bytes", h.Offset, len(all))
			}
			all = append(all, e.Data()[skip:]...)
		}
	}
	return all
}

// Output and input that are kept for the next server are those that the viewers and the program get, and the words of the chains count them.
func TestKeptStreams(t *testing.T) {
	text := strings.Repeat("0123456789abcde\n", 20<<10) // more than a queue, a pipe and a lane
	for name, spec := range map[string]func() Spec{
		"pipes":    func() Spec { return piped(script("cat; echo wrong >&2; exit 3")) },
		"terminal": func() Spec { return tty(script("stty -echo -onlcr -icanon min 1; echo ready; head -c 327680")) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			out, in, err := e.NewChains()
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, HostConfig{Lanes: e.Lanes()})
			w := newWatched(t, 64<<10) // less than all, so that the pumps wait
			w.in.Chain, w.in.Input = out, in
			if err := w.start(h, spec()); err != nil {
				t.Fatal(err)
			}
			if name == "terminal" {
				w.untilOutput(protocol.PTY, "ready\n")
			}
			for rest := []byte(text); len(rest) > 0; {
				rooms := 0
				w.until(func() bool { rooms = w.rooms; return true })
				n, err := w.WriteAs([16]byte{1, 2}, rest[:min(len(rest), 50_000)])
				if err != nil {
					t.Fatal(err)
				}
				if rest = rest[n:]; n == 0 {
					w.until(func() bool { return w.rooms > rooms })
				}
			}
			if err := w.CloseStdin(); err != nil {
				t.Fatal(err)
			}
			w.untilClosed()
			for kind, got := range w.out {
				if kept := piecesOf(t, out, uint8(kind), 0); !bytes.Equal(kept, got) {
					t.Errorf("%v: %d bytes are kept, the viewers get %d", kind, len(kept), len(got))
				}
				if n := out.Word(int(kind)).Load(); n != uint64(len(got)) {
					t.Errorf("%v: %d bytes are counted, want %d", kind, n, len(got))
				}
			}
			if got := strings.TrimPrefix(string(w.out[protocol.Stdout])+string(w.out[protocol.PTY]), "ready\n"); got != text {
				t.Errorf("the program wrote %d bytes, want the %d that it read", len(got), len(text))
			}
			if kept := piecesOf(t, in, 0, estate.IDSize); !strings.HasPrefix(string(kept), text) {
				t.Errorf("%d bytes of input are kept, want %d", len(kept), len(text))
			}
			if n := in.Word(estate.WordGiven).Load(); n < uint64(len(text)) {
				t.Errorf("%d bytes of input are counted as given", n)
			}
		})
	}
}

// Output for the disk is in the file, and the chain has the places; output that the disk does not take is in the chain.
func TestKeptSpool(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file   *os.File
		script string
		onDisk bool
	}{
		"disk":      {file, "seq 50000; echo wrong >&2", true},
		"full disk": {full, "echo wrong >&2", false}, // there is credit for no more
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			out, in, err := e.NewChains()
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, HostConfig{Lanes: e.Lanes()})
			w := newWatched(t, 0) // nothing stays in memory
			w.in.Chain, w.in.Input, w.in.spool = out, in, spool.NewDisk("", 0, nil).New(1<<20)
			if err := w.in.spool.Restore(test.file, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.start(h, piped(script(test.script))); err != nil {
				t.Fatal(err)
			}
			w.untilClosed()
			kept := make(map[protocol.Stream][]byte)
			for e := range out.Entries() {
				o := estate.OutputOf(e)
				s := protocol.Stream(o.Stream)
				if o.Offset != uint64(len(kept[s])) || (o.Data == nil) != test.onDisk {
					t.Errorf("after %d bytes of %v there is %+v", len(kept[s]), s, o)
				}
				data := o.Data
				if data == nil {
					data = make([]byte, o.N)
					if _, err := test.file.ReadAt(data, o.InFile); err != nil {
						t.Fatal(err)
					}
				}
				kept[s] = append(kept[s], data...)
			}
			for s, got := range w.out {
				if !bytes.Equal(kept[s], got) || out.Word(int(s)).Load() != uint64(len(got)) {
					t.Errorf("%v: %d bytes are kept and %d counted, the viewers get %d", s, len(kept[s]), out.Word(int(s)).Load(), len(got))
				}
			}
			if string(w.out[protocol.Stderr]) != "wrong\n" || len(w.out[protocol.Stdout]) == 0 && test.onDisk {
				t.Errorf("the output is %d bytes and %q", len(w.out[protocol.Stdout]), w.out[protocol.Stderr])
			}
			w.in.mu.Lock()
			defer w.in.mu.Unlock()
			if w.in.flight != 0 || w.in.spooling != 0 {
				t.Errorf("%d and %d bytes are under way", w.in.flight, w.in.spooling)
			}
		})
	}
}

// If the arena is full, viewers of this server get the output all the same, and the lane has nothing of it for the next program.
func TestOutputWithoutRoom(t *testing.T) {
	e := newEstate(t)
	lanes := make(chan *lane.Lane, 1)
	lanes <- <-e.Lanes() // both programs have the same
	h := newHost(t, HostConfig{Lanes: lanes})
	chains := func() (out, in *arena.Chain) {
		t.Helper()
		out, in, err := e.NewChains()
		if err != nil {
			t.Fatal(err)
		}
		return out, in
	}
	firstOut, firstIn := chains()
	secondOut, secondIn := chains()
	var full []*arena.Chain
	for n := arena.MaxEntry; n > 0; {
		out, in, err := e.NewChains()
		if err != nil {
			break
		}
		full = append(full, out, in)
		for room, err := out.Reserve(n); ; room, err = out.Reserve(n) {
			if err != nil {
				n /= 2
				break
			}
			out.Commit(room, n, arena.Header{Kind: estate.KindOutput})
		}
	}
	run := func(out, in *arena.Chain, text string) {
		t.Helper()
		w := newWatched(t, 64<<10)
		w.in.Chain, w.in.Input = out, in
		if err := w.start(h, piped(script("echo "+text))); err != nil {
			t.Fatal(err)
		}
		w.untilClosed()
		if got := string(w.out[protocol.Stdout]); got != text+"\n" || out.Word(int(protocol.Stdout)).Load() != uint64(len(got)) {
			t.Errorf("the viewer gets %q, want %q; %d bytes are counted", got, text, out.Word(int(protocol.Stdout)).Load())
		}
	}
	run(firstOut, firstIn, "the output of the first program")
	for _, c := range full {
		c.Free()
	}
	run(secondOut, secondIn, "another")
}

// Output that the disk did not take is in an entry of its own, whose room nothing extends. A chain above its bound has too many places.
func TestPlacesOfOutput(t *testing.T) {
	e := newEstate(t)
	chain, _, err := e.NewChains()
	if err != nil {
		t.Fatal(err)
	}
	in := newWatched(t, 1<<20).in
	in.Chain, in.spool = chain, spool.NewDisk("", 0, nil).New(1<<20)
	offset := 0
	failed := func(text string) {
		t.Helper()
		credit, _ := in.Take(len(text))
		room, err := chain.Reserve(estate.PlaceSize + len(text))
		if err != nil {
			t.Fatal(err)
		}
		copy(room.Data()[estate.PlaceSize:], text)
		in.PutSpooled(protocol.Stdout, room, len(text), 0, uint64(offset), credit)
		offset += len(text)
	}
	failed("first line")
	failed("0123456789") // with room up to a multiple of 8
	credit, _ := in.Take(3)
	room, err := in.Reserve(protocol.Stdout, 3)
	if err != nil {
		t.Fatal(err)
	}
	copy(room.Data(), "abc")
	in.PutKept(protocol.Stdout, room, uint64(offset), credit)
	got := ""
	for f, ok := in.Next(); ok; f, ok = in.Next() {
		got += string(f.Data) + ";"
		in.Settle(0, 0)
	}
	kept := ""
	for e := range chain.Entries() {
		kept += string(estate.OutputOf(e).Data) + ";"
	}
	if want := "first line;0123456789;abc;"; got != want || kept != want {
		t.Errorf("the viewer gets %q, and the chain has %q, want %q", got, kept, want)
	}
	if in.ManyPlaces() {
		t.Error("the places are too many")
	}
	in.limit = -keptPlaces
	if !in.ManyPlaces() {
		t.Errorf("a chain of %d bytes has not too many places", chain.Size())
	}
}

// Output that the actor has not taken yet grows in its entry. The actor never sees an entry that grows.
func TestKeptOutputGrows(t *testing.T) {
	e := newEstate(t)
	chain, _, err := e.NewChains()
	if err != nil {
		t.Fatal(err)
	}
	w := newWatched(t, 1<<20)
	in := w.in
	in.Chain = chain
	put := func(text string, offset int) {
		t.Helper()
		credit, ok := in.Take(len(text))
		if !ok || credit.N != len(text) {
			t.Fatal("no credit")
		}
		room, err := in.Reserve(protocol.Stdout, len(text))
		if err != nil {
			t.Fatal(err)
		}
		copy(room.Data(), text)
		in.PutKept(protocol.Stdout, room, uint64(offset), credit)
	}
	next := func(want string) {
		t.Helper()
		f, ok := in.Next()
		if !ok && want == "" {
			return
		}
		if string(f.Data) != want || want != "" && string(f.Kept.Data()) != want {
			t.Errorf("the next fact has %q and keeps %q, want %q", f.Data, f.Kept.Data(), want)
		}
		in.Settle(0, 0)
	}
	put("first", 0)
	for i, text := range []string{"a", "b", "c"} {
		put(text, 5+i)
	}
	next("first")
	room, err := in.Reserve(protocol.Stdout, 1) // the actor has yet to look at abc, but Next may have returned it
	if err != nil {
		t.Fatal(err)
	}
	copy(room.Data(), "d")
	in.PutKept(protocol.Stdout, room, 8, Credit{N: 1})
	put("e", 9)
	next("abc")
	next("de")
	next("")

	put("x", 10)
	put("y", 11)
	credit, _ := in.Take(1)
	room, _ = in.Reserve(protocol.Stdout, 1)
	next("x")
	in.StdinRoom() // comes while the pump writes
	next("")       // y grows
	copy(room.Data(), "z")
	in.PutKept(protocol.Stdout, room, 12, credit)
	next("yz")
	if f, ok := in.Next(); !ok || f.Kind != FactStdinRoom {
		t.Errorf("the next fact is %v", f.Kind)
	}
	if got := string(piecesOf(t, chain, uint8(protocol.Stdout), 0)); got != "firstabcdexyz" {
		t.Errorf("the chain has %q", got)
	}
}

// Stdin goes on with what the last server has left in its chain, and not with what the program had taken.
func TestStdinOfAnEarlierServer(t *testing.T) {
	e := newEstate(t)
	_, chain, err := e.NewChains()
	if err != nil {
		t.Fatal(err)
	}
	offset := 0
	for _, text := range []string{"taken ", "half ", "left\n"} {
		entry, err := chain.Reserve(estate.IDSize + len(text))
		if err != nil {
			t.Fatal(err)
		}
		copy(entry.Data()[estate.IDSize:], text)
		chain.Commit(entry, len(entry.Data()), arena.Header{Kind: estate.KindInput, Offset: uint64(offset)})
		offset += len(text)
	}
	chain.Word(estate.WordGiven).Store(8)
	h := newHost(t, HostConfig{Lanes: e.Lanes()})
	w := newWatched(t, 1<<20)
	w.in.Input = chain
	var mu sync.Mutex
	started := make(chan error)
	h.Start(piped(script("read line; echo \"got $line\"; read line; echo \"got $line\"")), w.in, func(handle Handle, err error) {
		mu.Lock()
		defer mu.Unlock()
		w.Handle = handle
		started <- err
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go w.take()
	if n, err := w.Write([]byte("new\n")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	w.untilClosed()
	if got := string(w.out[protocol.Stdout]); got != "got lf left\ngot new\n" {
		t.Errorf("%q", got)
	}
	if n := chain.Word(estate.WordGiven).Load(); n != uint64(offset)+4 {
		t.Errorf("%d bytes are given", n)
	}
	for e := range chain.Entries() {
		if in := estate.InputOf(e); in.Last != (in.From == uint64(offset)) {
			t.Errorf("the entry from %d says whether it is the last of its write: %v", in.From, in.Last)
		}
	}
}

// A write that comes before the writer goes on with an earlier queue follows that queue.
func TestWriteFollowsAnEarlierQueue(t *testing.T) {
	e := newEstate(t)
	_, chain, err := e.NewChains()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := chain.Reserve(estate.IDSize + 4)
	if err != nil {
		t.Fatal(err)
	}
	copy(entry.Data()[estate.IDSize:], "left")
	chain.Commit(entry, estate.IDSize+4, arena.Header{Kind: estate.KindInput})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	w := newWatched(t, 1<<20)
	w.in.Input = chain
	s := new(stdin)
	s.init(&process{in: w.in, host: &Host{lanes: e.Lanes(), log: slog.New(slog.DiscardHandler)}}, write, 0, pace.NewMeter(pace.MinRate))
	defer s.shut()
	if n, err := s.write([16]byte{}, []byte(" new")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	s.resume()
	got := make([]byte, 8)
	if _, err := io.ReadFull(read, got); err != nil || string(got) != "left new" {
		t.Errorf("%q, %v", got, err)
	}
}
