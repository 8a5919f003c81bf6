package trees

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const maxRSSUnit = 1 << 10 // ru_maxrss is in KiB

// ending is how a process has ended, as wait found it.
type ending struct {
	pid int // 0: the process has not ended
	Ending
}

// wait is the only wait for processes of this program but that of package fork for a process that has executed nothing. kind, id and options are
// those of waitid(2). With WNOWAIT the process stays a zombie.
func wait(kind, id, options int) (e ending, err error) {
	var info childInfo
	for {
		err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options, &e.Usage)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	e.pid = int(info.pid)
	switch status := syscall.WaitStatus(info.status); info.code {
	case cldExited:
		e.Status = status << 8
	case cldDumped:
		e.Status = status | 0x80
	default:
		e.Status = status
	}
	return e, err
}

// Values of si_code. (sigaction(2))
const (
	cldExited = 1
	cldDumped = 3
)

// childInfo is siginfo_t as filled by waitid(2).
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte // a union of pointers follows
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// reap removes an exited child from the process table.
func reap(pid int) { wait(unix.P_PID, pid, unix.WEXITED|unix.WNOHANG) }

// Wait reports whether the child has exited, and sets status then. If the tree does not pin
// the pid, Wait also reaps the child. It holds the lock, so Signal cannot reach a reaped pid.
func (t *Tree) Wait() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != nil {
		return true
	}
	options := unix.WEXITED | unix.WNOHANG
	if t.tree.pins() {
		options |= unix.WNOWAIT
	}
	e, err := t.ask(options)
	lost := errors.Is(err, unix.ECHILD)
	if !lost && (err != nil || e.pid == 0) {
		return false
	}
	if t.Ending != nil {
		if told, ok := t.Ending(); ok {
			lost, e.Ending = false, told
		}
	}
	if t.status = exitStatus(e.Ending); lost {
		t.status = lostStatus()
	}
	t.status.OOMKilled = e.Status.Signaled() && e.Status.Signal() == syscall.SIGKILL && t.tree.oomKilled()
	if t.pidfd >= 0 {
		unix.Close(t.pidfd) // also removes the pidfd from the epoll set
		t.pidfd = -1
	}
	return true
}

// ask asks for the state of the unreaped child. The caller holds the lock, so the pid still
// belongs to the child.
func (t *Tree) ask(options int) (ending, error) {
	if t.pidfd < 0 {
		return wait(unix.P_PID, t.pid, options)
	}
	return wait(unix.P_PIDFD, t.pidfd, options)
}

// Stopped reports whether a signal has stopped the child, and none has continued it since.
func (t *Tree) Stopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != nil {
		return false
	}
	e, err := t.ask(unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT)
	return err == nil && e.pid != 0
}

// End kills a child that has no tree, waits for its end, and returns how it has ended.
func End(pid int) syscall.WaitStatus {
	syscall.Kill(pid, syscall.SIGKILL)
	e, _ := wait(unix.P_PID, pid, unix.WEXITED)
	return e.Status
}
