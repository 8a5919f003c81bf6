package trees

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// reapEvery is the pause between two searches for ended strangers.
const reapEvery = time.Second

// startReaper makes this program adopt orphaned descendants of its children, called strangers, and
// reaps strangers that have ended. stop kills the running strangers.
func (ts *Trees) startReaper() (stop func() error) {
	if ts.holder != nil {
		// The kernel gives the strangers to the holder.
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
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
		if ts.holder == nil {
			unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		}
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
	if ts.holder != nil {
		return ts.reapOrphans()
	}
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

// reapOrphans is reapStrangers with a holder, which does not tell of its children.
func (ts *Trees) reapOrphans() bool {
	all, known := childrenOf(ts.holder.PID()), ts.known()
	var ended []*stat
	for _, pid := range all {
		if known[pid] {
			continue
		}
		if s, err := lookStat(pid); err == nil && s.zombie {
			ended = append(ended, &s)
		}
	}
	if len(ended) > 0 {
		ts.forking.Lock()
		defer ts.forking.Unlock()
		for _, s := range ended {
			if ts.isStranger(s) {
				ts.reaped.Add(1) // before the reap: see search.empty
				ts.holder.ReapOrphan(s.pid)
			}
		}
	}
	return len(all) > 1 // this program is a child of the holder, too
}

// childrenOf returns the children of the main thread of a process: the holder starts its programs there.
func childrenOf(pid int) (pids []int) {
	name := strconv.Itoa(pid)
	list, err := kernel.ReadFile("/proc/" + name + "/task/" + name + "/children") // proc_tid_children(5)
	if err != nil {
		names, _ := os.ReadDir("/proc") // a kernel without CONFIG_PROC_CHILDREN
		for _, name := range names {
			child, ok := parsePID(name.Name())
			if s, err := lookStat(child); ok && err == nil && s.ppid == pid {
				pids = append(pids, child)
			}
		}
		return pids
	}
	for field := range bytes.FieldsSeq(list) {
		pids = append(pids, int(number(field)))
	}
	return pids
}

// known returns the children of all trees, and the unborn.
func (ts *Trees) known() map[int]bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := make(map[int]bool, len(ts.live)+len(ts.unborn))
	for pid := range ts.unborn {
		all[pid] = true
	}
	for t := range ts.live {
		all[t.pid] = true
	}
	return all
}

// isStranger reports whether s is a child of this program, or of its holder, but was not started by a Host. Children
// of other code in this program stay in the program's session; that code waits for them. A
// descendant of a Host's child can never return to the program's session. A holder has no such other code: an ended child there was
// a child of an earlier server.
func (ts *Trees) isStranger(s *stat) bool {
	parent := os.Getpid()
	if ts.holder != nil {
		parent = ts.holder.PID()
	}
	if s.ppid != parent {
		return false
	}
	if own, err := unix.Getsid(0); (err != nil || s.session == own) && (ts.holder == nil || !s.zombie) {
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
