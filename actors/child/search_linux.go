package child

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// markerName is an environment variable: <server>/<name of the process>.
const markerName = "TROUPE_PROCESS"

// searches is the containment without cgroups: it looks for the processes of a
// tree in /proc.
type searches struct {
	mode   Containment // marker or group
	server server

	running sync.Mutex // one scan at a time
	mu      sync.Mutex
	waiting *scan // not yet started: who comes now shares it
}

// scan is one pass through /proc.
type scan struct {
	done  chan struct{}
	stats []stat // read after done
}

func newSearches(mode Containment, self server, log *slog.Logger) *searches {
	c := &searches{mode: mode, server: self}
	if mode == ContainMarker {
		c.killLeftovers(log)
	}
	return c
}

func (c *searches) kind() Containment { return c.mode }
func (c *searches) close() error      { return nil }

func (c *searches) allows(limits protocol.ProcessLimits) error {
	for _, s := range settings(limits) {
		return fmt.Errorf("%w.%s needs the %s controller of cgroup v2, and this server contains its processes by %q", ErrLimitRefused, s.limit, s.controller(), c.mode)
	}
	return nil
}

func (c *searches) tree(name string, _ protocol.ProcessLimits) (tree, error) {
	t := &search{searches: c, marker: c.server.String() + "/" + name}
	t.pack.is = t.is
	return t, nil
}

// scan returns the processes of a pass that started after the call: what has
// gone before is not in it. Calls that wait for the same pass share it.
func (c *searches) scan() []stat {
	c.mu.Lock()
	if s := c.waiting; s != nil {
		c.mu.Unlock()
		<-s.done
		return s.stats
	}
	s := &scan{done: make(chan struct{})}
	c.waiting = s
	c.mu.Unlock()

	c.running.Lock()
	defer c.running.Unlock()
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	s.stats = readProcesses(c.mode == ContainMarker)
	close(s.done)
	return s.stats
}

// readProcesses lists all processes that can be seen.
func readProcesses(markers bool) (stats []stat) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, ok := readStat(pid)
		if !ok {
			continue
		}
		if markers && !s.zombie {
			s.marker = readMarker(&s)
		}
		stats = append(stats, s)
	}
	return stats
}

// readMarker returns the marker in a process's environment, or "". Whose
// environment we may not read is not ours.
func readMarker(s *stat) string {
	var pause backoff
	for before := *s; ; pause.wait() {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/environ")
		if len(env) > 0 || err != nil {
			return findMarker(env)
		}
		// Amid an exec a process has no environment for a while. Found without
		// one then, it would be passed over, and live on.
		after, ok := readStat(s.pid)
		if !ok || after.zombie || after.kernel || !before.execing && !after.execing || pause == maxBackoff {
			return ""
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

// pack is a set of processes: those that is true of, and their descendants.
// Who was found once stays in it until it is gone, though its parent, or what
// it was known by, may go first. Any goroutine may use it.
type pack struct {
	is func(*stat) bool

	mu    sync.Mutex
	known map[int]uint64 // start by pid, of those found last
}

// in returns the members among stats: no zombies, and not us.
func (p *pack) in(stats []stat) (found []stat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	children := make(map[int][]*stat)
	visited := map[int]bool{os.Getpid(): true}
	var queue []*stat
	for i := range stats {
		s := &stats[i]
		children[s.ppid] = append(children[s.ppid], s)
		if start, ok := p.known[s.pid]; ok && start == s.start || p.is(s) {
			queue = append(queue, s)
		}
	}
	p.known = nil
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if visited[s.pid] {
			continue
		}
		visited[s.pid] = true
		queue = append(queue, children[s.pid]...)
		if s.zombie {
			continue
		}
		found = append(found, *s)
		if p.known == nil {
			p.known = make(map[int]uint64)
		}
		p.known[s.pid] = s.start
	}
	return found
}

// kill sends SIGKILL to the process that s was read of, or to none.
func (s *stat) kill() {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// The pidfd is of one process for good. Is it the one we saw?
	if now, ok := readStat(s.pid); ok && now.start == s.start {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// killAll kills all that is in the pack, until none was found twice in a row: a
// process may fork while /proc is read. It returns what is left.
func (p *pack) killAll(scan func() []stat) (left []stat) {
	var pause backoff
	for empty, tries := 0, 0; empty < 2 && tries < killTries; tries++ {
		left = p.in(scan())
		if len(left) == 0 {
			empty++
			continue
		}
		empty = 0
		for i := range left {
			left[i].kill()
		}
		pause.wait()
	}
	return left
}

// killLeftovers kills what servers that are dead have marked. We ourselves may
// have been started by a child of one.
func (c *searches) killLeftovers(log *slog.Logger) {
	leftovers := pack{is: func(s *stat) bool {
		id, _, _ := strings.Cut(s.marker, "/")
		owner, ok := parseServer(id)
		return ok && owner.dead(c.server)
	}}
	if left := leftovers.killAll(c.scan); len(left) > 0 {
		log.Error("children of a dead server survived SIGKILL", "pids", pids(left))
	}
}

func pids(stats []stat) []int {
	list := make([]int, len(stats))
	for i, s := range stats {
		list[i] = s.pid
	}
	return list
}

// search is the tree of one child, found in /proc.
type search struct {
	*searches
	pack   pack
	marker string
	leader stat // as it was just after the start; its pid is 0 before
}

func (t *search) prepare(_ *syscall.SysProcAttr, env []string) []string {
	if t.mode != ContainMarker {
		return env
	}
	// Ours may itself run under another server, and have its marker.
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, markerName+"=") })
	return append(env, markerName+"="+t.marker)
}

func (t *search) started(pid int) { t.leader, _ = readStat(pid) }

// pins: a process group and a session have the pid of the one that made them,
// and that pid cannot be another's while its zombie is there.
func (t *search) pins() bool { return t.mode == ContainGroup }

func (*search) cheap() bool { return false }

func (t *search) is(s *stat) bool {
	switch {
	case t.leader.pid == 0:
		return false
	case s.pid == t.leader.pid:
		return s.start == t.leader.start
	case t.mode == ContainMarker:
		return s.marker == t.marker
	}
	return s.group == t.leader.pid || s.session == t.leader.pid
}

func (t *search) found() []stat { return t.pack.in(t.scan()) }

func (t *search) empty() bool {
	for range 2 { // a process may fork while /proc is read
		if len(t.found()) > 0 {
			return false
		}
	}
	return true
}

func (t *search) kill() {
	for _, s := range t.found() {
		s.kill()
	}
}

func (t *search) members() []int { return pids(t.found()) }

func (*search) oomKilled() bool        { return false }
func (*search) usage() *protocol.Usage { return nil }

func (*search) remove() error { return nil }
