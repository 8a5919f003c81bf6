package trees

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/protocol"
)

// searches finds the processes of trees in /proc. It is the containment on systems without cgroups.
// With cgroups, searches finds the processes that left their cgroup.
type searches struct {
	mode   Containment
	server server
	tags   tags
	spare  *spare
	log    *slog.Logger
	// isStranger reports whether a process is an orphan adopted by this program; nil: this program
	// adopts no orphans.
	isStranger func(*stat) bool
	// reaped counts the strangers that were reaped.
	reaped *atomic.Int64
	// inLeaf reports whether a process is in the cgroup of a child not named name; nil: there are
	// no cgroups.
	inLeaf func(s *stat, name string) bool

	trees   sync.Map    // tag → *search: the trees not yet seen empty
	closing atomic.Bool // set by endAll

	running sync.Mutex // allows a single scan at a time
	rested  time.Time  // guarded by running: before this time no scan begins that can wait
	mu      sync.Mutex
	waiting *scan // not yet started; a new caller shares this scan
}

// scan is a single pass through /proc.
type scan struct {
	hurry sync.Once
	now   chan struct{} // closed: a caller is in a hurry
	done  chan struct{}
	seen  *census // seen and err are read after done
	err   error
}

const (
	// scanShare limits the time taken by scans that can wait to 1/scanShare. A scan takes some 10
	// µs for each process of the machine.
	scanShare = 20
	// maxScanRest is the longest pause between scans; it delays noticing the end of a tree.
	maxScanRest = 500 * time.Millisecond
)

func (c *searches) kind() Containment { return c.mode }
func (c *searches) close() error      { return nil }

func (c *searches) allows(limits protocol.ProcessLimits) error {
	for _, s := range settings(limits) {
		return fmt.Errorf("%w.%s needs the %s controller of cgroup v2, and this server contains its processes by %q", ErrLimitRefused, s.limit, s.controller(), c.mode)
	}
	return nil
}

func (c *searches) tree(name string, _ protocol.ProcessLimits) (tree, error) {
	return c.search(name), nil
}

func (c *searches) search(name string) *search {
	t := &search{searches: c, name: name, born: ticks(), given: c.tags.next()}
	c.trees.Store(t.given.tag, t)
	return t
}

// endAll makes the kill of any tree also kill strays, which are descendants of an unknown child. From now on no scan waits.
func (c *searches) endAll() {
	c.closing.Store(true)
	c.mu.Lock()
	s := c.waiting
	c.mu.Unlock()
	if s != nil {
		s.hurry.Do(func() { close(s.now) })
	}
}

// scan returns the processes found by a pass started after the call. The pass does not contain
// processes gone before the call. Callers waiting for the same pass share its result. If canWait is
// true, the pass may start later, to keep scans within their share of the time.
func (c *searches) scan(canWait bool) (*census, error) {
	c.mu.Lock()
	s := c.waiting
	first := s == nil
	if first {
		s = &scan{now: make(chan struct{}), done: make(chan struct{})}
		c.waiting = s
	}
	c.mu.Unlock()
	if !canWait || c.closing.Load() {
		s.hurry.Do(func() { close(s.now) })
	}
	if !first {
		<-s.done
		return s.seen, s.err
	}
	c.running.Lock()
	defer c.running.Unlock()
	if rest := time.Until(c.rested); rest > 0 {
		select {
		case <-s.now:
		case <-time.After(rest):
		}
	}
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	began := time.Now()
	s.err = c.spare.do(func() (err error) {
		s.seen, err = takeCensus(c.server.start, c.mode == ContainMarker, c.tells)
		return err
	})
	if s.err == nil {
		s.seen.strays = s.seen.those(c.isStray)
	}
	took := time.Since(began)
	c.rested = time.Now().Add(min(took*scanShare, maxScanRest))
	close(s.done)
	return s.seen, s.err
}

// takeCensus lists all visible processes, with the tags of processes started at since or later. If
// markers is true, takeCensus also reads the markers of processes for which tells returns false.
// The error says why the list may be incomplete.
func takeCensus(since uint64, markers bool, tells func(*stat) bool) (*census, error) {
	// Not os.Open: under go test, os.Open writes the name to a file, and the spare thread does not have that file open.
	fd, err := kernel.Retry(func() (int, error) { return unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	proc := os.NewFile(uintptr(fd), "/proc")
	defer proc.Close()
	threads := kernelThreads(kthreadd)
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	self, all := os.Getpid(), make([]stat, 0, len(names))
	for _, name := range names {
		pid, ok := parsePID(name)
		if _, skip := slices.BinarySearch(threads, pid); !ok || skip || pid == self {
			continue
		}
		s, err := lookStat(pid)
		if err == nil && !s.kernel && s.start >= since {
			if s.tag, err = locks.read(pid); err == nil && markers && !tells(&s) {
				s.marker, err = rttime.read(pid)
			}
		}
		switch {
		case err == nil:
			all = append(all, s)
		case !gone(err) && !hidden(err): // the mount option hidepid hides processes of other users
			return nil, err
		}
	}
	return newCensus(all), nil
}

// kthreadd is the parent of the kernel's threads, unless this program is in a container: then 2 is a program.
const kthreadd = 2

// kernelThreads returns the pids of the kernel's threads, sorted: the children of parent, if that is a thread of the kernel. To look at each of
// them costs more than at all programs of many machines. None of these pids becomes a program's within a pass, because the kernel gives a pid again
// only after all others. If the kernel lists no children, kernelThreads returns none.
func kernelThreads(parent int) (pids []int) {
	if s, ok := readStat(parent); !ok || !s.kernel {
		return nil
	}
	list, err := kernel.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent)) // proc_tid_children(5)
	if err != nil {
		return nil
	}
	for name := range strings.FieldsSeq(string(list)) {
		if pid, ok := parsePID(name); ok {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// parsePID reads a directory name of /proc as a pid. ok is false if the name is no pid.
func parsePID(name string) (pid int, ok bool) {
	if name[0] < '0' || name[0] > '9' { // skips most other names without building an error
		return 0, false
	}
	pid, err := strconv.Atoi(name)
	return pid, err == nil
}

// pack is a set of processes with their descendants. A process stays in the pack until it is gone,
// even if its parent, or the mark it was found by, goes first. Any goroutine may use a pack.
type pack struct {
	mu    sync.Mutex
	known map[int]uint64 // start by pid, of the processes found by the last search
}

// in returns the members among the processes of seen: heads, earlier members, and all descendants
// of both; but no zombies.
func (p *pack) in(seen *census, heads []*stat) (found []*stat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := slices.Clone(heads)
	for pid, start := range p.known {
		if s := seen.pid(pid); s != nil && s.start == start {
			queue = append(queue, s)
		}
	}
	p.known = nil
	if len(queue) == 0 {
		return nil
	}
	visited := make(map[int]bool)
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if visited[s.pid] {
			continue
		}
		visited[s.pid] = true
		queue = append(queue, seen.children(s.pid)...)
		if s.zombie {
			continue
		}
		found = append(found, s)
		if p.known == nil {
			p.known = make(map[int]uint64)
		}
		p.known[s.pid] = s.start
	}
	return found
}

// has reports whether the last search found s in the pack.
func (p *pack) has(s *stat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, known := p.known[s.pid]
	return known && start == s.start
}

// kill sends SIGKILL to process s. If the pid now belongs to another process, kill does nothing.
// The error says why s may live on.
func (s *stat) kill() error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return ended(fmt.Errorf("pidfd_open: %w", err))
	}
	defer unix.Close(fd)
	// A pidfd refers to the same process forever. Check whether this process is s.
	now, err := lookStat(s.pid)
	if err != nil || now.start != s.start {
		return ended(err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return ended(fmt.Errorf("SIGKILL to %s: %w", s, err))
	}
	return nil
}

// ended returns nil if err means "no such process", otherwise err.
func ended(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// killThem kills each process of them. The error says why some may live on.
func (s *spare) killThem(them []*stat) error {
	var errs []error
	for _, one := range them {
		if err := s.do(one.kill); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// killAll kills all processes returned by find, until find returns none twice in a row: a process
// may fork while /proc is read. The error is nil, or names the survivors.
func killAll(spare *spare, find func() ([]*stat, error)) error {
	var left []*stat
	none := 0 // searches in a row without a process
	empty, err := killUntilEmpty(func() (bool, error) {
		var err error
		if left, err = find(); err != nil || len(left) > 0 {
			none = 0
			return false, err
		}
		none++
		return none == 2, nil
	}, func() error { return spare.killThem(left) }, func(pause *Backoff) {
		if none == 0 {
			pause.Wait()
		}
	})
	if !empty {
		return survivorsError(named(left), err)
	}
	return nil
}

// leftOver reports whether a process has the tag or marker of a dead server. This server itself may have been started by a child of a dead
// server.
func (c *searches) leftOver(s *stat) bool { return s.marker.dead(c.server) || s.tag.dead(c.server) }

// killLeftovers kills what dead servers have left.
func (c *searches) killLeftovers() { c.killThose(c.leftOver) }

// endLost is killLeftovers, and kills processes with a tag of this server's holder, if no tree has the tag.
func (c *searches) endLost() {
	own := c.server.tagged(0).server
	c.killThose(func(s *stat) bool {
		lost := s.tag.given() && s.tag.server == own && !c.tells(s)
		return c.leftOver(s) || lost && !c.tags.off // else the tags are another server's
	})
}

// killThose kills the processes for which of returns true, and their descendants.
func (c *searches) killThose(of func(*stat) bool) {
	var leftovers pack
	err := killAll(c.spare, func() (found []*stat, err error) {
		err = c.spare.do(func() error {
			seen, err := takeCensus(0, true, func(*stat) bool { return false })
			if err == nil {
				found = leftovers.in(seen, seen.those(of))
			}
			return err
		})
		return found, err
	})
	if err != nil {
		c.log.Error("some processes of a dead server may still be running", "err", err)
	}
}

func named(stats []*stat) []string {
	list := make([]string, len(stats))
	for i, s := range stats {
		list[i] = s.String()
	}
	return list
}
