package child

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/protocol"
)

// fdReserve is how many file descriptors starts leave to the rest of the program.
const fdReserve = 64

var defaultSize = protocol.Size{Rows: 24, Cols: 80}

// ends are the two sides of a child's standard streams. Our side does not block and their side, the
// child's, does. All descriptors are closed on exec.
type ends struct {
	tty    *os.File // nil: the pipes below
	stdin  *os.File
	stdout *os.File
	stderr *os.File // nil: stderr goes to stdout

	theirs [3]uintptr // the child's 0, 1 and 2
	opened []int      // descriptors of theirs to close after the fork
}

func (h *Host) openEnds(spec *Spec) (e *ends, err error) {
	e = &ends{theirs: [3]uintptr{h.null.Fd()}}
	defer func() {
		if err != nil {
			e.closeTheirs()
			e.closeOurs()
			e = nil
		}
	}()
	if spec.TTY {
		err = e.openTTY(spec.Size)
	} else {
		err = e.openPipes(spec.Stdin, spec.Merge)
	}
	if err != nil {
		return e, err
	}
	// The kernel hands out the lowest free number: all lower numbers are in use.
	soft, _, err := trees.NoFile()
	if highest := uint64(e.highest()); err == nil && highest+fdReserve >= soft {
		err = fmt.Errorf("%w: RLIMIT_NOFILE is %d and all but %d file descriptors are in use: end some processes, or raise it", ErrLimit, soft, soft-highest)
	}
	return e, err
}

// openTTY opens a PTY and copies its master into a new file. The copy is needed because creack/pty
// leaves the master in blocking mode, where each Read holds a thread and Close does not end the
// Read. Nothing may call Fd or pty.Setsize on the new file: either call would switch the file back
// to blocking mode.
func (e *ends) openTTY(size protocol.Size) error {
	master, slave, err := pty.Open()
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: no more PTYs: kernel.pty.max%s", ErrLimit, ptyMax())
	}
	if err != nil {
		return trees.NoDescriptor(err)
	}
	defer master.Close()
	defer slave.Close()
	theirs, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return trees.NoDescriptor(err)
	}
	e.opened = []int{theirs}
	e.theirs = [3]uintptr{uintptr(theirs), uintptr(theirs), uintptr(theirs)}
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return trees.NoDescriptor(err)
	}
	if size.Rows == 0 {
		size.Rows = defaultSize.Rows
	}
	if size.Cols == 0 {
		size.Cols = defaultSize.Cols
	}
	if err := setSize(uintptr(fd), size); err != nil {
		unix.Close(fd)
		return err
	}
	e.tty, err = trees.OurFile(fd, "tty")
	return err
}

func (e *ends) openPipes(stdin, merge bool) (err error) {
	if stdin {
		if e.stdin, err = e.openPipe(0, "stdin"); err != nil {
			return err
		}
	}
	if e.stdout, err = e.openPipe(1, "stdout"); err != nil {
		return err
	}
	if merge {
		e.theirs[2] = e.theirs[1]
		return nil
	}
	e.stderr, err = e.openPipe(2, "stderr")
	return err
}

// openPipe opens a pipe. The child's end becomes the child's descriptor n; the result is our end.
func (e *ends) openPipe(n int, name string) (*os.File, error) {
	r, w, err := pipe()
	if err != nil {
		return nil, trees.NoDescriptor(err)
	}
	ours, theirs := r, w
	if n == 0 {
		ours, theirs = w, r
	}
	e.opened = append(e.opened, theirs)
	e.theirs[n] = uintptr(theirs)
	return trees.OurFile(ours, name)
}

func (e *ends) highest() uintptr {
	top := max(e.theirs[0], e.theirs[1], e.theirs[2])
	for _, f := range []*os.File{e.tty, e.stdin, e.stdout, e.stderr} {
		if f != nil {
			nonblock.Control(f, func(fd uintptr) { top = max(top, fd) })
		}
	}
	return top
}

func (e *ends) closeTheirs() {
	for _, fd := range e.opened {
		unix.Close(fd)
	}
	e.opened = nil
}

func (e *ends) closeOurs() {
	for _, f := range []*os.File{e.tty, e.stdin, e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

func setSize(fd uintptr, size protocol.Size) error {
	return unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// RaiseNoFile raises this program's soft limit of open files to the hard limit, and returns both
// limits. Only a program may call RaiseNoFile, not a Host, because the limit is global.
func RaiseNoFile() (soft, hard uint64, err error) {
	soft, hard, err = trees.NoFile()
	if err != nil || soft == hard {
		return soft, hard, err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: hard, Max: hard}); err != nil {
		return soft, hard, fmt.Errorf("RLIMIT_NOFILE: %w", err)
	}
	return trees.NoFile()
}
