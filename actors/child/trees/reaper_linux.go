package trees

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
func (ts *Trees) startReaper() (stop func() error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		ts.log.Warn("cannot become subreaper: descendants that lost their parent may not be found", "err", err)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-ts.begun:
			}
			for more := true; more; more = ts.reapStrangers() {
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
		err := killAll(ts.spare, func() (found []*stat, err error) {
			seen, err := ts.census()
			if err != nil {
				return nil, err
			}
			return strangers.in(seen, seen.those(ts.isStranger)), nil
		})
		ts.reapStrangers()
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		return err
	}
}

// census takes a census without tags and markers.
func (ts *Trees) census() (seen *census, err error) {
	err = ts.spare.do(func() error {
		seen, err = takeCensus(math.MaxUint64, false, nil)
		return err
	})
	return seen, err
}

// reapStrangers reaps ended strangers. It returns false if this program has no child at all, so no
// stranger can come.
func (ts *Trees) reapStrangers() bool {
	e, err := wait(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	if err != nil {
		return false
	}
	if e.pid == 0 {
		return true // usually no child has ended: no need to read /proc
	}
	seen, err := ts.census()
	if err != nil {
		return true
	}
	ts.forking.Lock()
	defer ts.forking.Unlock()
	for _, s := range seen.those(func(s *stat) bool { return s.zombie && ts.isStranger(s) }) {
		ts.reaped.Add(1) // before reap: see search.empty
		reap(s.pid)
	}
	return true
}

// isStranger reports whether s is a child of this program but was not started by a Host. Children
// of other code in this program stay in the program's session; that code waits for them. A
// descendant of a Host's child can never return to the program's session.
func (ts *Trees) isStranger(s *stat) bool {
	if s.ppid != os.Getpid() {
		return false
	}
	if own, err := unix.Getsid(0); err != nil || s.session == own {
		return false
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, ours := ts.unborn[s.pid]; ours {
		return false
	}
	for t := range ts.live {
		if t.pid == s.pid {
			return false
		}
	}
	return true
}
