package trees

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// OurFile makes fd non-blocking, and registers fd with the runtime's poller. The result owns fd.
func OurFile(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	// A file refused by the poller has neither deadlines nor a way to wait.
	if err := f.SetDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: fs.epoll.max_user_watches: %w", ErrLimit, err)
	}
	return f, nil
}

// NoDescriptor turns the lack of a descriptor into an ErrLimit, which names the limit. Other errors stay as they are.
func NoDescriptor(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		soft, _, _ := NoFile()
		return fmt.Errorf("%w: RLIMIT_NOFILE is %d and all are in use: end some processes, or raise it", ErrLimit, soft)
	}
	if errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: fs.file-max: the system has no more open files to give", ErrLimit)
	}
	return err
}

// NoFile returns the limits of this program's open files.
func NoFile() (soft, hard uint64, err error) {
	var limit unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Cur, limit.Max, err
}
