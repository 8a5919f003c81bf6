package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// forker forks on a thread of its own, which is locked and ends with close: the kernel
// kills a child with the thread that forked it (PR_SET_PDEATHSIG), which is how children
// die with a server that was killed.
//
// A fork copies the table of open files, and the exec closes what was copied: with 6,000
// children, and so 18,000 files, both take 1.6 ms. So the thread has a table of its own,
// with next to nothing in it, where the system permits that (unshare(2), CLONE_FILES).
// Nothing but what fork does may run on it: a file that it opens nobody else has.
type forker struct {
	calls chan func()   // unbuffered, as are all: who calls waits
	made  chan struct{} // a call was
	ready chan error    // why the table is not the thread's own

	self int // in the thread's own table a pidfd of this program; -1: there is none

	tid int // of the thread

	// Owned by the thread.
	mask unix.Sigset_t // its signals
}

// noFileOfChildren is the RLIMIT_NOFILE that syscall.ForkExec gives a child, which may be another
// than ours; nil: it has made none yet.
var noFileOfChildren atomic.Pointer[unix.Rlimit]

// newForker starts the thread. The poller of the runtime is in use already.
func newForker() (*forker, error) {
	f := &forker{calls: make(chan func()), made: make(chan struct{}), ready: make(chan error)}
	var err error
	if f.self, err = unix.PidfdOpen(os.Getpid(), 0); err != nil {
		f.self = -1
		err = fmt.Errorf("pidfd_open: %w", err)
	}
	ours := f.self
	go f.run()
	if tableErr := <-f.ready; err == nil {
		err = tableErr
		unix.Close(ours)
	}
	return f, err
}

// close ends the thread, and so the children that it forked. No call is on its way.
func (f *forker) close() { close(f.calls) }

func (f *forker) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread never ends, and its table is what all others see.
		defer runtime.UnlockOSThread()
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			f.serve()
		}()
		<-started
		return
	}
	f.serve()
}

func (f *forker) serve() {
	f.tid = unix.Gettid()
	err := f.ownTable()
	if err != nil {
		f.self = -1
	}
	f.ready <- err
	for call := range f.calls {
		call()
		f.made <- struct{}{}
	}
}

// ownTable gives the thread a table of open files with what it needs: the files by which
// the runtime waits for others and is woken, which it may do on any thread, the error
// output, for a crash, and self.
func (f *forker) ownTable() error {
	if f.self < 0 {
		return errors.ErrUnsupported
	}
	null, err := unix.PidfdGetfd(f.self, 2, 0) // whether that is permitted
	if err != nil {
		return fmt.Errorf("pidfd_getfd: %w", err)
	}
	unix.Close(null)
	keep, err := pollers()
	if err != nil {
		return err
	}
	keep = append(keep, 0, 1, 2, f.self)
	slices.Sort(keep)
	// What is above goes first: then it is not copied.
	if err := unix.CloseRange(uint(keep[len(keep)-1]+1), math.MaxInt32, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	for i, fd := range keep[1:] {
		if first := keep[i] + 1; first < fd {
			unix.CloseRange(uint(first), uint(fd-1), 0) // fails for bad arguments only
		}
	}
	// Who waits for the end of the server's input or output is not to wait for us.
	if null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		unix.Dup3(null, 0, unix.O_CLOEXEC)
		unix.Dup3(null, 1, unix.O_CLOEXEC)
		unix.Close(null)
	}
	return nil
}

// pollers are the descriptors of all epoll sets and event counters: what the runtime
// has of them cannot be told from others.
func pollers() (fds []int, err error) {
	const dir = "/proc/self/fd/"
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		kind, _ := os.Readlink(dir + name.Name())
		if fd, err := strconv.Atoi(name.Name()); err == nil && (kind == "anon_inode:[eventpoll]" || strings.HasPrefix(kind, "anon_inode:[eventfd")) {
			fds = append(fds, fd)
		}
	}
	if len(fds) < 2 {
		return nil, fmt.Errorf("%s has not the runtime's poller", dir)
	}
	return fds, nil
}

// fork starts a child that dies with the thread. Limits of its cgroup are not set here.
func (f *forker) fork(path string, argv []string, attr *syscall.ProcAttr, limits protocol.ProcessLimits, m mark) (pid int, err error) {
	f.call(attr, &err, func() {
		if pid, err = forkHere(path, argv, attr, limits, m); err == nil && noFileOfChildren.Load() == nil && limits.NoFile == nil {
			var has unix.Rlimit
			if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &has) == nil {
				noFileOfChildren.Store(&has)
			}
		}
	})
	return pid, err
}

// forkApart is fork for a child that may hang before it executes its program. It does not wait
// for that: status tells. If there are limits that are not of a cgroup, the child stops then,
// and confine lets it go on.
func (f *forker) forkApart(path string, argv []string, attr *syscall.ProcAttr, status int, limits protocol.ProcessLimits, m mark) (pid int, err error) {
	files := attr.Files
	attr.Files = append(slices.Clone(files), uintptr(status))
	f.call(attr, &err, func() {
		status := int(attr.Files[len(files)])
		attr.Files = attr.Files[:len(files)]
		fork := func() (int, error) { return forkApart(path, argv, attr, status, noFileOfChildren.Load()) }
		if !ofProcess(limits) {
			pid, err = m.fork(fork)
			return
		}
		attr.Sys.Ptrace = true
		pid, f.mask, err = withSignalsBlocked(func() (int, error) { return m.fork(fork) })
	})
	return pid, err
}

// confine lets a child of forkApart go on, with limits.
func (f *forker) confine(pid int, limits protocol.ProcessLimits) (err error) {
	f.onThread(&err, func() { err = confine(pid, &f.mask, limits) })
	return err
}

// call runs what forks on the thread, where attr has the thread's own files.
func (f *forker) call(attr *syscall.ProcAttr, err *error, fork func()) {
	attr.Sys.Pdeathsig = syscall.SIGKILL
	f.onThread(err, func() {
		var borrowed []int
		if borrowed, *err = f.borrow(attr); *err == nil {
			fork()
		}
		for _, fd := range borrowed {
			unix.Close(fd)
		}
	})
}

// onThread runs call on the thread.
func (f *forker) onThread(err *error, call func()) {
	f.calls <- func() {
		defer func() {
			if r := recover(); r != nil { // with the thread would die the children that it forked
				*err = fmt.Errorf("child: internal error in a fork: %v", r)
			}
		}()
		call()
	}
	<-f.made
}

// borrow replaces the files in attr by the thread's own descriptors of them. It returns those.
func (f *forker) borrow(attr *syscall.ProcAttr) (borrowed []int, err error) {
	if f.self < 0 {
		return nil, nil
	}
	get := func(fd int) int {
		own, getErr := unix.PidfdGetfd(f.self, fd, 0)
		if getErr != nil {
			err = fmt.Errorf("pidfd_getfd: %w", getErr)
			return -1
		}
		borrowed = append(borrowed, own)
		return own
	}
	files := make([]uintptr, len(attr.Files))
	for i, fd := range attr.Files {
		files[i] = uintptr(get(int(fd)))
	}
	attr.Files = files
	if attr.Sys.UseCgroupFD {
		attr.Sys.CgroupFD = get(attr.Sys.CgroupFD)
	}
	return borrowed, err
}

func forkHere(path string, argv []string, attr *syscall.ProcAttr, limits protocol.ProcessLimits, m mark) (pid int, err error) {
	if !ofProcess(limits) {
		return m.fork(func() (int, error) { return syscall.ForkExec(path, argv, attr) })
	}
	attr.Sys.Ptrace = true
	pid, mask, err := forkStopped(path, argv, attr, m)
	if err != nil {
		return 0, err
	}
	if !awaitStop(pid) {
		err = unix.ESRCH
	} else if err = confine(pid, &mask, limits); err == nil {
		return pid, nil
	}
	if ws := kill(pid); errors.Is(err, unix.ESRCH) {
		err = fmt.Errorf("%w: the process was ended by %s before they were set: perhaps ptrace(2), which sets them, is forbidden here", ErrLimitRefused, unix.SignalName(ws.Signal()))
	}
	return 0, err
}
