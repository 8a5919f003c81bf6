//go:build linux

package fork

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Desk starts processes with Attr.Parent on the thread of any caller: such processes do not die with a thread of this program. A single
// goroutine at a time uses a desk.
//
// A fork copies the table of open files. So a desk reserves low descriptors. A process of Start shares the table of this program, and
// begins with a copy of its low part: the cost does not grow with the number of files.
type Desk struct {
	Blocked uint64 // as Thread.Blocked

	null int   // /dev/null, which the low descriptors are between two starts
	low  []int // ascending; empty: each start copies the table
}

// deskFiles is how many descriptors a start has at most: Attr.Files, Attr.Binary and Attr.DirFile.
const deskFiles = 6

// NewDesk makes a desk. With an error, the desk works, and each start copies the table of open files.
func NewDesk() (*Desk, error) {
	d := &Desk{null: -1}
	runtime.LockOSThread()
	var mask unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask) // fails for bad arguments only
	runtime.UnlockOSThread()
	d.Blocked = uint64(mask.Val[0])
	if err := canLeave(); err != nil {
		return d, err
	}
	var err error
	if d.null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return d, err
	}
	for range deskFiles {
		fd, err := unix.FcntlInt(uintptr(d.null), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			d.Close()
			return d, err
		}
		d.low = append(d.low, fd)
	}
	slices.Sort(d.low)
	return d, nil
}

// canLeave returns why a process may not leave a shared table of open files (close_range(2), CLOSE_RANGE_UNSHARE). A range that ends before it begins is
// refused after the flags were checked, and nothing is copied.
func canLeave() error {
	if err := unix.CloseRange(1, 0, unix.CLOSE_RANGE_UNSHARE); err != unix.EINVAL {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}

// Close gives the descriptors back.
func (d *Desk) Close() {
	for _, fd := range append(d.low, d.null) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	d.low, d.null = nil, -1
}

// Start is the function Start. a has a Parent.
func (d *Desk) Start(a *Attr) (pid int, err error) {
	if !sharing || len(d.low) == 0 || len(a.Files) > deskFiles-2 {
		return Start(a)
	}
	own := new(*a)
	own.Files = slices.Clone(a.Files)
	lent := 0
	lend := func(fd int) int {
		if err == nil {
			err = unix.Dup3(fd, d.low[lent], unix.O_CLOEXEC)
		}
		lent++
		return d.low[lent-1]
	}
	for i, fd := range own.Files { // first: see Attr.Binary
		own.Files[i] = uintptr(lend(int(fd)))
	}
	for _, optional := range []*int{&own.Binary, &own.DirFile} {
		if *optional > 0 {
			*optional = lend(*optional)
		}
	}
	own.leaves = max(d.low[len(d.low)-1], 2) + 1
	if err == nil {
		pid, err = Start(own)
	}
	for _, fd := range d.low[:lent] {
		unix.Dup3(d.null, fd, unix.O_CLOEXEC)
	}
	return pid, err
}

// Begin is the function Begin: the process has a copy of the table of open files, because it may still need the low descriptors when Begin returns.
func (d *Desk) Begin(a *Attr, status int) (pid int, err error) { return Begin(a, status) }
