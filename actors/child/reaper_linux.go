package child

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is the pause between two searches for ended strangers.
const reapEvery = time.Second

// startReaper makes this program adopt orphaned descendants of its children, called strangers, and
// reaps strangers that have ended. stop kills the running strangers.
func (h *Host) startReaper() (stop func() error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		h.log.Warn("cannot become subreaper: descendants that lost their parent may not be found", "err", err)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-h.begun:
			}
			for more := true; more; more = h.reapStrangers() {
				select {
				case <-quit:
					return
				case <-time.After(reapEvery):
				}
			}
		}
	}()
	return func() error {
		close(quit)
		<-done
		var strangers pack
		err := killAll(h.spare, func() (found []*stat, err error) {
			seen, err := h.census()
			if err != nil {
				return nil, err
			}
			return strangers.in(seen, seen.those(h.isStranger)), nil
		})
		h.reapStrangers()
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		return err
	}
}

// census takes a census without tags and markers.
func (h *Host) census() (seen *census, err error) {
	err = h.spare.do(func() error {
		seen, err = takeCensus(math.MaxUint64, false, nil)
		return err
	})
	return seen, err
}

// reapStrangers reaps ended strangers. It returns false if this program has no child at all, so no
// stranger can come.
func (h *Host) reapStrangers() bool {
	e, err := wait(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	if err != nil {
		return false
	}
	if e.pid == 0 {
		return true // usually no child has ended: no need to read /proc
	}
	seen, err := h.census()
	if err != nil {
		return true
	}
	h.forking.Lock()
	defer h.forking.Unlock()
	for _, s := range seen.those(func(s *stat) bool { return s.zombie && h.isStranger(s) }) {
		h.reaped.Add(1) // before reap: see search.empty
		reap(s.pid)
	}
	return true
}

// isStranger reports whether s is a child of this program but was not started by a Host. Children
// of other code in this program stay in the program's session; that code waits for them. A
// descendant of a Host's child can never return to the program's session.
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
