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
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// forker forks on a thread of its own. No other goroutine runs on the thread, and the thread ends
// with close. When the thread ends, the kernel kills the children forked on it (PR_SET_PDEATHSIG);
// so children die with a killed server.
//
// A fork copies the table of open files, and the exec closes the copies. With 6,000 children, and
// so 18,000 files, a start takes 4.3 ms, and 1.4 ms with a small table (docs/decisions/0009). So the thread has a
// small table of its own, if the system permits a separate table (unshare(2), CLONE_FILES). Only the steps of a fork may run on the
// thread: other threads cannot use a file opened there.
type forker struct {
	calls    chan func()   // unbuffered, like the other channels: the caller waits
	returned chan struct{} // a call has returned
	ready    chan error    // nil, or the reason why the thread has no table of its own

	self int // pidfd of this program, in the thread's own table; -1: there is no own table

	tid int // of the thread
}

// newForker starts the thread. The runtime's poller must be in use already.
func newForker() (*forker, error) {
	f := &forker{calls: make(chan func()), returned: make(chan struct{}), ready: make(chan error)}
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

// close ends the thread, and so the children forked on it. No call may be running.
func (f *forker) close() { close(f.calls) }

func (f *forker) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread never ends, and all other threads share its table.
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
	dropAmbient()
	err := f.ownTable()
	if err != nil {
		f.self = -1
	}
	f.ready <- err
	for call := range f.calls {
		call()
		f.returned <- struct{}{}
	}
}

// ownTable gives the thread a table of open files with the necessary files only: the epoll and
// event descriptors of the runtime, which the runtime may use on any thread; the error output, for
// a crash; and self.
func (f *forker) ownTable() error {
	if f.self < 0 {
		return errors.ErrUnsupported
	}
	null, err := unix.PidfdGetfd(f.self, 2, 0) // tests whether the system permits pidfd_getfd
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
// told from others.
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

// fork starts a child that dies with the thread, and waits for its exec. fork does not set limits enforced by the cgroup.
func (f *forker) fork(path string, argv []string, attr *syscall.ProcAttr, spec *Spec, m mark) (pid int, err error) {
	f.call(attr, spec, &err, func() { pid, err = forkHere(path, argv, attr, spec, m) })
	if err != nil {
		return 0, stepError(err, spec)
	}
	if err := scoreLate(pid, spec); err != nil {
		kill(pid)
		return 0, err
	}
	return pid, nil
}

// forkHere is fork on the thread of the caller.
func forkHere(path string, argv []string, attr *syscall.ProcAttr, spec *Spec, m mark) (pid int, err error) {
	a, err := attrOf(path, argv, attr, spec, m)
	if err != nil {
		return 0, err
	}
	return fork.Start(a)
}

// begin is fork for a child that may hang before its exec, or that gets another user. begin does not wait for the exec; the pipe
// status reports the result, as of fork.Begin.
func (f *forker) begin(path string, argv []string, attr *syscall.ProcAttr, status int, spec *Spec, m mark) (pid int, err error) {
	files := attr.Files
	attr.Files = append(slices.Clone(files), uintptr(status))
	f.call(attr, spec, &err, func() {
		status := int(attr.Files[len(files)])
		attr.Files = attr.Files[:len(files)]
		var a *fork.Attr
		if a, err = attrOf(path, argv, attr, spec, m); err == nil {
			pid, err = fork.Begin(a, status)
		}
	})
	return pid, err
}

// attrOf is how a child without a sandbox is forked on this thread.
func attrOf(path string, argv []string, attr *syscall.ProcAttr, spec *Spec, m mark) (*fork.Attr, error) {
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask); err != nil {
		return nil, err
	}
	a := &fork.Attr{
		Path: path, Dir: attr.Dir, Argv: argv, Env: attr.Env, Files: attr.Files,
		Session: attr.Sys.Setsid, Terminal: attr.Sys.Setctty, DeathSignal: attr.Sys.Pdeathsig == syscall.SIGKILL,
		Umask: -1, NoNewPrivs: spec.NoNewPrivs, Nice: spec.Limits.Nice, Blocked: uint64(mask.Val[0]),
	}
	if attr.Sys.UseCgroupFD {
		a.Cgroup = attr.Sys.CgroupFD
	}
	if spec.Umask != nil {
		a.Umask = int(*spec.Umask)
	}
	if u := spec.User; u != nil {
		a.User = &fork.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	if scoresItself(spec) {
		a.OOMScoreAdj = spec.Limits.OOMScoreAdj
	}
	if nofile := noFileOfChildren(); nofile != nil && spec.Limits.NoFile == nil {
		a.Limits = append(a.Limits, fork.Limit{Resource: unix.RLIMIT_NOFILE, Limit: *nofile})
	}
	a.Limits = append(a.Limits, m.limits...)
	limits, err := limitsOf(spec)
	a.Limits = append(a.Limits, limits...)
	return a, err
}

// noFileOfChildren returns the RLIMIT_NOFILE that this program was started with; nil: unknown. Package syscall raises it for this
// program, and gives the old one to children of syscall.ForkExec alone. So one such child is asked, and killed at once.
var noFileOfChildren = sync.OnceValue(func() *unix.Rlimit {
	attr := &syscall.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{jail.Name}, attr) // a jail without a plan does nothing
	if err != nil {
		return nil
	}
	defer kill(pid)
	has := new(unix.Rlimit)
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, has) != nil {
		return nil
	}
	return has
})

// call runs fork on the thread, with the files in attr and the open directory in spec replaced by the thread's own.
func (f *forker) call(attr *syscall.ProcAttr, spec *Spec, err *error, fork func()) {
	attr.Sys.Pdeathsig = syscall.SIGKILL
	f.onThread(err, func() {
		var borrowed []int
		files := len(attr.Files)
		if spec.dir != nil {
			attr.Files = append(slices.Clone(attr.Files), spec.dir.Fd())
		}
		borrowed, *err = f.borrow(attr)
		if spec.dir != nil && *err == nil { // the path is resolved in the child, which has a copy of the table
			attr.Dir = fmt.Sprintf("/proc/self/fd/%d", attr.Files[files])
			attr.Files = attr.Files[:files]
		}
		if *err == nil {
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
			if r := recover(); r != nil { // a panic would end the thread, and so its children
				*err = fmt.Errorf("%w in a fork: %v", errInternal, r)
			}
		}()
		call()
	}
	<-f.returned
}

// borrow replaces the files in attr by the thread's own descriptors for the same files, and returns
// these descriptors.
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
