package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"

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
	e, err := p.ask(options)
	lost := errors.Is(err, unix.ECHILD)
	if !lost && (err != nil || e.pid == 0) {
		return false
	}
	if p.jail != nil {
		if told := exitOfJail(p.jail); told != nil {
			lost, e.status, e.usage = false, syscall.WaitStatus(told.Status), *usageOf(told)
		}
		p.jail = nil
	}
	if p.status = exitStatus(e.status, &e.usage); lost {
		p.status = lostStatus()
	}
	p.status.OOMKilled = e.status.Signaled() && e.status.Signal() == syscall.SIGKILL && p.tree.oomKilled()
	if p.pidfd >= 0 {
		unix.Close(p.pidfd) // also removes the pidfd from the epoll set
		p.pidfd = -1
	}
	return true
}

// ask asks for the state of the unreaped child. The caller holds the lock, so the pid still
// belongs to the child.
func (p *process) ask(options int) (ending, error) {
	if p.pidfd < 0 {
		return wait(unix.P_PID, p.pid, options)
	}
	return wait(unix.P_PIDFD, p.pidfd, options)
}

func (p *process) Stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return false
	}
	e, err := p.ask(unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT)
	return err == nil && e.pid != 0
}
