package trees

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
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
	e.pid, e.Status, e.Usage, err = kernel.Wait(kind, id, options)
	return e, err
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
	e, err := t.end()
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
	t.closePidfd()
	return true
}

// end asks how the unreaped child has ended, and reaps it unless the tree pins its pid. The error ECHILD means: somebody else has reaped it,
// or the holder is gone. The caller holds the lock.
func (t *Tree) end() (e ending, err error) {
	if t.holder == nil {
		options := unix.WEXITED | unix.WNOHANG
		if t.tree.pins() {
			options |= unix.WNOWAIT
		}
		return t.ask(options)
	}
	ask := t.holder.Reap
	if t.tree.pins() {
		ask = t.holder.Look
	}
	held, err := ask(t.name)
	switch {
	case err != nil:
		return e, unix.ECHILD
	case !held.Ended:
		if _, err := lookStat(t.pid); gone(err) { // a zombie has its files in /proc until somebody reaps it
			return e, unix.ECHILD
		}
		return e, nil
	}
	e.pid, e.Status = t.pid, held.Status
	e.Usage = unix.Rusage{Utime: unix.NsecToTimeval(held.User), Stime: unix.NsecToTimeval(held.System), Maxrss: held.MaxRSS / maxRSSUnit}
	return e, nil
}

// reap removes the exited child from the process table.
func (t *Tree) reap() {
	if t.holder == nil {
		reap(t.pid)
		return
	}
	t.holder.Reap(t.name) // fails at the end of the holder, and so of the child
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
	if t.holder != nil { // only a parent can wait
		s, err := lookStat(t.pid)
		return err == nil && s.halted
	}
	e, err := t.ask(unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT)
	return err == nil && e.pid != 0
}

// endHeld is End for a child of a holder.
func endHeld(h Holder, pid int) syscall.WaitStatus {
	syscall.Kill(pid, syscall.SIGKILL)
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	var pause Backoff
	for {
		if err == nil {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) // after EINTR, the holder says that the child runs
		} else {
			pause.Wait()
		}
		e, err := h.ReapOrphan(pid)
		if _, look := lookStat(pid); err != nil || e.Ended || gone(look) {
			return e.Status
		}
	}
}

// Executed reports whether the process has executed a program since its fork. A zombie still tells. ended: it has ended, and perhaps nobody knows it
// any more.
func Executed(pid int) (executed, ended bool) {
	s, err := lookStat(pid)
	return err == nil && !s.forked, err != nil || s.zombie
}

// End kills a child that has no tree, waits for its end, and returns how it has ended.
func End(pid int) syscall.WaitStatus {
	syscall.Kill(pid, syscall.SIGKILL)
	e, _ := wait(unix.P_PID, pid, unix.WEXITED)
	return e.Status
}
