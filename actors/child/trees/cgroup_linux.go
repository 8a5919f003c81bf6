package trees

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/protocol"
)

// cgroupPrefix begins the name of a server's cgroup directory. In this directory each child has a
// leaf:
//
//	<our own cgroup>/troupe-<server>/<name>
const cgroupPrefix = "troupe-"

// cgroups is the containment by cgroup v2. (cgroup-v2.rst of the kernel)
type cgroups struct {
	kin         *searches // finds processes that left their cgroup
	dir         string
	controllers []string // controllers of dir; the leaves have the controllers used for limits
	why         string   // why controllers are missing; "": nobody knows
}

// newCgroups makes the directory of the server. found: an earlier server of the holder may have made it. whole: the whole process belongs to the
// server, so the process may move into serverLeaf.
func newCgroups(kin *searches, found, whole bool, log *slog.Logger) (*cgroups, error) {
	self := kin.server
	own, root, err := OwnCgroup("")
	if err != nil {
		return nil, err
	}
	own = aroundLeaf(own, root)
	killCgroupLeftovers(own, self, log)
	c := &cgroups{kin: kin, dir: filepath.Join(own, cgroupPrefix+self.String())}
	if err := os.Mkdir(c.dir, 0o755); err != nil && !(found && errors.Is(err, fs.ErrExist)) {
		return nil, err
	}
	if err := c.check(own); err != nil {
		os.Remove(c.dir)
		return nil, err
	}
	kin.inLeaf = c.inLeaf
	if whole {
		if err := passOn(own, kernel.WriteFile, os.Getpid(), self.pid); err != nil {
			c.why = ": " + err.Error()
			log.Info("no controllers for limits of children", "reason", err)
		}
	}
	if err := c.enable(); err != nil {
		log.Warn("memory, pids and CPUs of children cannot be limited", "cgroup", c.dir, "err", err)
	}
	return c, nil
}

// enable passes the controllers for memory, pids and cpu on to the leaves, as far as dir itself has
// them.
func (c *cgroups) enable() error {
	text, err := os.ReadFile(filepath.Join(c.dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	has := strings.Fields(string(text))
	var more []string
	for _, controller := range limiting {
		if slices.Contains(has, controller) {
			more = append(more, "+"+controller)
		}
	}
	if len(more) > 0 {
		if err := os.WriteFile(filepath.Join(c.dir, "cgroup.subtree_control"), []byte(strings.Join(more, " ")), 0o644); err != nil {
			return err
		}
	}
	c.controllers = has
	return nil
}

// check returns an error if no child can be put below c.dir.
func (c *cgroups) check(own string) error {
	// Moving a process needs write permission for the common ancestor.
	if err := unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK); err != nil {
		return fmt.Errorf("%s is not delegated to this user: %w", own, err)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cgroup.kill")); err != nil {
		return fmt.Errorf("the kernel has no cgroup.kill (new in Linux 5.14): %w", err)
	}
	kind, err := os.ReadFile(filepath.Join(c.dir, "cgroup.type"))
	if err != nil {
		return err
	}
	if kind := strings.TrimSpace(string(kind)); kind != "domain" {
		return fmt.Errorf("%s is of type %q, not domain", c.dir, kind)
	}
	return nil
}

// unescape undoes the octal escapes of mountinfo. (proc_pid_mountinfo(5))
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// killCgroupLeftovers kills the processes in cgroups of dead servers below own.
func killCgroupLeftovers(own string, self server, log *slog.Logger) {
	entries, _ := os.ReadDir(own) // the caller's Mkdir reports an unreadable own
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), cgroupPrefix)
		if s, ok := parseServer(name); ours && ok && s.dead(self) {
			(&leaf{dir: filepath.Join(own, entry.Name())}).killLeftovers(log)
		}
	}
}

// killLeftovers kills the processes in the cgroup, which no tree has, and removes the cgroup.
func (l *leaf) killLeftovers(log *slog.Logger) {
	_, err := killUntilEmpty(l.vacant, l.killMembers, (*Backoff).Wait)
	if err := errors.Join(err, l.remove()); err != nil {
		log.Error("some processes of a dead server may still be running", "cgroup", l.dir, "members", l.members(), "err", err)
	}
}

func (c *cgroups) endAll() { c.kin.endAll() }

// endLost is searches.endLost, and removes the cgroups of children that have no tree.
func (c *cgroups) endLost() {
	c.kin.endLost()
	names := make(map[string]bool)
	for _, t := range c.kin.trees.Range {
		names[t.(*search).name] = true
	}
	entries, _ := os.ReadDir(c.dir) // newCgroups has made it
	for _, entry := range entries {
		if entry.IsDir() && !names[entry.Name()] {
			(&leaf{dir: filepath.Join(c.dir, entry.Name())}).killLeftovers(c.kin.log)
		}
	}
}

func (*cgroups) kind() Containment { return ContainCgroup }

func (c *cgroups) allows(limits protocol.ProcessLimits) error {
	for _, s := range settings(limits) {
		if !slices.Contains(c.controllers, s.controller()) {
			return fmt.Errorf("%w.%s needs the %s controller of cgroup v2, which is not delegated to this server: %s has %q%s",
				ErrLimitRefused, s.limit, s.controller(), filepath.Join(filepath.Dir(c.dir), "cgroup.subtree_control"), strings.Join(c.controllers, " "), c.why)
		}
	}
	return nil
}

func (c *cgroups) tree(name string, limits protocol.ProcessLimits) (tree, error) {
	l := &leaf{dir: filepath.Join(c.dir, name)}
	if err := makeCgroup(l.dir); err != nil {
		return nil, err
	}
	err := l.limit(limits)
	if err == nil {
		l.fd, err = unix.Open(l.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		os.Remove(l.dir)
		return nil, err
	}
	l.kin = c.kin.search(name) // the search stays in c.kin until remove
	return l, nil
}

func (c *cgroups) close() error { return (&leaf{dir: c.dir}).remove() }

// cgroupLock is held over mkdir and rmdir of a cgroup, because the kernel has a single lock for
// both. A goroutine waiting for the kernel's lock holds a thread. Without cgroupLock, a storm of
// starts took hundreds of threads, and Go keeps a thread for good.
var cgroupLock sync.Mutex

func makeCgroup(dir string) error {
	cgroupLock.Lock()
	defer cgroupLock.Unlock()
	return os.Mkdir(dir, 0o755)
}

func removeCgroup(dir string) error {
	cgroupLock.Lock()
	defer cgroupLock.Unlock()
	return unix.Rmdir(dir)
}

// leaf is the cgroup of one child. The child may make cgroups below. A program allowed to write to
// the cgroup.procs of another cgroup can leave the leaf.
type leaf struct {
	kin *search // nil: the leaf of a dead server
	dir string
	fd  int // of dir, until the fork; 0: closed

	removed atomic.Bool // dir is gone
}

// inLeaf reports whether process s is in a leaf not named name.
func (c *cgroups) inLeaf(s *stat, name string) bool {
	path, err := kernel.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/cgroup")
	_, leaf, ours := strings.Cut(string(path), "/"+filepath.Base(c.dir)+"/")
	leaf, _, _ = strings.Cut(leaf, "\n")
	leaf, _, _ = strings.Cut(leaf, "/")
	return err == nil && ours && leaf != name && !strings.HasSuffix(leaf, " (deleted)")
}

func (l *leaf) limit(limits protocol.ProcessLimits) error {
	for _, s := range settings(limits) {
		if err := os.WriteFile(filepath.Join(l.dir, s.file), []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("%w.%s is %s: %w", ErrLimitRefused, s.limit, s.value, err)
		}
	}
	return nil
}

func (l *leaf) cgroup() int { return l.fd }

func (l *leaf) trace() Trace {
	t := l.kin.trace()
	t.Cgroup = l.dir
	return t
}

func (c *cgroups) adopt(trace Trace, pid int) tree {
	return &leaf{dir: trace.Cgroup, kin: c.kin.searchAgain(trace, pid)}
}

func (l *leaf) mark() mark { return l.kin.mark() }

func (l *leaf) started(pid int) {
	l.closeFD()
	l.kin.started(pid)
}

func (l *leaf) running() { l.kin.running() }

func (l *leaf) closeFD() {
	if l.fd != 0 {
		unix.Close(l.fd)
		l.fd = 0
	}
}

func (*leaf) pins() bool { return false }
func (*leaf) soon() bool { return false } // rmdir waits for a lock shared by the whole system

func (l *leaf) empty(canWait bool) (bool, error) {
	if vacant, err := l.vacant(); !vacant {
		return false, err
	}
	return l.kin.empty(canWait)
}

// vacant reports whether the cgroup has no process. vacant removes the cgroup if there is no cgroup
// below: the system call for the removal also answers the question.
func (l *leaf) vacant() (bool, error) {
	err := l.rmdir()
	if err == nil || gone(err) {
		return true, nil
	}
	if !errors.Is(err, unix.EBUSY) {
		return false, fmt.Errorf("remove %s: %w", l.dir, err)
	}
	// EBUSY may also mean: there are empty cgroups below.
	events, err := l.read("cgroup.events")
	return bytes.Contains(events, []byte("populated 0")), ended(err)
}

func (l *leaf) read(file string) (text []byte, err error) {
	err = l.do(func() error {
		text, err = kernel.ReadFile(filepath.Join(l.dir, file))
		return err
	})
	return text, err
}

// do calls spare.do if there is a spare.
func (l *leaf) do(f func() error) error {
	if l.kin == nil {
		return f()
	}
	return l.kin.spare.do(f)
}

func (l *leaf) kill() error {
	found, err := l.kin.found(false) // search before killing: dead parents would hide their descendants
	return errors.Join(err, l.killMembers(), l.kin.spare.killThem(found))
}

// killMembers kills all processes in the cgroup at once. If the kernel refuses, killMembers kills
// each process on its own.
func (l *leaf) killMembers() error {
	err := l.do(func() error { return kernel.WriteFile(filepath.Join(l.dir, "cgroup.kill"), "1") })
	if ended(err) == nil {
		return nil
	}
	var spare *spare
	if l.kin != nil {
		spare = l.kin.spare
	}
	list, listErr := l.list()
	return errors.Join(err, listErr, spare.killThem(list))
}

// list returns the processes in the cgroup and in the cgroups below.
func (l *leaf) list() (list []*stat, err error) {
	err = l.do(func() error {
		list = nil
		return filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return ended(err)
			}
			procs, err := kernel.ReadFile(path)
			for _, field := range strings.Fields(string(procs)) {
				if pid, _ := strconv.Atoi(field); pid != 0 { // 0: a process of another PID namespace
					if s, err := lookStat(pid); err == nil {
						list = append(list, &s)
					} else if ended(err) != nil {
						return err
					}
				}
			}
			return ended(err)
		})
	})
	return list, err
}

func (l *leaf) members() []string {
	list, _ := l.list()
	if l.kin != nil {
		found, _ := l.kin.found(false)
		list = append(list, found...)
	}
	all := named(list)
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *leaf) oomKilled() bool {
	events, _ := os.ReadFile(filepath.Join(l.dir, "memory.events"))
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return n != "0\n"
		}
	}
	return false
}

func (l *leaf) usage(pressures bool) *protocol.Usage {
	stat, err := os.ReadFile(filepath.Join(l.dir, "cpu.stat"))
	if err != nil {
		return nil // the cgroup is gone
	}
	u := &protocol.Usage{
		Of:          protocol.UsageOfTree,
		UserMs:      uint64(field(stat, "user_usec ") / 1000),
		SystemMs:    uint64(field(stat, "system_usec ") / 1000),
		MemoryBytes: l.number("memory.current"),
		PIDs:        l.number("pids.current"),
	}
	if u.MemoryBytes == nil {
		u.MemoryBytes = l.resident()
	}
	if pressures {
		u.CPUPressure = l.pressure("cpu.pressure")
		u.MemoryPressure = l.pressure("memory.pressure")
		u.IOPressure = l.pressure("io.pressure")
	}
	return u
}

// number is the number in file; nil if there is none.
func (l *leaf) number(file string) *uint64 {
	text, err := os.ReadFile(filepath.Join(l.dir, file))
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// pressure is the value "some" for the last 10 s; 0 if the kernel does not measure pressure.
// (psi.rst)
func (l *leaf) pressure(file string) float64 {
	text, _ := os.ReadFile(filepath.Join(l.dir, file))
	return field(text, "some avg10=")
}

// field is the number after the first occurrence of name in text; 0 if there is none.
func field(text []byte, name string) (n float64) {
	if _, rest, ok := strings.Cut(string(text), name); ok {
		fmt.Sscan(rest, &n)
	}
	return n
}

// rmdir removes dir. Once dir is gone, rmdir no longer waits for the kernel.
func (l *leaf) rmdir() error {
	if l.removed.Load() {
		return nil
	}
	err := removeCgroup(l.dir)
	if err == nil || gone(err) {
		l.removed.Store(true)
	}
	return err
}

func (l *leaf) remove() error {
	l.closeFD()
	if l.kin != nil {
		l.kin.remove()
	}
	err := l.rmdir()
	if errors.Is(err, unix.EBUSY) {
		below, _ := os.ReadDir(l.dir)
		for _, d := range below {
			if d.IsDir() {
				(&leaf{dir: filepath.Join(l.dir, d.Name())}).remove() // an error here shows in the removal of l.dir
			}
		}
		err = l.rmdir()
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", l.dir, err)
	}
	return nil
}
