package child

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/pace"
)

const defaultStdinQueue = 64 << 10

// stdin is the bounded queue in front of a child's standard input. Bytes that the kernel takes at
// once skip the queue, which saves an echo one wakeup. The writer goroutine lives only while the
// queue has bytes.
type stdin struct {
	p    *process
	file *os.File
	conn syscall.RawConn
	max  int // of queue, in bytes
	rate *pace.Flow

	mu      sync.Mutex
	open    bool   // accepts writes
	queue   []byte // bytes the kernel has not taken yet
	writing bool   // the writer runs: it owns the file's writing side
	wanted  int    // room that the refused write needs; 0: no write was refused
	midLine bool   // the last byte taken does not end a line
	atEnd   bool   // a terminal got its end-of-file character, and nothing since
	kept    keptStdin
	counted bool  // unread is known
	unread  int64 // bytes taken by write but never read by the child
}

// init sets up the queue for file. If file is nil, the child has no stdin.
func (s *stdin) init(p *process, file *os.File, queue int, rate *pace.Meter) {
	s.p, s.max = p, queue
	if s.max <= 0 {
		s.max = defaultStdinQueue
	}
	if file == nil {
		return
	}
	s.rate = rate.Flow(s.turn)
	s.file, s.open = file, true
	s.restore()
	s.conn, _ = file.SyscallConn() // fails for a nil file only
}

// write takes b whole or not at all if b fits into the queue and there is no rate. Otherwise b is taken in parts.
func (s *stdin) write(id [16]byte, b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return 0, ErrStdinClosed
	}
	for n < len(b) {
		part := b[n:]
		need := len(part)
		if need > s.max {
			need = (s.max + 1) / 2 // a smaller need would take parts of a few bytes
			part = part[:s.max-len(s.queue)]
		}
		if len(s.queue)+need > s.max {
			s.wanted = need // a non-empty queue has a writer, which calls wake
			return n, nil
		}
		if part = part[:s.rate.Take(len(part))]; len(part) == 0 {
			s.wanted = 1 // turn calls wake
			return n, nil
		}
		part, err := s.keep(id, part, len(b)-n)
		if err == nil {
			err = s.put(part)
		}
		if err != nil {
			return n, ErrStdinClosed
		}
		n += len(part)
		s.midLine, s.atEnd = b[n-1] != '\n' && b[n-1] != '\r', false
	}
	return n, nil
}

// put writes as much as the kernel takes at once, and queues the rest. The caller holds the lock.
func (s *stdin) put(b []byte) error {
	if !s.writing && len(s.queue) == 0 { // else an earlier program has left a queue, and resume follows
		var n int
		var err error
		open := s.conn.Write(func(fd uintptr) bool { n, err = s.move(fd, b); return true })
		if err = errors.Join(open, err); err != nil {
			s.failed()
			return err
		}
		b = b[n:]
	}
	if len(b) == 0 {
		return nil
	}
	s.queue = append(s.queue, b...)
	if !s.writing {
		s.writing = true
		go s.writer()
	}
	return nil
}

func (s *stdin) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil
	}
	if s.p.tty {
		if !s.atEnd && s.putEOF() == nil {
			s.midLine, s.atEnd = false, true
		}
		return nil
	}
	s.open = false
	s.wake() // the refused caller tries again and learns that stdin is closed
	if !s.writing {
		s.closeFile()
	}
	return nil
}

func (s *stdin) putEOF() error {
	eof, err := s.keep([16]byte{}, s.eof(), 0)
	if err == nil {
		err = s.put(eof)
	}
	return err
}

// eof is the input that ends the input of a terminal. Within a line, the first VEOF only delivers
// the line; a second VEOF ends the input.
func (s *stdin) eof() []byte {
	eof := byte(4) // ^D
	nonblock.Control(s.file, func(fd uintptr) {
		if t, err := unix.IoctlGetTermios(int(fd), getTermios); err == nil {
			eof = t.Cc[unix.VEOF]
		}
	})
	if s.midLine {
		return []byte{eof, eof}
	}
	return []byte{eof}
}

// writer empties the queue. It runs on a goroutine of its own.
func (s *stdin) writer() {
	if s.p.loop("stdin", s.step) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	s.failed()
}

func (s *stdin) step() bool {
	s.mu.Lock()
	head := s.queue // these bytes stay unchanged: later writes only append
	s.mu.Unlock()

	var n int
	var err error
	if len(head) > 0 {
		open := s.conn.Write(func(fd uintptr) bool {
			n, err = s.move(fd, head)
			return n > 0 || err != nil
		})
		err = errors.Join(open, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failed()
	case s.queue != nil: // a nil queue means the process has ended meanwhile, and nobody reads stdin
		s.queue = s.queue[n:]
	}
	if s.wanted > 0 && (len(s.queue) == 0 || len(s.queue)+s.wanted <= s.max) {
		s.wake()
	}
	if len(s.queue) > 0 {
		return true
	}
	s.queue = nil
	s.writing = false
	if !s.open {
		s.closeFile()
	}
	return false
}

// move gives the child bytes of the queue. move returns 0 and no error if the kernel takes no bytes now.
func (s *stdin) move(fd uintptr, b []byte) (n int, err error) {
	if s.kept.chain != nil {
		return s.moveKept(fd, b)
	}
	return writeOnce(fd, b)
}

// writeOnce returns 0 and no error if the kernel takes no bytes now.
func writeOnce(fd uintptr, b []byte) (n int, err error) {
	n, err = nonblock.Write(fd, b)
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, err
}

// failed closes stdin after a write error: the child has closed its end, or the process is over.
// The caller holds the lock.
func (s *stdin) failed() {
	s.count()
	s.open, s.queue = false, nil
	s.rate.Leave()
	s.wake()
	if !s.writing {
		s.closeFile()
	}
}

// exited counts the bytes left unread by the child.
func (s *stdin) exited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count()
}

// count adds up, once, the bytes in the queue and in the pipe. The child has ended or has closed
// its end. The caller holds the lock.
func (s *stdin) count() {
	if s.counted || s.file == nil {
		return
	}
	s.counted, s.unread = true, int64(len(s.queue))
	if s.p.tty {
		return
	}
	nonblock.Control(s.file, func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
			s.unread += int64(n)
		}
	})
}

func (s *stdin) lost() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}

// shut closes stdin because the process is over. Unlike failed, shut takes the lock.
func (s *stdin) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	s.open, s.queue = false, nil
	s.rate.Leave()
	s.wake()
	s.closeFile() // ends the writer's wait
}

// turn is called when the rate allows more bytes.
func (s *stdin) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
}

func (s *stdin) wake() {
	if s.wanted > 0 {
		s.wanted = 0
		s.p.in.StdinRoom()
	}
}

// closeFile ends a pipe. A PTY stays open, because the output uses it too. closeFile may be
// repeated.
func (s *stdin) closeFile() {
	if !s.p.tty && s.file.Close() == nil {
		s.p.drop("stdin") // else the child would see no end
	}
}
