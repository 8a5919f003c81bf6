// Package lane moves bytes between a program and shared memory so that the process that moves them may be killed between any two
// instructions, and its successor goes on without losing or repeating a byte.
//
// A lane is a pipe that only movers touch, with a Record in memory that outlives them. Whoever moves bytes owns the lane for one move,
// and nobody else adds to the pipe. So what has left the pipe is what the Record says, less what the pipe still has (FIONREAD in
// ioctl_pipe(2)). The bytes go from pipe to pipe by splice(2), which takes them from their source and adds them to the lane in one step.
//
// Output of a program, with the state of the Record after each step:
//
//	Take   taking   the Record names the stream, and the place in memory
//	       taking   splice from the program to the lane
//	       taken    the Record has the count
//	Read   taken    the bytes are in their place
//	       taken    the caller commits them, and from then on they count
//	Free   free     only now may anybody see them
//
// Input of a program:
//
//	Fill   filling  the bytes are written to the lane
//	       filled   the Record has the count
//	Give   filled   splice from the lane to the program, as much as it takes
//	       filled   the caller commits how many bytes the program has
//	Empty  emptying the rest leaves the lane
//	       free
//
// After a death, the successor calls Found for each lane, and goes on where its Step says. Offsets make commits idempotent: what was
// committed before the death is not committed again.
package lane

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Step is how far a move has come.
type Step uint32

// The steps of a move. A lane that is not Free belongs to one move.
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

// Size is how many bytes a lane moves at a time at most: the capacity of a new pipe (pipe(7)).
const Size = 64 << 10

// Record is the state of a lane, in memory that outlives the movers. The zero Record is that of a free lane. Its words are stored one by
// one; the step is stored last, so the others are valid for it.
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

// RecordAt returns the Record in the first RecordSize bytes of mem, which is aligned to 8 bytes.
func RecordAt(mem []byte) *Record { return (*Record)(unsafe.Pointer(&mem[:RecordSize][0])) }

// Move says which bytes a lane moves.
type Move struct {
	Stream uint64 // the caller's number of the stream
	Offset uint64 // of the first byte in the stream
	Place  uint64 // the caller's place of the first byte in memory
	N      int    // bytes; of Taken and Filled
}

// Lane is a pipe with its Record. One goroutine at a time may use a Lane.
type Lane struct {
	rec  *Record
	r, w int // of the pipe, in non-blocking mode
}

// New returns the lane of a Record and both ends of its pipe. The ends are descriptors in non-blocking mode. The lane does not close them.
func New(rec *Record, r, w int) *Lane { return &Lane{rec, r, w} }

// Pipe makes the pipe of a lane. The ends are closed on exec.
func Pipe() (r, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, -1, fmt.Errorf("lane: pipe: %w", err)
	}
	return fds[0], fds[1], nil
}

// strike is called between any two steps that a death may come between. Tests replace strike.
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

// Found returns what the last owner of the lane has left: its step and its move. The N of a move that is Taking is counted in the
// pipe: the owner has died before it could store N.
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
	n, err := unix.IoctlGetInt(l.r, unix.TIOCINQ) // as FIONREAD
	if err != nil {
		return 0, fmt.Errorf("lane: count the bytes of the pipe: %w", err)
	}
	return n, nil
}

// Take moves up to max bytes, and up to Size, from a program to the lane, and returns how many. from is a pipe, a terminal or a socket in non-blocking
// mode. With 0 bytes the lane is free again: err is io.EOF at the end of the stream, EAGAIN if there is nothing yet, and EIO from a
// terminal that nobody has open any more. m.N does not count.
func (l *Lane) Take(from, max int, m Move) (n int, err error) {
	m.N = 0
	l.enter(Taking, m)
	n, err = splice(from, l.w, min(max, Size))
	strike()
	switch {
	case n > 0:
		l.become(Taken, n)
		return n, nil
	case err == nil:
		err = io.EOF
	}
	l.Free()
	return 0, err
}

// Read reads the bytes of a move that is Taking or Taken to their place. dst has the N bytes of memory at the place; those that an owner
// that has died since had read are there already. Then the caller commits the move, and frees the lane.
func (l *Lane) Read(dst []byte) error {
	if Step(l.rec.step.Load()) == Taking { // the death came after splice
		l.become(Taken, len(dst))
	}
	left, err := l.left()
	if err != nil {
		return err
	}
	if left > len(dst) {
		return fmt.Errorf("lane: the pipe has %d bytes, and the record says %d", left, len(dst))
	}
	for rest := dst[len(dst)-left:]; len(rest) > 0; {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(l.r, rest) })
		if err != nil {
			return fmt.Errorf("lane: read: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("lane: read: %w", io.ErrUnexpectedEOF)
		}
		rest = rest[n:]
		strike()
	}
	return nil
}

// Free ends a move. After Take and Read, the caller has committed it.
func (l *Lane) Free() {
	l.rec.step.Store(uint32(Free))
	strike()
}

// Fill writes data, of Size bytes at most, to the lane, for the stream of m. The bytes are copied: a splice from memory would pass on
// pages that the program may read after the memory was used again.
func (l *Lane) Fill(data []byte, m Move) error {
	if len(data) > Size {
		return fmt.Errorf("lane: %d bytes for the lane, it moves %d at a time", len(data), Size)
	}
	m.N = 0
	l.enter(Filling, m)
	for rest := data; len(rest) > 0; {
		n, err := ignoringEINTR(func() (int, error) { return unix.Write(l.w, rest) })
		if err != nil {
			return errors.Join(fmt.Errorf("lane: write: %w", err), l.Empty())
		}
		rest = rest[n:]
		strike()
	}
	l.become(Filled, len(data))
	return nil
}

// Give moves the bytes of a move that is Filled to the program, and returns how many of them it has taken since Fill, those before the death of an
// earlier owner included. to is a pipe, a terminal or a socket in non-blocking mode. err says why the program takes no more: EAGAIN
// while it reads nothing, EPIPE once it will read nothing any more, nil if it has all bytes. Then the caller commits the count, and calls Empty.
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
		if moved, err = splice(l.r, to, left); moved == 0 && err == nil {
			err = unix.EAGAIN
		}
		strike()
	}
}

// Empty drops what the lane still has, and frees it. The caller has committed the count of Give, or the bytes come again from memory.
func (l *Lane) Empty() error {
	l.rec.step.Store(uint32(Emptying))
	strike()
	var buf [4 << 10]byte
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(l.r, buf[:]) })
		strike()
		switch {
		case err == unix.EAGAIN || n == 0 && err == nil:
			l.Free()
			return nil
		case err != nil:
			return fmt.Errorf("lane: empty: %w", err)
		}
	}
}

// splice moves up to n bytes between descriptors, one of which is a pipe, and does not wait. 0 bytes without an error are the end of from.
func splice(from, to, n int) (int, error) {
	return ignoringEINTR(func() (int, error) {
		moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		return int(max(moved, 0)), err
	})
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}
