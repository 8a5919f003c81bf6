package trees

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// spare runs the system calls needed for killing when the program has no file descriptor left. Its
// thread has a table of open files of its own, with a separate RLIMIT_NOFILE count. The thread is
// started in advance: a program without descriptors may get no thread either.
type spare struct {
	mu     sync.Mutex
	thread *fork.Thread // never forks; nil: closed
}

func newSpare(log *slog.Logger) *spare {
	thread, err := fork.NewThread()
	s := &spare{thread: thread}
	if err != nil {
		log.Warn("if the server runs out of file descriptors, it will not find the processes to kill", "err", err)
		return s
	}
	s.thread.Do(func() error { // frees two descriptors, so even the lowest limit suffices
		return errors.Join(unix.Close(0), unix.Close(1))
	})
	return s
}

func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thread.Close()
	s.thread = nil
}

// do calls f. If f fails for lack of a descriptor, do calls f again on the thread. f must close
// every file it opens.
func (s *spare) do(f func() error) error {
	err := f()
	if s == nil || !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thread == nil {
		return err
	}
	return s.thread.Do(f)
}

// readShort reads a file of a process with one read into buf. Unlike kernel.ReadFile, readShort allocates
// nothing.
func readShort(buf []byte, dir string, pid int, file string) ([]byte, error) {
	path := append(strconv.AppendInt(append(buf[:0], dir...), int64(pid), 10), file...)
	path = append(path, 0)
	fd, err := kernel.Retry(func() (int, error) {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		return int(fd), errnoError(errno)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s%d%s: %w", dir, pid, file, err)
	}
	defer unix.Close(fd)
	n, err := kernel.Retry(func() (int, error) { return unix.Read(fd, buf) })
	if err != nil {
		return nil, fmt.Errorf("read %s%d%s: %w", dir, pid, file, err)
	}
	return buf[:n], nil
}

func errnoError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// gone reports whether err means: this process, or this cgroup, does not exist.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// hidden reports whether err means: this user lacks the permission to look.
func hidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}
