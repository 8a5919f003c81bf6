package lane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// helper is the variable with the role of a test binary in these tests.
const helper = "TROUPE_LANE_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helper) {
	case "":
		os.Exit(m.Run())
	case "write":
		os.Exit(write(os.Args[1]))
	case "check":
		os.Exit(check(os.Args[1]))
	case "move":
		os.Exit(move(strings.Split(os.Args[1], ",")))
	}
}

// at returns byte i of every stream.
func at(i int) byte { return byte(uint64(i) * 0x9E3779B97F4A7C15 >> 40) }

// stream returns the bytes of a stream from i to before j.
func stream(i, j int) []byte {
	b := make([]byte, j-i)
	for k := range b {
		b[k] = at(i + k)
	}
	return b
}

// write is a program: write writes a stream to its stdout, in writes of all sizes.
func write(size string) int {
	n, _ := strconv.Atoi(size)
	for i := 0; i < n; {
		k := min(n-i, 1+rand.IntN(1<<(rand.IntN(17))))
		if _, err := os.Stdout.Write(stream(i, i+k)); err != nil {
			return 1
		}
		i += k
	}
	return 0
}

// check is a program: check reads a stream of a size from its stdin.
func check(size string) int {
	n, _ := strconv.Atoi(size)
	got := make([]byte, n)
	if _, err := io.ReadFull(os.Stdin, got); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if !bytes.Equal(got, stream(0, n)) {
		fmt.Fprintln(os.Stderr, "other bytes")
		return 3
	}
	return 0
}

// world is the memory of all movers: for each stream a lane, how many bytes are committed, and the bytes.
type world struct {
	mem     []byte
	streams []*moved
}

// A moved stream of size bytes. Its lane is the stream's alone.
type moved struct {
	input     bool // of the program: the bytes are there from the beginning
	size      int
	lane      *Lane
	committed *atomic.Uint64
	bytes     []byte
	areas     [2][]byte // of output: a move reads its bytes to one of these places, and copies the bytes at its commit
	program   int       // our end
	ended     bool
}

// lay lays the streams out in a memfd. kinds has a word for each: its kind, in or out, and its size.
func lay(fd int, kinds []string) (*world, error) {
	total := 0
	for _, k := range kinds {
		_, size := parse(k)
		total += RecordSize + 8 + size + 2*Size
		total = (total + 7) &^ 7
	}
	if err := unix.Ftruncate(fd, int64(total)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	w := &world{mem: mem}
	for _, k := range kinds {
		input, size := parse(k)
		m := &moved{input: input, size: size, committed: (*atomic.Uint64)(unsafe.Pointer(&mem[RecordSize])), bytes: mem[RecordSize+8:][:size]}
		m.lane = New((*Record)(unsafe.Pointer(&mem[:RecordSize][0])), -1, -1)
		m.areas = [2][]byte{mem[RecordSize+8+size:][:Size], mem[RecordSize+8+size+Size:][:Size]}
		w.streams = append(w.streams, m)
		mem = mem[(RecordSize+8+size+2*Size+7)&^7:]
	}
	return w, nil
}

func parse(kind string) (input bool, size int) {
	name, text, _ := strings.Cut(kind, ":")
	size, _ = strconv.Atoi(text)
	return strings.HasPrefix(name, "in"), size
}

// resume ends the move of a killed mover.
func (m *moved) resume() error {
	step, move, err := m.lane.Found()
	if err != nil {
		return err
	}
	switch step {
	case Taking, Taken:
		if m.committed.Load() >= move.Offset+uint64(move.N) {
			m.lane.Free()
			return nil
		}
		return m.arrived(move)
	case Filled:
		return m.give(move)
	case Filling, Emptying:
		return m.lane.Empty()
	}
	return nil
}

// arrived reads the bytes of a move to their place, and commits them. A move without a place gets either place. A place tells
// its move.
func (m *moved) arrived(move Move) error {
	if move.Place == 0 {
		move.Place = 1 + 2*move.Offset + rand.Uint64N(2)
		m.lane.At(move.Place)
	}
	if of := (move.Place - 1) / 2; of != move.Offset {
		return fmt.Errorf("the move at %d has the place of the move at %d", move.Offset, of)
	}
	area := m.areas[(move.Place-1)%2][:move.N]
	if err := m.lane.Read(area); err != nil {
		return err
	}
	strike()
	copy(m.bytes[move.Offset:], area)
	strike()
	m.committed.Store(move.Offset + uint64(move.N))
	strike()
	m.lane.Free()
	return nil
}

// give gives bytes to the program, and commits the count.
func (m *moved) give(move Move) error {
	taken, err := m.lane.Give(m.program)
	if err != nil && err != unix.EAGAIN {
		return err
	}
	strike()
	m.committed.Store(max(m.committed.Load(), move.Offset+uint64(taken)))
	strike()
	return m.lane.Empty()
}

// turn moves up to max bytes, and reports whether there is more to come.
func (m *moved) turn(max int) (more bool, err error) {
	from := m.committed.Load()
	move := Move{Stream: 7, Offset: from}
	if m.input {
		n := min(m.size-int(from), max, FillSize)
		if n == 0 {
			return false, nil
		}
		if err := m.lane.Fill(m.bytes[from:][:n], move); err != nil {
			return false, err
		}
		move.N = n
		return true, m.give(move)
	}
	if int(from) == m.size {
		return false, nil
	}
	n, err := m.lane.Take(m.program, min(max, m.size-int(from)), move.Stream, move.Offset)
	switch err {
	case nil:
		move.N = n
		return true, m.arrived(move)
	case unix.EAGAIN:
		return true, nil
	}
	return false, fmt.Errorf("%d of %d bytes: %w", from, m.size, err)
}

// move is a mover: move goes on with all streams, and ends once all bytes are moved. Descriptor 3 is the memory, and then each lane and our end of
// the program.
func move(kinds []string) int {
	w, err := lay(3, kinds)
	if err != nil {
		panic(err)
	}
	for i, m := range w.streams {
		m.lane.r, m.lane.w, m.program = 4+3*i, 5+3*i, 6+3*i
		if err := m.resume(); err != nil {
			panic(fmt.Errorf("resume %s: %w", kinds[i], err))
		}
	}
	for left := len(w.streams); left > 0; {
		for i, m := range w.streams {
			if m.ended {
				continue
			}
			more, err := m.turn(1 + rand.IntN(1<<rand.IntN(17)))
			if err != nil {
				panic(fmt.Errorf("%s: %w", kinds[i], err))
			}
			if !more {
				m.ended = true
				left--
			}
		}
	}
	return 0
}

// found is how far a dead mover had come.
type found struct {
	step   Step
	placed bool
}

// TestDeathBetweenAnyTwoSteps has a mover die after each of its steps in turn, and its successor die some steps later or not at all. Then another mover goes
// on.
func TestDeathBetweenAnyTwoSteps(t *testing.T) {
	t.Cleanup(func() { strike = func() {} })
	for _, kind := range []string{"out:100000", "in:100000"} {
		seen := make(map[found]int)
		last := 8
		if testing.Short() {
			last = 1
		}
		want := []found{{Free, true}, {Free, false}, {Taking, false}, {Taking, true}, {Taken, false}, {Taken, true}}
		if strings.HasPrefix(kind, "in") {
			last = 1
			want = []found{{Free, false}, {Filling, false}, {Filled, false}, {Emptying, false}}
		}
		for again := range last + 1 {
			for deadly, alive := 1, false; !alive; deadly++ {
				alive = die(t, kind, deadly, again, seen)
			}
		}
		for _, f := range want {
			if seen[f] == 0 {
				t.Errorf("%s: nobody died while %v, with a place: %v; %v", kind, f.step, f.placed, seen)
			}
		}
	}
}

var errDied = errors.New("died")

// die moves a stream. A mover dies after its step number deadly, and the successor after so many more steps as again says; 0: the successor lives. alive reports
// that no mover died.
func die(t *testing.T, kind string, deadly, again int, seen map[found]int) (alive bool) {
	t.Helper()
	fd, err := unix.MemfdCreate("lane", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lay(fd, []string{kind})
	if err != nil {
		t.Fatal(err)
	}
	m := w.streams[0]
	m.lane.r, m.lane.w, err = Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirs := 0
	if theirs, m.program, err = Pipe(); !m.input {
		theirs, m.program = m.program, theirs
	}
	if err == nil && m.input { // the program takes less than a lane has
		_, err = unix.FcntlInt(uintptr(m.program), unix.F_SETPIPE_SZ, 4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	if m.input {
		copy(m.bytes, stream(0, m.size))
	}
	sent := 0
	program := func() { // reads or writes as much as possible
		for !m.input && sent < m.size {
			n, err := unix.Write(theirs, stream(sent, min(m.size, sent+10_000)))
			if err != nil {
				return
			}
			sent += n
		}
		for buf := make([]byte, 5_000); m.input; { // a part at a time: the lane keeps a rest
			n, err := unix.Read(theirs, buf)
			if n > 0 {
				got = append(got, buf[:n]...)
			}
			if err != nil || n <= 0 {
				return
			}
		}
	}
	strikes := 0
	strike = func() {
		if strikes++; strikes == deadly || strikes == deadly+again {
			panic(errDied)
		}
	}
	run := func() (done bool) {
		defer func() {
			if r := recover(); r == errDied {
				seen[found{Step(m.lane.rec.step.Load()), m.lane.rec.place.Load() != 0}]++
			} else if r != nil {
				panic(r)
			}
		}()
		m.lane = New(m.lane.rec, m.lane.r, m.lane.w)
		if err := m.resume(); err != nil {
			t.Fatalf("%s, deaths %d and %d: %v", kind, deadly, deadly+again, err)
		}
		for more := true; more; {
			program()
			if more, err = m.turn(Size); err != nil {
				t.Fatalf("%s, deaths %d and %d: %v", kind, deadly, deadly+again, err)
			}
		}
		return true
	}
	if alive = run(); !alive {
		for !run() {
		}
	}
	program()
	if m.input && !bytes.Equal(got, stream(0, m.size)) || !m.input && !bytes.Equal(m.bytes, stream(0, m.size)) {
		t.Fatalf("%s: other bytes after deaths %d and %d", kind, deadly, deadly+again)
	}
	unix.Munmap(w.mem)
	for _, fd := range []int{fd, m.lane.r, m.lane.w, theirs, m.program} {
		unix.Close(fd)
	}
	return alive
}

// TestKilledMovers kills movers of pipes, terminals and sockets at any time. Each byte arrives once.
func TestKilledMovers(t *testing.T) {
	kinds := []string{"out-pipe:16000000", "out-socket:8000000", "out-pty:4000000", "in-pipe:16000000", "in-socket:8000000", "in-pty:1000000"}
	fd, err := unix.MemfdCreate("lane", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lay(fd, kinds)
	if err != nil {
		t.Fatal(err)
	}
	files := []*os.File{os.NewFile(uintptr(fd), "memory")}
	var programs []*exec.Cmd
	for i, kind := range kinds {
		m := w.streams[i]
		ours, theirs := ends(t, kind)
		cmd := exec.Command(os.Args[0], strconv.Itoa(m.size))
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), helper+"=write")
		if cmd.Stdout = theirs; m.input {
			cmd.Env = append(os.Environ(), helper+"=check")
			cmd.Stdin, cmd.Stdout = theirs, nil
			copy(m.bytes, stream(0, m.size))
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(kind, "pty") { // a terminal without its end reports EIO before the rest is read
			theirs.Close()
		}
		programs = append(programs, cmd)
		r, lw, err := Pipe()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, os.NewFile(uintptr(r), "lane"), os.NewFile(uintptr(lw), "lane"), ours)
	}
	kills, steps := 0, make(map[Step]int)
	for done := false; !done; {
		mover := exec.Command(os.Args[0], strings.Join(kinds, ","))
		mover.Env = append(os.Environ(), helper+"=move")
		mover.ExtraFiles, mover.Stderr = files, os.Stderr
		if err := mover.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- mover.Wait() }()
		life := time.Duration(3+rand.IntN(20)) * time.Millisecond
		if kills >= 60 {
			life = time.Hour // it goes on to the end
		}
		select {
		case err := <-ended:
			if done = err == nil; !done {
				t.Fatalf("a mover ended: %v", err)
			}
		case <-time.After(life):
			mover.Process.Kill()
			<-ended
			kills++
			for _, m := range w.streams {
				if s, _, err := m.lane.Found(); err == nil || s == Taking { // Taking: this process has no pipe to count
					steps[s]++
				}
			}
		}
	}
	t.Logf("%d kills, which found lanes %v", kills, steps)
	for i, cmd := range programs {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: the program: %v", kinds[i], err)
		}
		if m := w.streams[i]; !m.input && !bytes.Equal(m.bytes, stream(0, m.size)) {
			t.Errorf("%s: other bytes", kinds[i])
		}
	}
	for _, f := range files {
		f.Close()
	}
}

// ends returns our end of a stream and the program's.
func ends(t *testing.T, kind string) (ours, theirs *os.File) {
	t.Helper()
	var fds [2]int
	var err error
	switch {
	case strings.Contains(kind, "pty"):
		ours, theirs, err = pty.Open()
		if err == nil {
			var tio *unix.Termios
			if tio, err = unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS); err == nil {
				tio.Iflag, tio.Oflag, tio.Lflag = 0, 0, 0
				tio.Cc[unix.VMIN], tio.Cc[unix.VTIME] = 1, 0
				err = unix.IoctlSetTermios(int(theirs.Fd()), unix.TCSETS, tio)
			}
		}
	case strings.Contains(kind, "socket"):
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	default:
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
		ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
		if strings.HasPrefix(kind, "in") {
			ours, theirs = theirs, ours
		}
	}
	if err == nil {
		err = syscall.SetNonblock(int(ours.Fd()), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// Bytes are read only to a place that the next mover finds.
func TestReadNeedsPlace(t *testing.T) {
	var fds [4]int
	for i := range 2 {
		var err error
		if fds[2*i], fds[2*i+1], err = Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	rec := new(Record)
	l := New(rec, fds[0], fds[1])
	for range 2 { // the second move begins without the place of the first
		unix.Write(fds[3], stream(0, 100))
		n, err := l.Take(fds[2], Size, 7, 300)
		if n != 100 || err != nil {
			t.Fatal(n, err)
		}
		want := Move{Stream: 7, Offset: 300, N: 100}
		if _, m, err := l.Found(); m != want || err != nil {
			t.Errorf("found %+v, want %+v, %v", m, want, err)
		}
		dst := make([]byte, n)
		if l.Read(dst) == nil {
			t.Error("bytes were read without a place")
		}
		l.At(9)
		want.Place = 9
		if _, m, err := l.Found(); m != want || err != nil {
			t.Errorf("found %+v, want %+v, %v", m, want, err)
		}
		if k, err := unix.Read(fds[0], dst[:30]); k != 30 || err != nil { // as a mover that died amid the bytes
			t.Fatal(k, err)
		}
		l = New(rec, fds[0], fds[1])
		if err := l.Read(dst); err != nil || !bytes.Equal(dst, stream(0, 100)) {
			t.Errorf("other bytes, or %v", err)
		}
		l.Free()
	}
}
