package trees

import (
	"cmp"
	"slices"
	"sync"
)

// census lists the processes found by one pass through /proc, without this program. Any goroutine
// may read a census.
type census struct {
	all    []stat // sorted by pid
	tagged map[tag][]*stat
	marked map[tag][]*stat
	strays []*stat // see isStray

	// Most trees are empty; then these indexes are not built.
	parents, groups, sessions index
}

func newCensus(all []stat) *census {
	c := &census{all: all, tagged: make(map[tag][]*stat), marked: make(map[tag][]*stat)}
	slices.SortFunc(all, func(a, b stat) int { return cmp.Compare(a.pid, b.pid) })
	for i := range all {
		s := &all[i]
		if s.tag.given() {
			c.tagged[s.tag] = append(c.tagged[s.tag], s)
		}
		if s.marker.given() {
			c.marked[s.marker] = append(c.marked[s.marker], s)
		}
	}
	return c
}

// pid returns the process with this pid; nil if there is none.
func (c *census) pid(pid int) *stat {
	i, found := slices.BinarySearchFunc(c.all, pid, func(s stat, pid int) int { return cmp.Compare(s.pid, pid) })
	if !found {
		return nil
	}
	return &c.all[i]
}

// those lists the processes for which is returns true.
func (c *census) those(is func(*stat) bool) (list []*stat) {
	for i := range c.all {
		if s := &c.all[i]; is(s) {
			list = append(list, s)
		}
	}
	return list
}

func (c *census) children(pid int) []*stat {
	return c.parents.of(c, pid, func(s *stat) int { return s.ppid })
}

func (c *census) group(pid int) []*stat {
	return c.groups.of(c, pid, func(s *stat) int { return s.group })
}

func (c *census) session(pid int) []*stat {
	return c.sessions.of(c, pid, func(s *stat) int { return s.session })
}

// index lists the processes of a census sorted by a key. The first call of of sorts them.
type index struct {
	once sync.Once
	list []*stat
}

// of returns the processes whose key is wanted.
func (x *index) of(c *census, wanted int, key func(*stat) int) []*stat {
	x.once.Do(func() {
		x.list = c.those(func(*stat) bool { return true })
		slices.SortFunc(x.list, func(a, b *stat) int { return cmp.Compare(key(a), key(b)) })
	})
	from := func(wanted int) int {
		i, _ := slices.BinarySearchFunc(x.list, wanted, func(s *stat, wanted int) int { return cmp.Compare(key(s), wanted) })
		return i
	}
	return x.list[from(wanted):from(wanted+1)]
}
