// Package lane moves bytes between a program and shared memory. The mover may be killed between any two instructions: its successor
// goes on, and neither loses nor repeats a byte.
//
// A lane is a pipe for movers alone, with a Record in memory. The memory and the pipe outlive the movers. A mover owns the lane for a move,
// and nobody else adds to the pipe. So the count in the Record, less the bytes still in the pipe, has left the pipe. A mover counts what it
// moves, and asks the kernel (FIONREAD of ioctl_pipe(2)) only for what a dead mover has left. The bytes go from pipe to pipe by splice(2): taking
// bytes from their source and adding them to the lane is a single step.
//
// Output of a program, with the state of the Record after each step:
//
//	Take   taking   the Record names the stream, and no place
//	       taking   splice from the program to the lane
//	       taken    the Record has the count: now the caller chooses a place in memory
//	At     taken    the Record has the place
//	Read   taken    the bytes are in their place
//	       taken    the caller commits them, and from then on they count
//	Free   free     only now may anybody see them
//
// Input of a program:
//
//	Fill   filling  the bytes are written to the lane
//	       filled   the Record has the count
//	Give   filled   splice from the lane to the program, as much as the program takes
//	       filled   the caller commits how many bytes the program has
//	Empty  emptying the rest leaves the lane
//	       free
//
// After a death, the successor calls Found for each lane, and goes on where its Step says. If output has no place yet, the lane has all its bytes, and the
// successor chooses the place; otherwise the first bytes may be in their place already. Offsets make commits idempotent: bytes
// committed before the death are not committed again.
package lane

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// Step is how far a move has come.
type Step uint32

// The steps of a move. A lane in any other step than Free belongs to a move.
const (
	Free Step = iota
	Taking
	Taken
	Filling
	Filled
	Emptying
)

// String returns the name of the step.
func (s Step) String() string {
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("step %d", uint32(s))
}

var names = [...]string{"free", "taking", "taken", "filling", "filled", "emptying"}

const (
	// Size is how many bytes of output a lane moves at a time at most.
	Size = 128 << 10
	// FillSize is how many bytes of input a lane moves at a time at most: the capacity of a new pipe (pipe(7)).
	FillSize = 64 << 10
)

// Record is the state of a lane, in shared memory. The zero Record means: the lane is free. The words of a Record are stored singly. The
// step is stored last, so the other words are valid for the step.
type Record struct {
	step   atomic.Uint32
	_      uint32
	stream atomic.Uint64
	offset atomic.Uint64
	place  atomic.Uint64
	n      atomic.Uint64
}

// RecordSize is how many bytes of shared memory a Record takes.
const RecordSize = int(unsafe.Sizeof(Record{}))

// Move names the bytes of a move.
type Move struct {
	Stream uint64 // the caller's number of the stream
	Offset uint64 // of the first byte in the stream
	Place  uint64 // the caller's place of the first byte in memory; 0: none yet
	N      int    // bytes; of Taken and Filled
}

// Lane is a pipe with its Record. A single goroutine at a time may use a Lane.
type Lane struct {
	rec  *Record
	r, w int // of the pipe, in non-blocking mode
	has  int // so many bytes are in the pipe; below 0: an earlier owner has died, and nobody has counted
}

// New returns the lane of a Record and both ends of its pipe. The ends are descriptors in non-blocking mode. The lane does not close them.
func New(rec *Record, r, w int) *Lane { return &Lane{rec, r, w, -1} }

// Pipe makes the pipe of a lane. The ends are closed on exec. The pipe has Size bytes, or FillSize if the pipes of the user have too many
// (pipe-user-pages-soft of pipe(7)).
func Pipe() (r, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, -1, fmt.Errorf("lane: pipe: %w", err)
	}
	unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, Size)
	return fds[0], fds[1], nil
}

// strike is called wherever a death makes a difference. Tests replace strike.
var strike = func() {}

// enter has the Record begin with a step of m.
func (l *Lane) enter(s Step, m Move) {
	l.rec.stream.Store(m.Stream)
	l.rec.offset.Store(m.Offset)
	strike()
	l.rec.place.Store(m.Place)
	l.rec.n.Store(uint64(m.N))
	strike()
	l.rec.step.Store(uint32(s))
	strike()
}

// become has the Record be at a step, with n bytes.
func (l *Lane) become(s Step, n int) {
	l.rec.n.Store(uint64(n))
	strike()
	l.rec.step.Store(uint32(s))
	strike()
}

// Found returns the step and the move of the last owner of the lane. For Taking, N is counted in the pipe: the owner has died before
// storing N.
func (l *Lane) Found() (Step, Move, error) {
	s := Step(l.rec.step.Load())
	m := Move{Stream: l.rec.stream.Load(), Offset: l.rec.offset.Load(), Place: l.rec.place.Load(), N: int(l.rec.n.Load())}
	switch s {
	case Free:
		return s, Move{}, nil
	case Taking:
		n, err := l.left()
		m.N = n
		return s, m, err
	case Taken, Filling, Filled, Emptying:
		return s, m, nil
	}
	return s, m, fmt.Errorf("lane: the record is at %v, which no version of this program has written", s)
}

// left returns how many bytes the pipe has.
func (l *Lane) left() (int, error) {
	if l.has >= 0 {
		return l.has, nil
	}
	n, err := unix.IoctlGetInt(l.r, unix.TIOCINQ) // as FIONREAD
	if err != nil {
		return 0, fmt.Errorf("lane: count the bytes of the pipe: %w", err)
	}
	l.has = n
	return n, nil
}

// Take moves up to max bytes, a byte at least and Size at most, from a program to the lane, and returns how many. from is a pipe, a terminal or a socket in non-blocking
// mode. offset is the place of the first byte in the stream. With 0 bytes the lane is free again: err is io.EOF at the end of the stream, EAGAIN if there is nothing
// yet, and EIO from a terminal without a program.
func (l *Lane) Take(from, max int, stream, offset uint64) (n int, err error) {
	l.enter(Taking, Move{Stream: stream, Offset: offset})
	n, err = nonblock.Splice(uintptr(from), uintptr(l.w), min(max, Size))
	strike()
	switch {
	case n > 0:
		l.has = n
		l.become(Taken, n)
		return n, nil
	case err == nil:
		err = io.EOF
	}
	l.Free()
	return 0, err
}

// At stores the place for the bytes of a move in the step Taking or Taken. A place is not 0. A move keeps its first place.
func (l *Lane) At(place uint64) {
	l.rec.place.Store(place)
	strike()
}

// Read reads the bytes of a move in the step Taking or Taken to their place. dst has the N bytes of memory at the place. An owner may have
// read the first of the bytes before its death. After Read the caller commits the move, and frees the lane.
func (l *Lane) Read(dst []byte) error {
	if l.rec.place.Load() == 0 { // who dies now leaves bytes that nobody finds
		return errors.New("lane: read without a place")
	}
	if Step(l.rec.step.Load()) == Taking { // the death came after splice
		l.become(Taken, len(dst))
	}
	return l.Drain(dst)
}

// Drain is Read for bytes without a place: at a death they are lost.
func (l *Lane) Drain(dst []byte) error {
	left, err := l.left()
	if err != nil {
		return err
	}
	if left > len(dst) {
		return fmt.Errorf("lane: the pipe has %d bytes, and the record says %d", left, len(dst))
	}
	for rest := dst[len(dst)-left:]; len(rest) > 0; {
		n, err := nonblock.Read(uintptr(l.r), rest)
		if err != nil {
			return fmt.Errorf("lane: read: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("lane: read: %w", io.ErrUnexpectedEOF)
		}
		rest, l.has = rest[n:], l.has-n
		strike()
	}
	return nil
}

// Free ends a move. After Take and Read, the caller commits the move before.
func (l *Lane) Free() {
	l.rec.step.Store(uint32(Free))
	strike()
}

// Fill writes data, of FillSize bytes at most, to the lane, for the stream of m. The bytes are copied: a splice from memory would pass on
// pages, and the program may read the pages after the memory was used again.
func (l *Lane) Fill(data []byte, m Move) error {
	if len(data) > FillSize {
		return fmt.Errorf("lane: %d bytes for the lane, it moves %d at a time", len(data), FillSize)
	}
	m.N = 0
	l.enter(Filling, m)
	l.has = 0
	for rest := data; len(rest) > 0; {
		n, err := nonblock.Write(uintptr(l.w), rest)
		if err != nil {
			return errors.Join(fmt.Errorf("lane: write: %w", err), l.Empty())
		}
		rest, l.has = rest[n:], l.has+n
		strike()
	}
	l.become(Filled, len(data))
	return nil
}

// Give moves the bytes of a move in the step Filled to the program, and returns how many bytes the program has taken since Fill, also
// before the death of an earlier owner. to is a pipe, a terminal or a socket in non-blocking mode. err says why the program takes no more: EAGAIN
// while the program reads nothing, EPIPE once the program will read nothing any more, nil if the program has all bytes. Then the caller commits the count, and calls Empty.
func (l *Lane) Give(to int) (taken int, err error) {
	n := int(l.rec.n.Load())
	for {
		left, failed := l.left()
		if failed != nil {
			return 0, failed
		}
		if taken = n - left; left == 0 || err != nil {
			return taken, err
		}
		var moved int
		if moved, err = nonblock.Splice(uintptr(l.r), uintptr(to), left); moved == 0 && err == nil {
			err = unix.EAGAIN
		}
		l.has -= moved
		strike()
	}
}

// Given returns how many bytes of a move in the step Filled the program has taken.
func (l *Lane) Given() (int, error) {
	left, err := l.left()
	return int(l.rec.n.Load()) - left, err
}

// Empty drops the bytes left in the lane, and frees the lane. The caller has committed the count of Give, or the bytes come again from memory.
func (l *Lane) Empty() error {
	l.rec.step.Store(uint32(Emptying))
	strike()
	var buf [4 << 10]byte
	for {
		n, err := nonblock.Read(uintptr(l.r), buf[:])
		strike()
		switch {
		case err == unix.EAGAIN || n == 0 && err == nil:
			l.has = 0
			l.Free()
			return nil
		case err != nil:
			return fmt.Errorf("lane: empty: %w", err)
		}
	}
}
