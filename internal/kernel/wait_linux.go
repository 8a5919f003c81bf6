package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wait is waitid(2), with the status in the form of wait(2). pid is 0 if WNOHANG is set, and no child is as options say.
func Wait(kind, id, options int) (pid int, status syscall.WaitStatus, usage unix.Rusage, err error) {
	var info childInfo
	Retry(func() (int, error) {
		err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options, &usage)
		return 0, err
	})
	status = syscall.WaitStatus(info.status)
	switch info.code {
	case cldExited:
		status <<= 8
	case cldDumped:
		status |= 0x80
	}
	return int(info.pid), status, usage, err
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
