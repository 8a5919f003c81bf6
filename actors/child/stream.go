package child

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/protocol"
)

// All in bytes.
const (
	bufferSize = slab.Size
	// handOver is the least for which a slab goes to the Intake as it is;
	// less is copied out, so that a line does not hold a whole slab.
	handOver = bufferSize / 2
	// coalesce is the least that makes a pump try to read on at once: there is
	// likely more. A PTY gives 4 KiB at a time at most.
	coalesce = 1 << 10
	// floodSize of one read of a pipe, which is all it holds by default, earns
	// it pipeSize. Not sooner: pages of pipes are counted (pipe-user-pages-soft).
	floodSize = 64 << 10
	pipeSize  = 256 << 10
	// ttyFlight is more than a PTY can hold: 4 KiB in the line discipline, and
	// before it buffers of 8 KiB which one write of at most 64 KiB may exceed.
	ttyFlight = 128 << 10
)

// stream is one output stream of a child, and its pump.
type stream struct {
	p    *process
	kind protocol.Stream
	file *os.File
	conn syscall.RawConn
	look func(fd uintptr) bool // s.lookAt

	// Owned by the pump.
	next  next
	grown bool

	// mu is held over each look and each read, so that what is counted and what
	// the kernel holds fit together.
	mu        sync.Mutex
	read, put uint64 // bytes: by the pump, and to the Intake
	atExit    bool   // the child has exited; what there was of it ends at due
	due       uint64
	abandoned bool // nothing beyond last is to be read
	last      uint64
	ended     bool
}

// next is what a pump is to do.
type next uint8

const (
	nextRead   next = iota + 1
	nextSettle      // all that was there at the exit has been put
	nextEnd         // nothing more is to be read
)

func newStream(p *process, kind protocol.Stream, file *os.File) *stream {
	s := &stream{p: p, kind: kind, file: file}
	s.look = s.lookAt
	s.conn, _ = file.SyscallConn() // fails for a nil file only
	return s
}

// pump is the goroutine that moves the stream's bytes to the Intake.
func (s *stream) pump() {
	s.p.loop("pump", s.step) // given up, the stream ends like any other
	s.end()
}

// step waits until there is something to read, takes credit, then a buffer, and
// reads: in this order. Credit taken first would let an idle stderr starve
// stdout; a buffer taken first would be held by every idle child.
func (s *stream) step() bool {
	switch s.await() {
	case nextEnd:
		return false
	case nextSettle:
		s.p.settle()
		return true
	}
	return s.move()
}

// move takes what there is to the Intake. It reports false at the end.
//
//go:noinline // its frame is not to be on the stack of a parked pump
func (s *stream) move() bool {
	credit, ok := s.p.in.Take(bufferSize)
	if !ok {
		return false
	}
	lent := slab.Get() // held only while there is something to read
	buf := lent.Bytes()[:credit.N]
	n, eof := s.fill(buf)
	var at int64
	if n > 0 && credit.Spool != nil {
		var err error
		if at, err = credit.Spool.Write(buf[:n]); err != nil {
			s.p.host.log.Error("output is kept in memory, and the program waits: the spool has failed", "pid", s.p.pid, "err", err)
			left := credit
			left.N -= n
			s.p.in.GiveBack(left)
			credit.N = n
			credit = s.p.in.Keep(credit)
		}
	}
	switch {
	case n == 0:
		lent.Release()
		s.p.in.GiveBack(credit)
	case n < handOver:
		data := append([]byte(nil), buf[:n]...)
		lent.Release()
		s.p.in.Put(s.kind, data, nil, credit, at)
	default:
		s.p.in.Put(s.kind, buf[:n], lent, credit, at)
	}
	s.mu.Lock()
	s.put += uint64(n)
	settle := s.atExit && s.put >= s.due
	s.mu.Unlock()
	if settle {
		s.p.settle()
	}
	return !eof
}

func (s *stream) await() next {
	if s.conn.Read(s.look) != nil {
		// The deadline that abandon has set: from now on look without waiting.
		s.next = nextEnd
		s.conn.Control(func(fd uintptr) { s.lookAt(fd) })
	}
	return s.next
}

// lookAt sets next, and reports false if there is nothing to do yet.
func (s *stream) lookAt(fd uintptr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := nonblock.Poll(fd, unix.POLLIN)
	ready := events != 0
	switch {
	case hungUp(events) && hungUp(nonblock.Poll(fd, unix.POLLIN)):
		// Looked at twice: within one look a last writer may write and close. The end
		// takes no credit: there may be none for long.
		s.next = nextEnd
	case s.abandoned && (!ready || s.read >= s.last):
		s.next = nextEnd
	case ready:
		s.next = nextRead
	case s.atExit && s.put < s.due:
		s.due = s.put // less was there than a PTY may hold
		s.next = nextSettle
	default:
		return false
	}
	return true
}

// fill reads until nothing is left or buf is full. eof means that nothing will
// ever come again.
func (s *stream) fill(buf []byte) (n int, eof bool) {
	open := s.conn.Control(func(fd uintptr) {
		for n < len(buf) {
			got, err := s.readOnce(fd, buf[n:])
			n += got
			eof = got == 0 && !errors.Is(err, unix.EAGAIN)
			if got < coalesce {
				break
			}
		}
		if n >= floodSize && !s.grown && !s.p.tty {
			s.grown = true
			growPipe(fd, pipeSize)
		}
	})
	return n, eof || open != nil
}

// readOnce returns what one read(2) gave. Errors other than EAGAIN are the end,
// as for a PTY EIO is: nobody has the other side open.
func (s *stream) readOnce(fd uintptr, buf []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abandoned {
		if s.read >= s.last {
			return 0, unix.EAGAIN
		}
		buf = buf[:min(uint64(len(buf)), s.last-s.read)]
	}
	n, err = nonblock.Read(fd, buf)
	s.read += uint64(n)
	return n, err
}

// exited fixes how much was written before the child's exit: what was read, and
// what the kernel still holds of it. May be repeated.
func (s *stream) exited() {
	control(s.file, func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.atExit {
			s.atExit, s.due = true, s.read+s.held(fd)
		}
	})
}

func (s *stream) abandon() {
	control(s.file, func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.abandoned {
			s.abandoned, s.last = true, s.read+s.held(fd)
		}
	})
	s.file.SetReadDeadline(time.Unix(1, 0)) // ends the wait of the pump; fails if it has ended
}

// held is how many bytes the kernel holds for us, for a PTY at most.
func (s *stream) held(fd uintptr) uint64 {
	switch {
	case !readable(fd): // this also moves a PTY's bytes to where they can be seen
		return 0
	case s.p.tty:
		return ttyFlight
	}
	n, err := unix.IoctlGetInt(int(fd), fionread)
	if err != nil {
		return 0
	}
	return uint64(n)
}

// readable also reports true at the end of the stream. A peer that has closed a
// PTY hangs up; what it wrote comes first.
func readable(fd uintptr) bool { return nonblock.Poll(fd, unix.POLLIN) != 0 }

// hungUp reports whether nothing is left to read, and nobody to write.
func hungUp(events int16) bool { return events&unix.POLLHUP != 0 && events&unix.POLLIN == 0 }

// progress reports whether all that was there at the exit has been put, and
// whether nothing more will be.
func (s *stream) progress() (drained, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.atExit && s.put >= s.due, s.ended
}

func (s *stream) end() {
	if !s.p.tty { // settle closes a PTY: stdin needs it too
		s.file.Close()
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.p.settle()
}
