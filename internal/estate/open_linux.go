package estate

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/internal/ledger"
)

// lanes bounds the streams that are moved at the same time.
const lanes = 16

// state is memory, and outlives the server.
type state struct {
	which  atomic.Uint32 // of the ledger
	_      uint32
	owners atomic.Uint64 // the number of the newest chain
	tried  [revivers]tried
	lanes  [lanes]struct {
		lane.Record
		_ [64 - lane.RecordSize]byte
	}
}

// Open returns the estate of a holder, or makes an estate. found are the descriptors of the holder under the id "", also for other uses.
// size, in bytes, is address space for all output and input; four times their memory is enough. log gets errors that no caller gets.
func Open(h Holder, found map[string]int, size int64, log *slog.Logger) (*Estate, error) {
	files := found
	_, follows := found["state"]
	if !follows {
		var err error
		if files, err = create(); err != nil {
			return nil, fmt.Errorf("estate: %w", err)
		}
		if err := h.KeepNoted("", "", files); err != nil { // in a single message: all, or nothing
			return nil, fmt.Errorf("estate: %w", err)
		}
	}
	file := func(name string) *os.File { return os.NewFile(uintptr(files[name]), name) }
	mem, err := unix.Mmap(files["state"], 0, int(unsafe.Sizeof(state{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("estate: map its state: %w", err)
	}
	s := (*state)(unsafe.Pointer(&mem[0]))
	// Two looks through much memory, at the same time: clients wait.
	var output *arena.Arena
	var wrong error
	var looked sync.WaitGroup
	looked.Go(func() {
		if output, wrong = arena.Open(file("arena"), size); wrong == nil {
			for c := range output.Chains() {
				count(c)
			}
		}
	})
	l, err := ledger.Open(&s.which, [2]*os.File{file("ledger0"), file("ledger1")})
	var e *Estate
	if err == nil {
		e, err = of(l, log)
	}
	if looked.Wait(); err != nil || wrong != nil {
		return nil, errors.Join(err, wrong)
	}
	e.arena, e.holder, e.follows, e.owners, e.tried = output, h, follows, &s.owners, &s.tried
	e.blame()
	for name := range files {
		if owner, ok := strings.CutPrefix(name, fileName); ok {
			e.files[owner] = file(name)
		}
	}
	for c := range e.arena.Chains() {
		e.chains[c.Owner()] = c
	}
	e.lanes = make(chan *lane.Lane, lanes)
	for i := range lanes {
		l := lane.New(&s.lanes[i].Record, files[fmt.Sprint("lane", i, "r")], files[fmt.Sprint("lane", i, "w")])
		if err := e.finish(l); err != nil {
			return nil, err
		}
		e.lanes <- l
	}
	return e, nil
}

// create makes the files of an estate, all closed on exec.
func create() (map[string]int, error) {
	files := make(map[string]int)
	for _, name := range []string{"state", "ledger0", "ledger1", "arena"} {
		fd, err := unix.MemfdCreate("troupe-"+name, unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("memory for %s: %w", name, err)
		}
		files[name] = fd
	}
	for i := range lanes {
		r, w, err := lane.Pipe()
		if err != nil {
			return nil, err
		}
		files[fmt.Sprint("lane", i, "r")], files[fmt.Sprint("lane", i, "w")] = r, w
	}
	return files, unix.Ftruncate(files["state"], int64(unsafe.Sizeof(state{})))
}

// finish ends the move of a lane, after the death of the mover. Output in the lane gets into its chain. The input taken by the program is
// counted, and the rest of the input comes again from its chain.
func (e *Estate) finish(l *lane.Lane) error {
	step, m, err := l.Found()
	if err != nil || step == lane.Free {
		return err
	}
	c, kind := e.arena.Find(m.Stream>>streamBits), int(m.Stream&(1<<streamBits-1))
	switch {
	case c == nil: // the process has ended
	case step == lane.Filled:
		n, err := l.Given()
		if err != nil {
			return err
		}
		given := c.Word(WordGiven)
		given.Store(max(given.Load(), m.Offset+uint64(n))) // another run may have begun
	case step == lane.Taking, step == lane.Taken:
		if m.N > 0 && m.Offset+uint64(m.N) > c.Word(kind).Load() { // else the chain has the bytes
			return e.take(l, m, c, kind)
		}
	}
	return l.Empty()
}

// take moves the bytes of a move to their chain.
func (e *Estate) take(l *lane.Lane, m lane.Move, c *arena.Chain, kind int) error {
	to, err := c.Reserve(m.N)
	if err != nil {
		return err
	}
	h := arena.Header{Kind: KindOutput, Stream: uint8(kind), AtMs: time.Now().UnixMilli(), Offset: m.Offset}
	room := 0                            // before the bytes
	if m.Place == to.Place()+PlaceSize { // on the way to a file. The bytes stay where they are: this server may die, too
		if to, err = c.Reserve(PlaceSize + m.N); err != nil {
			return err
		}
		h.Kind, room = KindSpooled, PlaceSize
	}
	bytes := to.Data()[room:]
	from := bytes
	if m.Place == 0 {
		l.At(to.Place())
	} else { // the last server may have read some of them there
		from = e.arena.At(m.Place, m.N)
	}
	if err := l.Read(from); err != nil {
		return err
	}
	copy(bytes, from) // from is the same place, or in another block
	if room > 0 {
		PutPlace(to.Data(), 0, m.N)
	}
	c.Commit(to, room+m.N, h)
	c.Word(kind).Store(m.Offset + uint64(m.N))
	l.Free()
	return nil
}
