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

	"github.com/b6f6fdd7/troupe/protocol"
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

// fork starts a child that dies with this thread. exit is its pidfd. Limits of its
// cgroup are not set here.
func fork(path string, argv []string, attr *syscall.ProcAttr, limits protocol.ProcessLimits) (pid int, exit *os.File, err error) {
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	attr.Sys.Pdeathsig = syscall.SIGKILL
	var mask unix.Sigset_t
	if attr.Sys.Ptrace = ofProcess(limits); attr.Sys.Ptrace {
		pid, mask, err = forkStopped(path, argv, attr)
	} else {
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	if err != nil {
		return 0, nil, err
	}
	if pidfd < 0 {
		err = errors.New("the kernel gives no pidfd (it does since Linux 5.4)")
	} else {
		exit, err = ourFile(pidfd, "pidfd")
	}
	if err == nil && attr.Sys.Ptrace {
		if err = confine(pid, &mask, limits); err != nil {
			exit.Close()
		}
	}
	if err != nil {
		var ws syscall.WaitStatus
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, &ws, 0, nil)
		if errors.Is(err, unix.ESRCH) {
			err = fmt.Errorf("%w: the process was ended by %s before they were set: perhaps ptrace(2), which sets them, is forbidden here", ErrLimitRefused, unix.SignalName(ws.Signal()))
		}
		return 0, nil, err
	}
	return pid, exit, nil
}

// awaitExit waits until the child has exited and sets status. It parks in the
// poller, where wait(2) would hold a thread for each child.
func (p *process) awaitExit() {
	conn, _ := p.exit.SyscallConn() // fails for a nil file only
	conn.Read(p.tryWait)            // fails when the file is closed: it had succeeded then
	p.exit.Close()
}

// tryWait reports whether the child has exited, and then sets status.
func (p *process) tryWait(fd uintptr) bool {
	return readable(fd) && p.takeStatus(fd, p.tree.oomKilled())
}

// takeStatus reaps the child, if its pid may go, under the lock: Signal must not
// reach a pid that was reaped.
//
//go:noinline // its frame is not to be on the stack of a parked waiter
func (p *process) takeStatus(fd uintptr, oomKilled bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return true
	}
	options := unix.WEXITED | unix.WNOHANG
	if p.tree.pins() {
		options |= unix.WNOWAIT
	}
	info, usage, err := waitid(unix.P_PIDFD, int(fd), options)
	switch {
	case errors.Is(err, unix.ECHILD):
		p.status = &protocol.ExitStatus{ExitCode: -1, Reason: "exit status unknown: another wait in the server took it"}
	case err != nil || info.pid == 0:
		return false
	case info.code == cldExited:
		p.status = exitStatus(int(info.status), 0, false, &usage)
	default:
		sig := syscall.Signal(info.status)
		p.status = exitStatus(0, sig, info.code == cldDumped, &usage)
		p.status.OOMKilled = oomKilled && sig == syscall.SIGKILL
	}
	return true
}

func (p *process) Stopped() (stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return false
	}
	control(p.exit, func(fd uintptr) {
		info, _, err := waitid(unix.P_PIDFD, int(fd), unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT)
		stopped = err == nil && info.pid != 0
	})
	return stopped
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
