package trees

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// errReaped means: orphans were reaped, and nobody knows whether some belonged to the tree.
var errReaped = errors.New("orphans were reaped during the search")

// search is the tree of one child, found in /proc.
type search struct {
	*searches
	pack  pack
	name  string
	born  uint64 // in the unit of stat.start
	given mark

	mu     sync.Mutex
	leader stat // pid: set at the start; start: set at the first kill, if the leader still runs
}

func (t *search) mark() mark { return t.given }

func (*search) cgroup() int { return 0 }

func (t *search) trace() Trace {
	return Trace{Name: t.name, Born: t.born, Tag: t.given.tag.plain(), Marker: t.given.marker.plain()}
}

func (c *searches) adopt(trace Trace, pid int) tree { return c.searchAgain(trace, pid) }

func (c *searches) searchAgain(trace Trace, pid int) *search {
	t := &search{searches: c, name: trace.Name, born: trace.Born, given: mark{tag: tagOf(trace.Tag), marker: tagOf(trace.Marker)}}
	t.leader.pid = pid
	c.trees.Store(t.given.tag, t)
	return t
}

func (t *search) started(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leader.pid = pid
}

func (t *search) running() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader.start != 0 {
		return
	}
	t.spare.do(func() error { // if lookStat fails, the leader is found by its tag
		now, err := lookStat(t.leader.pid)
		t.leader.start = now.start
		return err
	})
}

// pins is true for ContainGroup: a process group and a session have the pid of their founder, and
// no other process gets this pid while the founder's zombie exists.
func (t *search) pins() bool { return t.mode == ContainGroup }

func (*search) soon() bool { return true }

// heads are the members recognized without their parents: by pid, tag, marker, group or session.
func (t *search) heads(seen *census) (heads []*stat) {
	t.mu.Lock()
	leader := t.leader
	t.mu.Unlock()
	if s := seen.pid(leader.pid); s != nil && leader.start != 0 && s.start == leader.start {
		heads = append(heads, s)
	}
	for _, s := range t.marked(seen) {
		if t.inLeaf == nil || !t.inLeaf(s, t.name) {
			heads = append(heads, s)
		}
	}
	if t.mode == ContainGroup {
		heads = append(heads, seen.group(leader.pid)...)
		heads = append(heads, seen.session(leader.pid)...)
	}
	return heads
}

func (t *search) found(canWait bool) ([]*stat, error) {
	seen, err := t.scan(canWait)
	if err != nil {
		return nil, err
	}
	return t.pack.in(seen, t.heads(seen)), nil
}

func (t *search) empty(canWait bool) (bool, error) {
	var ended []*stat
	reaped := t.reaped.Load()
	for pass := range 2 { // twice: a process may fork while /proc is read
		seen, err := t.scan(canWait)
		if err != nil || len(t.pack.in(seen, t.heads(seen))) > 0 {
			return false, err
		}
		if strays, err := t.strays(seen); err != nil || len(strays) > 0 {
			t.pack.in(seen, strays) // makes the pack remember the strays
			return false, err
		}
		// A process that forks and exits again and again may have moved on in both passes. Then it has
		// left zombies with the tag, which this program adopts. So a new zombie, or a reaper that has
		// taken some, means: look again.
		before := ended
		ended = t.zombies(seen)
		for _, s := range ended {
			if pass > 0 && !slices.ContainsFunc(before, s.same) {
				return false, nil
			}
		}
	}
	if t.reaped.Load() != reaped {
		return false, errReaped
	}
	t.trees.Delete(t.given.tag)
	return true, nil
}

// marked returns the processes with the tag or the marker of the tree.
func (t *search) marked(seen *census) (list []*stat) {
	if t.given.tag.given() {
		list = append(list, seen.tagged[t.given.tag]...)
	}
	if t.given.marker.given() {
		list = append(list, seen.marked[t.given.marker]...)
	}
	return list
}

// zombies returns the ended members that nobody has reaped.
func (t *search) zombies(seen *census) (ended []*stat) {
	for _, s := range t.marked(seen) {
		if s.zombie {
			ended = append(ended, s)
		}
	}
	return ended
}

// tells reports whether the tag of s identifies a tree.
func (c *searches) tells(s *stat) bool {
	_, known := c.trees.Load(s.tag)
	return known && s.tag.given()
}

// isStray reports whether s descends from a child of this server, but nobody knows from which child:
// this program has adopted s, and no tree has the tag or the cgroup of s.
func (c *searches) isStray(s *stat) bool {
	if c.isStranger == nil || c.tags.off || s.zombie || s.ppid != c.server.pid {
		return false
	}
	if c.server.pid == 1 && s.tag.server == tagInfinity {
		return false // process 1 adopts all orphans, including those of docker exec, which have no limit
	}
	return !c.tells(s) && c.isStranger(s) && (c.inLeaf == nil || !c.inLeaf(s, ""))
}

// strays returns the strays belonging to this tree: strays in no pack, if no other tree existed
// when the strays began. If another tree existed, the error names the strays.
func (t *search) strays(seen *census) (mine []*stat, err error) {
	for _, s := range seen.strays {
		if s.start+1 < t.born {
			continue
		}
		known, others := false, false
		for _, other := range t.trees.Range {
			other := other.(*search)
			known = known || other.pack.has(s)
			others = others || other != t && other.born <= s.start+1
		}
		switch {
		case known:
		case others && !t.closing.Load():
			err = errors.Join(err, fmt.Errorf("%s: %w", s, errStray))
		default:
			mine = append(mine, s)
		}
	}
	return mine, err
}

// ticks is the current time in the unit of stat.start: clock ticks since boot, a hundred a second.
// (time(7))
func ticks() uint64 {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails for bad arguments only
	return uint64(now.Nano() / 10_000_000)
}

func (t *search) kill() error {
	found, err := t.found(false)
	return errors.Join(err, t.spare.killThem(found))
}

func (t *search) members() []string {
	found, _ := t.found(false)
	return named(found)
}

func (*search) oomKilled() bool { return false }

func (t *search) remove() error {
	t.trees.Delete(t.given.tag)
	return nil
}
