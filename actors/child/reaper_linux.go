package child

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is the least time between two looks for strangers that have ended.
const reapEvery = time.Second

// startReaper reaps strangers: descendants of our children that lost their
// parent and were given to us. stop kills those that still run.
func (h *Host) startReaper() (stop func()) {
	subreaper := h.Containment() == ContainMarker // a cgroup needs none, a group gains nothing
	if subreaper {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			h.log.Warn("cannot become subreaper: descendants that lost marker and parent will not be found", "err", err)
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var again <-chan time.Time
		for {
			select {
			case <-quit:
				return
			case <-ended:
				if again == nil {
					again = time.After(reapEvery)
				}
			case <-again:
				again = nil
				if h.reapStrangers() {
					again = time.After(reapEvery)
				}
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(quit)
		<-done
		if !subreaper {
			return
		}
		strangers := pack{is: h.isStranger}
		left := strangers.killAll(func() []stat { return readProcesses(false) })
		h.reapStrangers()
		if len(left) > 0 {
			h.log.Error("orphans of our children survived SIGKILL", "pids", pids(left))
		}
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
}

// reapStrangers reports whether it saw one of our own children that has ended:
// behind it there may be strangers yet.
func (h *Host) reapStrangers() (again bool) {
	info, _, err := waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	if err != nil || info.pid == 0 {
		return false // most often: no need to read /proc
	}
	h.forking.Lock()
	defer h.forking.Unlock()
	for _, s := range readProcesses(false) {
		if s.zombie && h.isStranger(&s) {
			reap(s.pid)
		}
	}
	info, _, err = waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	return err == nil && info.pid != 0
}

// isStranger reports whether s is a child of ours that we did not start. What
// other code of this program starts stays in our session, and is its to wait
// for; a descendant of a child of a Host can never come back to it.
func (h *Host) isStranger(s *stat) bool {
	if s.ppid != os.Getpid() {
		return false
	}
	if own, err := unix.Getsid(0); err != nil || s.session == own {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ours := h.unborn[s.pid]; ours {
		return false
	}
	for p := range h.live {
		if p.pid == s.pid {
			return false
		}
	}
	return true
}
