package child

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ending is how a process has ended, as wait found it.
type ending struct {
	pid    int // 0: the process has not ended
	status syscall.WaitStatus
	usage  unix.Rusage
}

// wait is the only wait for processes of this program but that of package fork for a process that has executed nothing. kind, id and options are
// those of waitid(2). With WNOWAIT the process stays a zombie.
func wait(kind, id, options int) (e ending, err error) {
	var info childInfo
	for {
		err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options, &e.usage)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	e.pid = int(info.pid)
	switch status := syscall.WaitStatus(info.status); info.code {
	case cldExited:
		e.status = status << 8
	case cldDumped:
		e.status = status | 0x80
	default:
		e.status = status
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
