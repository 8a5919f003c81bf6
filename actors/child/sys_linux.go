package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	fionread   = unix.TIOCINQ
	getTermios = unix.TCGETS
	maxRSSUnit = 1 << 10 // ru_maxrss is in KiB
)

func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], err
}

// SealFiles keeps the files that this program was started with, but 0 to 2, from
// all that it starts. A Host never does: it is global. What a Host opens itself
// no child gets.
func SealFiles() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}

// growPipe lets a pipe hold more, if the user's share of pipe pages allows it.
func growPipe(fd uintptr, size int) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) }

// ptyMax is " is N" for the limit of PTYs, where it can be read.
func ptyMax() string {
	limit, err := os.ReadFile("/proc/sys/kernel/pty/max")
	if err != nil {
		return ""
	}
	return " is " + strings.TrimSpace(string(limit))
}

// takeStatus sets status, if the child has exited, and reports whether. It reaps the
// child, if its pid may go, under the lock: Signal must not reach a pid that was
// reaped.
func (p *process) takeStatus() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return true
	}
	options := unix.WEXITED | unix.WNOHANG
	if p.tree.pins() {
		options |= unix.WNOWAIT
	}
	info, usage, err := p.waitid(options)
	switch {
	case errors.Is(err, unix.ECHILD):
		p.status = lostStatus()
	case err != nil || info.pid == 0:
		return false
	case info.code == cldExited:
		p.status = exitStatus(int(info.status), 0, false, &usage)
	default:
		sig := syscall.Signal(info.status)
		p.status = exitStatus(0, sig, info.code == cldDumped, &usage)
		p.status.OOMKilled = sig == syscall.SIGKILL && p.tree.oomKilled()
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd) // which takes it out of the set, too
		p.pidfd = -1
	}
	return true
}

// waitid asks for a child that was not yet reaped. It holds the lock: then the pid is ours, too.
func (p *process) waitid(options int) (childInfo, unix.Rusage, error) {
	if p.pidfd < 0 {
		return waitid(unix.P_PID, p.pid, options)
	}
	return waitid(unix.P_PIDFD, p.pidfd, options)
}

func (p *process) Stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return false
	}
	info, _, err := p.waitid(unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT)
	return err == nil && info.pid != 0
}

// Values of si_code. (sigaction(2))
const (
	cldExited = 1
	cldDumped = 3
)

// childInfo is siginfo_t as waitid(2) fills it.
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte // a union of pointers follows
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

func waitid(kind, id, options int) (info childInfo, usage unix.Rusage, err error) {
	for {
		err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options, &usage)
		if !errors.Is(err, unix.EINTR) {
			return info, usage, err
		}
	}
}

// reap takes a child that has exited out of the process table.
func reap(pid int) { waitid(unix.P_PID, pid, unix.WEXITED|unix.WNOHANG) }
