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

// All sizes are in bytes.
const (
	bufferSize = slab.Size
	// handOver is the least output for which a pump hands its slab to the Intake. Smaller output is
	// copied, so that a line does not hold a whole slab.
	handOver = bufferSize / 2
	// coalesce is the least output of a read after which a pump reads on at once: more output is
	// likely there. A PTY gives 4 KiB at a time at most.
	coalesce = 1 << 10
	// floodSize is the default capacity of a pipe. A pump that reads floodSize at once enlarges its
	// pipe to pipeSize. No pipe is enlarged sooner, because the kernel limits the pages of pipes
	// per user (pipe-user-pages-soft).
	floodSize = 64 << 10
	pipeSize  = 256 << 10
	// ttyFlight is more than a PTY can hold: 4 KiB in the line discipline, plus earlier buffers of
	// 8 KiB, exceeded by at most a single write of 64 KiB.
	ttyFlight = 128 << 10
)

// stream is one output stream of a child, with its pump.
type stream struct {
	p    *process
	kind protocol.Stream
	file *os.File
	conn syscall.RawConn
	look func(fd uintptr) bool // s.lookAt, bound once

	next  next    // the pump owns next
	grown bool    // the pump owns grown; with two streams, process.turn guards grown
	other *stream // the other stream of the child; nil: there is none
	// Guarded by order.mu: when the stream became readable last, and had become readable before the last read. Only the order of
	// the numbers counts.
	readable, seen uint64

	// mu is held over each poll and each read, so that the counts match the bytes in the kernel.
	mu        sync.Mutex
	read, put uint64 // bytes: read by the pump, given to the Intake
	atExit    bool   // the child has exited; the output written before the exit ends at byte due
	due       uint64
	abandoned bool // the pump reads nothing after byte last
	last      uint64
	ended     bool
}

// next is the pump's next action.
type next uint8

const (
	nextRead   next = iota + 1
	nextSettle      // all output written before the exit was put
	nextEnd         // stop reading
)

func newStream(p *process, kind protocol.Stream, file *os.File) *stream {
	s := &stream{p: p, kind: kind, file: file}
	s.look = s.lookAt
	if c := p.in.Chain; c != nil {
		s.read = c.Word(int(kind)).Load() // by an earlier program
		s.put = s.read
	}
	s.conn, _ = file.SyscallConn() // fails for a nil file only
	return s
}

// pump moves the stream's bytes to the Intake. It runs on a goroutine of its own.
func (s *stream) pump() {
	s.p.loop("pump", s.step) // after too many panics the stream ends as if the child had closed it
	s.end()
}

// step waits for readable output, then takes credit, then a buffer, then reads. The order matters:
// if credit came first, an idle stderr would starve stdout; if the buffer came first, every idle
// child would hold a buffer.
func (s *stream) step() bool {
	switch s.await() {
	case nextEnd:
		return false
	case nextSettle:
		s.p.settle()
		return true
	}
	if s.other == nil {
		return s.move()
	}
	return s.moveInTurn()
}

// moveInTurn first moves the other stream if that became readable first. The pump of the other stream may come later.
//
//go:noinline // as for move
func (s *stream) moveInTurn() bool {
	s.p.turn.Lock()
	defer s.p.turn.Unlock()
	if s.p.host.order.first(s.other, s) {
		s.other.move() // at the end of the other stream, its pump sees the end, too
	}
	return s.move()
}

// move reads the available output and puts it into the Intake. At the end of the stream move
// returns false.
//
//go:noinline // a parked pump must not have the frame of move on its stack
func (s *stream) move() bool {
	if s.p.in.Chain != nil {
		return s.moveKept()
	}
	credit, ok := s.p.in.Take(bufferSize)
	if !ok {
		s.drop()
		return false
	}
	lent := slab.Get() // held only while there is output to read
	buf := lent.Bytes()[:credit.N]
	n, eof := s.fill(buf)
	var at int64
	if n > 0 && credit.Spool != nil {
		var err error
		if at, err = credit.Spool.Write(buf[:n]); err != nil {
			credit = s.unspool(n, credit, err)
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
	s.putOut(n)
	return !eof
}

// unspool returns credit for n bytes in memory in place of credit for a spool that has failed.
func (s *stream) unspool(n int, credit Credit, err error) Credit {
	s.p.host.log.Error("the spool has failed: output stays in memory, and the program waits when memory is full", "pid", s.p.PID(), "err", err)
	left := credit
	left.N -= n
	s.p.in.GiveBack(left)
	credit.N = n
	return s.p.in.Keep(credit)
}

// putOut counts n bytes given to the Intake.
func (s *stream) putOut(n int) {
	s.mu.Lock()
	s.put += uint64(n)
	settle := s.atExit && s.put >= s.due
	s.mu.Unlock()
	if settle {
		s.p.settle()
	}
}

// drop reads what is left of an abandoned stream, and drops it: the intake was aborted.
func (s *stream) drop() {
	s.mu.Lock()
	ends := s.abandoned // else the program may write for ever
	s.mu.Unlock()
	if !ends {
		return
	}
	lent := slab.Get()
	defer lent.Release()
	lost := 0
	for n, eof := s.fill(lent.Bytes()); n > 0; n, eof = s.fill(lent.Bytes()) {
		if lost += n; eof {
			break
		}
	}
	if lost > 0 {
		s.p.in.Lost(s.kind, lost)
	}
}

func (s *stream) await() next {
	if s.conn.Read(s.look) != nil {
		// abandon has set a deadline: from now on look without waiting.
		s.next = nextEnd
		s.conn.Control(func(fd uintptr) { s.lookAt(fd) })
	}
	return s.next
}

// lookAt sets next. If there is nothing to do yet, lookAt returns false.
func (s *stream) lookAt(fd uintptr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := nonblock.Poll(fd, unix.POLLIN)
	ready := events != 0
	switch {
	case hungUp(events) && hungUp(nonblock.Poll(fd, unix.POLLIN)):
		// Polled twice: during the first poll the last writer may write and close. Ending takes no
		// credit, because credit may be missing for long.
		s.next = nextEnd
	case s.abandoned && (!ready || s.read >= s.last):
		s.next = nextEnd
	case ready:
		s.next = nextRead
	case s.atExit && s.put < s.due:
		s.due = s.put // the PTY held less than ttyFlight
		s.next = nextSettle
	default:
		return false
	}
	return true
}

// fill reads until no output is left or buf is full. eof means no output will ever follow.
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
		s.growFor(fd, n)
	})
	return n, eof || open != nil
}

// growFor enlarges the pipe of a program that floods: n bytes were there at once.
func (s *stream) growFor(fd uintptr, n int) {
	if n >= floodSize && !s.grown && !s.p.tty {
		s.grown = true
		growPipe(fd, pipeSize)
	}
}

// readOnce returns the result of one read(2). Any error except EAGAIN is the end of the stream. For
// a PTY the end is EIO: nobody has the other side open.
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

// exited records how much output was written before the child's exit: the bytes read so far, plus
// the bytes in the kernel. A repeated call does nothing.
func (s *stream) exited() {
	nonblock.Control(s.file, func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.atExit {
			s.atExit, s.due = true, s.read+s.held(fd)
		}
	})
}

func (s *stream) abandon() {
	nonblock.Control(s.file, func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.abandoned {
			s.abandoned, s.last = true, s.read+s.held(fd)
		}
	})
	s.file.SetReadDeadline(time.Unix(1, 0)) // ends the wait of the pump; fails if the pump has ended
}

// held is how many unread bytes the kernel holds. For a PTY, held is an upper bound.
func (s *stream) held(fd uintptr) uint64 {
	switch {
	case !pollable(fd): // the poll also makes a PTY move its bytes to where reads find them
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

// pollable also reports true at the end of the stream. A closed PTY reports a hangup only after its
// last output.
func pollable(fd uintptr) bool { return nonblock.Poll(fd, unix.POLLIN) != 0 }

// hungUp reports whether no output and no writer is left.
func hungUp(events int16) bool { return events&unix.POLLHUP != 0 && events&unix.POLLIN == 0 }

// progress reports whether all output written before the exit was put, and whether the stream has
// ended.
func (s *stream) progress() (drained, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.atExit && s.put >= s.due, s.ended
}

func (s *stream) end() {
	if s.other != nil {
		s.p.host.order.remove(s)
	}
	if !s.p.tty { // stdin needs the PTY too: settle closes the PTY
		s.file.Close()
		if s.p.kept && !s.p.Exited() { // else forget follows
			s.p.drop(s.kind.String())
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.p.settle()
}
