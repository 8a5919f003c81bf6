package child

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

const defaultStdinQueue = 64 << 10

// stdin is the bounded queue in front of a child's standard input. Its writer
// goroutine lives only while something is queued: what the kernel takes at
// once is written at once, which saves an echo one wakeup.
type stdin struct {
	p    *process
	file *os.File
	conn syscall.RawConn
	max  int // bytes, of queue

	mu      sync.Mutex
	open    bool   // takes writes
	queue   []byte // what the kernel did not take yet
	writing bool   // the writer runs: it owns the file's writing side
	wanted  int    // bytes that there was no room for; 0: nobody waits
	midLine bool   // the last byte taken does not end a line
	counted bool   // unread is known
	unread  int64  // bytes taken that the child never got
}

// init sets up the queue for file; with nil the child has no stdin.
func (s *stdin) init(p *process, file *os.File, max int) {
	if max <= 0 {
		max = defaultStdinQueue
	}
	s.p, s.max = p, max
	if file == nil {
		return
	}
	s.file, s.open = file, true
	s.conn, _ = file.SyscallConn() // fails for a nil file only
}

// write takes b whole or not at all if it fits into the queue, and what is larger in parts.
func (s *stdin) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return 0, ErrStdinClosed
	}
	for n < len(b) {
		part := b[n:]
		need := len(part)
		if need > s.max {
			need = (s.max + 1) / 2 // not less: else each part would be a few bytes
			part = part[:s.max-len(s.queue)]
		}
		if len(s.queue)+need > s.max {
			s.wanted = need // a queue that is not empty has a writer, which wakes
			return n, nil
		}
		if err := s.put(part); err != nil {
			return n, ErrStdinClosed
		}
		n += len(part)
		s.midLine = b[n-1] != '\n' && b[n-1] != '\r'
	}
	return n, nil
}

// put writes what goes at once, and queues the rest. It holds the lock.
func (s *stdin) put(b []byte) error {
	if !s.writing {
		var n int
		var err error
		open := s.conn.Write(func(fd uintptr) bool { n, err = writeOnce(fd, b); return true })
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
		if err := s.put(s.eof()); err != nil {
			return nil // closed all the same
		}
	}
	s.open = false
	s.wake() // who was refused is to hear that it is closed
	if !s.writing {
		s.closeFile()
	}
	return nil
}

// eof is what ends the input of a terminal. Within a line VEOF only hands over
// the line: it takes another to end.
func (s *stdin) eof() []byte {
	eof := byte(4) // ^D
	control(s.file, func(fd uintptr) {
		if t, err := unix.IoctlGetTermios(int(fd), getTermios); err == nil {
			eof = t.Cc[unix.VEOF]
		}
	})
	if s.midLine {
		return []byte{eof, eof}
	}
	return []byte{eof}
}

// writer is the goroutine that empties the queue.
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
	head := s.queue // stays as it is: later writes only append
	s.mu.Unlock()

	var n int
	var err error
	if len(head) > 0 {
		open := s.conn.Write(func(fd uintptr) bool {
			n, err = writeOnce(fd, head)
			return n > 0 || err != nil
		})
		err = errors.Join(open, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failed()
	case s.queue != nil: // else the process has ended meanwhile, and nobody reads it
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

// writeOnce returns 0 and no error when the kernel takes nothing now.
func writeOnce(fd uintptr, b []byte) (n int, err error) {
	n, err = nonblock.Write(fd, b)
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, err
}

// failed closes stdin: the child has closed its end, or the process is over. It
// holds the lock.
func (s *stdin) failed() {
	s.count()
	s.open, s.queue = false, nil
	s.wake()
	if !s.writing {
		s.closeFile()
	}
}

// exited counts what the child has left unread.
func (s *stdin) exited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count()
}

// count adds up what is in the queue and in the pipe, once: nobody reads it any
// more. It holds the lock.
func (s *stdin) count() {
	if s.counted || s.file == nil {
		return
	}
	s.counted, s.unread = true, int64(len(s.queue))
	if s.p.tty {
		return
	}
	control(s.file, func(fd uintptr) {
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

// shut is failed, from outside: the process is over.
func (s *stdin) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	s.open, s.queue = false, nil
	s.wake()
	s.closeFile() // ends the writer's wait
}

func (s *stdin) wake() {
	if s.wanted > 0 {
		s.wanted = 0
		s.p.in.StdinRoom()
	}
}

// closeFile is how a pipe ends; a PTY is the output's too. May be repeated.
func (s *stdin) closeFile() {
	if !s.p.tty {
		s.file.Close()
	}
}
