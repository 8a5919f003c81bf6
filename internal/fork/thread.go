//go:build linux

package fork

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Thread is a thread on which no other goroutine runs, with a table of open files of its own. When the thread ends, the kernel kills
// the processes forked on it with Attr.DeathSignal; so processes die with a killed program.
//
// A fork copies the table of open files, and the exec closes the copies. With 6,000 processes, and
// so 18,000 files, a start takes 4.3 ms, and 1.4 ms with a small table (docs/decisions/0012). So the thread has a
// small table of its own, if the system permits a separate table (unshare(2), CLONE_FILES). Only the steps of a fork may run on the
// thread: other threads cannot use a file opened there.
type Thread struct {
	ID      int    // the kernel's number of the thread
	Blocked uint64 // the signals that the thread blocks, as Attr.Blocked

	calls    chan func()   // unbuffered, like the other channels: the caller waits
	returned chan struct{} // a call has returned
	ready    chan error    // nil, or the reason why the thread has no table of its own

	self int // pidfd of this program, in the thread's own table; -1: there is no own table
}

// NewThread starts a thread. The runtime's poller must be in use already. With an error, the thread works, and shares the program's
// table of open files.
func NewThread() (*Thread, error) {
	t := &Thread{calls: make(chan func()), returned: make(chan struct{}), ready: make(chan error)}
	var err error
	if t.self, err = unix.PidfdOpen(os.Getpid(), 0); err != nil {
		t.self = -1
		err = fmt.Errorf("pidfd_open: %w", err)
	}
	ours := t.self
	go t.run()
	if tableErr := <-t.ready; err == nil {
		err = tableErr
		unix.Close(ours)
	}
	return t, err
}

// Close ends the thread, and so the processes forked on it. No call may be running.
func (t *Thread) Close() { close(t.calls) }

func (t *Thread) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread never ends, and all other threads share its table.
		defer runtime.UnlockOSThread()
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			t.serve()
		}()
		<-started
		return
	}
	t.serve()
}

func (t *Thread) serve() {
	t.ID = unix.Gettid()
	var mask unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask) // fails for bad arguments only
	t.Blocked = uint64(mask.Val[0])
	err := t.ownTable()
	if err != nil {
		t.self = -1
	}
	t.ready <- err
	for call := range t.calls {
		call()
		t.returned <- struct{}{}
	}
}

// ownTable gives the thread a table of open files with the necessary files only: the epoll and
// event descriptors of the runtime, which the runtime may use on any thread; the error output, for
// a crash; and self.
func (t *Thread) ownTable() error {
	if t.self < 0 {
		return errors.ErrUnsupported
	}
	null, err := unix.PidfdGetfd(t.self, 2, 0) // tests whether the system permits pidfd_getfd
	if err != nil {
		return fmt.Errorf("pidfd_getfd: %w", err)
	}
	unix.Close(null)
	keep, err := pollers()
	if err != nil {
		return err
	}
	keep = append(keep, 0, 1, 2, t.self)
	slices.Sort(keep)
	// Descriptors above keep are not even copied.
	if err := unix.CloseRange(uint(keep[len(keep)-1]+1), math.MaxInt32, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	for i, fd := range keep[1:] {
		if first := keep[i] + 1; first < fd {
			unix.CloseRange(uint(first), uint(fd-1), 0) // fails for bad arguments only
		}
	}
	// A copy of the server's input or output would delay their end for whoever waits for it.
	if null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		unix.Dup3(null, 0, unix.O_CLOEXEC)
		unix.Dup3(null, 1, unix.O_CLOEXEC)
		unix.Close(null)
	}
	return nil
}

// pollers returns the descriptors of all epoll sets and event counters. The runtime's cannot be
// told from others. Most descriptors of a server with many programs are pipes and terminals, whose names would take long.
func pollers() (fds []int, err error) {
	const dir = "/proc/self/fd/"
	open, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	names, err := open.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var st unix.Stat_t
		fd, err := strconv.Atoi(name)
		if err != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != 0 {
			continue
		}
		if kind, _ := os.Readlink(dir + name); kind == "anon_inode:[eventpoll]" || strings.HasPrefix(kind, "anon_inode:[eventfd") {
			fds = append(fds, fd)
		}
	}
	if len(fds) < 2 {
		return nil, fmt.Errorf("%s has not the runtime's poller", dir)
	}
	return fds, nil
}

// ErrPanic means: a call on a thread has panicked.
var ErrPanic = errors.New("fork: internal error")

// Do runs call on the thread. A panic of call is an ErrPanic: it would end the thread, and so the processes forked there.
func (t *Thread) Do(call func() error) (err error) {
	t.calls <- func() {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: %v", ErrPanic, r)
			}
		}()
		err = call()
	}
	<-t.returned
	return err
}

// Start is the function Start on the thread. The descriptors in a are those of the program.
func (t *Thread) Start(a *Attr) (pid int, err error) {
	return t.fork(a, 0, func(a *Attr, _ int) (int, error) { return Start(a) })
}

// Begin is the function Begin on the thread. The descriptors in a and status are those of the program.
func (t *Thread) Begin(a *Attr, status int) (pid int, err error) { return t.fork(a, status, Begin) }

func (t *Thread) fork(a *Attr, status int, start func(*Attr, int) (int, error)) (pid int, err error) {
	err = t.Do(func() error {
		own, ownStatus, borrowed, err := t.borrow(a, status)
		if err == nil {
			pid, err = start(own, ownStatus)
		}
		for _, fd := range borrowed {
			unix.Close(fd)
		}
		return err
	})
	return pid, err
}

// borrow replaces the descriptors in a, and status, by the thread's own for the same files, and lists these.
func (t *Thread) borrow(a *Attr, status int) (own *Attr, ownStatus int, borrowed []int, err error) {
	if t.self < 0 {
		return a, status, nil, nil
	}
	get := func(fd int) int {
		got, getErr := unix.PidfdGetfd(t.self, fd, 0)
		if getErr != nil {
			err = fmt.Errorf("pidfd_getfd: %w", getErr)
			return -1
		}
		borrowed = append(borrowed, got)
		return got
	}
	own = new(*a)
	own.Files = slices.Clone(a.Files)
	for i, fd := range own.Files { // first: see Attr.Binary
		own.Files[i] = uintptr(get(int(fd)))
	}
	for _, optional := range []*int{&own.Binary, &own.Cgroup, &own.DirFile, &status} {
		if *optional > 0 {
			*optional = get(*optional)
		}
	}
	return own, status, borrowed, err
}
