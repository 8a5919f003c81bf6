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

// SealFiles prevents children from inheriting the files this program was started with, except 0 to
// 2. Only a program may call SealFiles, not a Host, because the effect is global. Children never
// inherit files opened by a Host.
func SealFiles() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}

// growPipe enlarges a pipe, if the user's share of pipe pages allows it.
func growPipe(fd uintptr, size int) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) }

// ptyMax is " is N" for the limit of PTYs, or "" if the limit is unreadable.
func ptyMax() string {
	limit, err := os.ReadFile("/proc/sys/kernel/pty/max")
	if err != nil {
		return ""
	}
	return " is " + strings.TrimSpace(string(limit))
}

// takeStatus reports whether the child has exited, and sets status then. If the tree does not pin
// the pid, takeStatus also reaps the child. It holds the lock, so Signal cannot reach a reaped pid.
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
	if p.jail != nil {
		if exit := p.jail.exit(); exit != nil {
			ws := syscall.WaitStatus(exit.Status)
			if ws.Signaled() {
				p.status = exitStatus(0, ws.Signal(), ws.CoreDump(), usageOf(exit))
				p.status.OOMKilled = ws.Signal() == syscall.SIGKILL && p.tree.oomKilled()
			} else {
				p.status = exitStatus(ws.ExitStatus(), 0, false, usageOf(exit))
			}
		}
		p.jail = nil
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd) // also removes the pidfd from the epoll set
		p.pidfd = -1
	}
	return true
}

// waitid asks for the state of the unreaped child. The caller holds the lock, so the pid still
// belongs to the child.
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

// childInfo is siginfo_t as filled by waitid(2).
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

// reap removes an exited child from the process table.
func reap(pid int) { waitid(unix.P_PID, pid, unix.WEXITED|unix.WNOHANG) }
