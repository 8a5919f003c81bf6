package child

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// markerName is an environment variable: <server>/<name of the process>.
const markerName = "TROUPE_PROCESS"

// searches looks for the processes of trees in /proc. It is the containment without cgroups,
// and finds those that left their cgroup.
type searches struct {
	mode   Containment
	server server
	tags   tags
	spare  *spare
	// isStranger reports whether a process came to us when it lost its parent; nil: none does.
	isStranger func(*stat) bool
	// inLeaf reports whether a process is in the cgroup of a child other than that of name; nil: there are none.
	inLeaf func(s *stat, name string) bool

	trees   sync.Map    // tag → *search: those not yet seen empty
	closing atomic.Bool // all trees end: whose a stray is does not matter

	running sync.Mutex // one scan at a time
	rested  time.Time  // while running: before then no scan begins that can wait
	mu      sync.Mutex
	waiting *scan // not yet started: who comes now shares it
}

// scan is one pass through /proc.
type scan struct {
	hurry sync.Once
	now   chan struct{} // closed: somebody is in a hurry
	done  chan struct{}
	seen  *census // read after done, as err
	err   error
}

const (
	// scanShare is the part of the time that scans which can wait may take: one of so many. A
	// scan takes some 10 µs for each process of the machine.
	scanShare = 20
	// maxScanRest is how long the end of a tree may wait for being seen.
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
	t := &search{searches: c, name: name, born: ticks(), given: c.tags.next(c.mode != ContainCgroup), marker: c.server.String() + "/" + name}
	c.trees.Store(t.given.tag, t)
	return t
}

// scan returns the processes of a pass that started after the call: what has gone before is
// not in it. Calls that wait for the same pass share it. Who can wait waits until
// scans have had no more than their share of the time.
func (c *searches) scan(canWait bool) (*census, error) {
	c.mu.Lock()
	s := c.waiting
	first := s == nil
	if first {
		s = &scan{now: make(chan struct{}), done: make(chan struct{})}
		c.waiting = s
	}
	c.mu.Unlock()
	if !canWait {
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

// takeCensus lists all processes that can be seen, with the tags of those that started at since or
// later. If wanted it reads the markers of those whose tag does not tell of which tree they are.
// The error says why the list may not be complete.
func takeCensus(since uint64, markers bool, tells func(*stat) bool) (*census, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	all := make([]stat, 0, len(names))
	for _, name := range names {
		pid, ok := parsePID(name)
		if !ok || pid == self {
			continue
		}
		s, err := lookStat(pid)
		if err == nil && !s.kernel && s.start >= since {
			if s.tag, err = readTag(pid); (err == nil || hidden(err)) && markers && !s.zombie && !tells(&s) {
				s.marker, err = readMarker(&s)
			}
		}
		switch {
		case err == nil:
			all = append(all, s)
		case !gone(err) && !hidden(err): // hidden by the mount option hidepid: it has another user
			return nil, err
		}
	}
	return newCensus(all), nil
}

// parsePID reads the name of a directory in /proc; ok is false for what is no pid.
func parsePID(name string) (pid int, ok bool) {
	if name[0] < '0' || name[0] > '9' { // most of the rest, without an error to build
		return 0, false
	}
	pid, err := strconv.Atoi(name)
	return pid, err == nil
}

// readMarker returns the marker in a process's environment, or "". An environment that this
// user may not read has none.
func readMarker(s *stat) (string, error) {
	var pause backoff
	for before := *s; ; pause.wait() {
		env, err := readFile("/proc/" + strconv.Itoa(s.pid) + "/environ")
		switch {
		case len(env) > 0:
			return findMarker(env), nil
		case hidden(err), gone(err):
			return "", nil
		case err != nil:
			return "", err
		}
		// Amid an exec a process has no environment for a while. Found without
		// one then, it would be passed over, and live on.
		after, err := lookStat(s.pid)
		if err != nil || after.zombie || after.kernel || !before.execing && !after.execing || pause == maxBackoff {
			return "", err
		}
		before = after
	}
}

func findMarker(env []byte) string {
	for len(env) > 0 {
		var entry []byte
		entry, env, _ = bytes.Cut(env, []byte{0})
		if value, ok := bytes.CutPrefix(entry, []byte(markerName+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// pack is a set of processes, and their descendants. Who was found once stays in
// it until it is gone, though its parent, or what it was known by, may go first. Any goroutine may use it.
type pack struct {
	mu    sync.Mutex
	known map[int]uint64 // start by pid, of those found last
}

// in returns the members among those seen: heads, who was in the pack before, and all that descends
// from them; but no zombies.
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

// has reports whether s was in the pack when that was looked for last.
func (p *pack) has(s *stat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, known := p.known[s.pid]
	return known && start == s.start
}

// kill sends SIGKILL to the process that s was read of, or to none. The error says why it may live on.
func (s *stat) kill() error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return ended(fmt.Errorf("pidfd_open: %w", err))
	}
	defer unix.Close(fd)
	// The pidfd is of one process for good. Is it the one we saw?
	now, err := lookStat(s.pid)
	if err != nil || now.start != s.start {
		return ended(err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return ended(fmt.Errorf("SIGKILL to %s: %w", s, err))
	}
	return nil
}

// ended is err, or nil if err says that there is no such process.
func ended(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// killThem kills each of them. The error says why some may live on.
func (s *spare) killThem(them []*stat) error {
	var errs []error
	for _, one := range them {
		if err := s.do(one.kill); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// killAll kills all that find finds, until it finds nothing twice in a row: a process may
// fork while /proc is read. The error is nil, or names what is left.
func killAll(spare *spare, find func() ([]*stat, error)) error {
	var pause backoff
	var left []*stat
	var err error
	var refused refusals
	for empty, tries := 0, 0; empty < 2; tries++ {
		if tries == killTries || refused.enough(err) {
			return survivorsError(named(left), err)
		}
		if left, err = find(); err == nil && len(left) == 0 {
			empty++
			continue
		}
		empty = 0
		err = errors.Join(err, spare.killThem(left))
		pause.wait()
	}
	return nil
}

// killLeftovers kills what servers that are dead have tagged or marked. We ourselves may
// have been started by a child of one.
func (c *searches) killLeftovers(log *slog.Logger) {
	var leftovers pack
	of := func(s *stat) bool {
		id, _, _ := strings.Cut(s.marker, "/")
		owner, ok := parseServer(id)
		return ok && owner.dead(c.server) || s.tag.dead(c.server)
	}
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
		log.Error("not all that a dead server left was killed", "err", err)
	}
}

func named(stats []*stat) []string {
	list := make([]string, len(stats))
	for i, s := range stats {
		list[i] = s.String()
	}
	return list
}

// search is the tree of one child, found in /proc.
type search struct {
	*searches
	pack   pack
	name   string
	born   uint64 // as start in stat
	given  mark
	marker string

	mu     sync.Mutex
	leader stat // pid from the start on; start from the first kill on, if it ran then
}

func (t *search) mark() mark { return t.given }

func (t *search) prepare(_ *syscall.SysProcAttr, env []string) []string {
	if t.mode != ContainMarker {
		return env
	}
	// Ours may itself run under another server, and have its marker.
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, markerName+"=") })
	return append(env, markerName+"="+t.marker)
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
	t.spare.do(func() error { // without it the leader is found by its tag
		now, err := lookStat(t.leader.pid)
		t.leader.start = now.start
		return err
	})
}

// pins: a process group and a session have the pid of the one that made them,
// and that pid cannot be another's while its zombie is there.
func (t *search) pins() bool { return t.mode == ContainGroup }

func (*search) cheap() bool { return false }
func (*search) soon() bool  { return true }

// heads are the members by which the others are found.
func (t *search) heads(seen *census) (heads []*stat) {
	t.mu.Lock()
	leader := t.leader
	t.mu.Unlock()
	if s := seen.pid(leader.pid); s != nil && leader.start != 0 && s.start == leader.start {
		heads = append(heads, s)
	}
	if t.given.given() {
		for _, s := range seen.tagged[t.given.tag] {
			if t.inLeaf == nil || !t.inLeaf(s, t.name) {
				heads = append(heads, s)
			}
		}
	}
	switch {
	case t.mode == ContainMarker:
		heads = append(heads, seen.marked[t.marker]...)
	case t.mode == ContainGroup:
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
	for range 2 { // a process may fork while /proc is read
		seen, err := t.scan(canWait)
		if err != nil || len(t.pack.in(seen, t.heads(seen))) > 0 {
			return false, err
		}
		if strays, err := t.strays(seen); err != nil || len(strays) > 0 {
			t.pack.in(seen, strays) // which remembers them
			return false, err
		}
	}
	t.trees.Delete(t.given.tag)
	return true, nil
}

// tells reports whether the tag of s is that of a tree.
func (c *searches) tells(s *stat) bool {
	_, known := c.trees.Load(s.tag)
	return known && s.tag.given()
}

// isStray reports whether s descends from a child of ours and has lost all that tells of which: it
// came to us, and no tree has its tag or its cgroup.
func (c *searches) isStray(s *stat) bool {
	if c.isStranger == nil || c.tags.off || s.zombie || s.ppid != c.server.pid {
		return false
	}
	if c.server.pid == 1 && s.tag.server == tagInfinity {
		return false // process 1 gets all orphans, also those of docker exec, which have no limit
	}
	return !c.tells(s) && c.isStranger(s) && (c.inLeaf == nil || !c.inLeaf(s, ""))
}

// strays are those of which no other tree knows: of this one if no other is left that was there when
// they began. If there is another, the error names them.
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

// ticks is now, as start in stat: in clock ticks since boot, a hundred a second. (time(7))
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

func (*search) oomKilled() bool        { return false }
func (*search) usage() *protocol.Usage { return nil }

func (t *search) remove() error {
	t.trees.Delete(t.given.tag)
	return nil
}
