package trees

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// taskReserve is how many processes and threads starts leave to the rest of the program: the
// runtime ends a program when it gets no thread.
const taskReserve = 32

// room is the list of bounds on the number of processes and threads. The server does not notice
// bounds added or lowered while it runs; the fork fails then.
type room []*bound

// bound is one limit.
type bound struct {
	name string       // as administrators call the limit
	file string       // contains the limit
	max  atomic.Int64 // each start reads and updates max
	// used contains the current count, as its only number or after a slash. The file stays open,
	// because each start reads the count. Bounds with the same count share the file.
	used *os.File
}

func newRoom() (r room) {
	add := func(name, file, used string) {
		b := &bound{name: name, file: file}
		if !b.readMax() {
			return // there is no limit
		}
		if n := len(r); n > 0 && r[n-1].used.Name() == used {
			b.used = r[n-1].used
		} else if f, err := os.Open(used); err == nil {
			b.used = f
		} else {
			return
		}
		r = append(r, b)
	}
	add("kernel.pid_max", "/proc/sys/kernel/pid_max", "/proc/loadavg")
	add("kernel.threads-max", "/proc/sys/kernel/threads-max", "/proc/loadavg")
	dir, root, err := OwnCgroup("pids")
	if err != nil {
		dir, root, err = OwnCgroup("")
	}
	for ; err == nil && dir != root; dir = filepath.Dir(dir) { // the root has no limit
		add("pids.max in "+dir, filepath.Join(dir, "pids.max"), filepath.Join(dir, "pids.current"))
	}
	return r
}

func (r room) close() {
	for _, b := range r {
		b.used.Close() // several bounds may share the file: the first closes it
	}
}

// check returns an ErrLimit if another process may be too many.
func (r room) check() error {
	var used int64
	for i, b := range r {
		if i == 0 || b.used != r[i-1].used {
			used = b.now()
		}
		if used+taskReserve < b.max.Load() || !b.readMax() || used+taskReserve < b.max.Load() { // readMax: the limit may have been raised
			continue
		}
		return fmt.Errorf("%w: %s is %d, and %d processes and threads are in use: end some, or raise it", ErrLimit, b.name, b.max.Load(), used)
	}
	return nil
}

// String lists the limits that may have made a fork fail.
func (r room) String() string {
	text := "RLIMIT_NPROC of this user"
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		text += fmt.Sprintf(" is %d", limit.Cur)
	}
	for _, b := range r {
		b.readMax()
		text += fmt.Sprintf(", %s is %d", b.name, b.max.Load())
	}
	return text
}

// readMax returns false if there is no limit: the file says max, or is missing.
func (b *bound) readMax() bool {
	text, err := os.ReadFile(b.file)
	if err != nil {
		return false
	}
	max, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		b.max.Store(math.MaxInt64)
		return false
	}
	b.max.Store(max)
	return true
}

func (b *bound) now() (used int64) {
	var text [64]byte
	n, _ := b.used.ReadAt(text[:], 0) // the content is shorter than text, so ReadAt returns EOF
	now := strings.TrimSpace(string(text[:n]))
	if _, behind, found := strings.Cut(now, "/"); found { // 0.20 0.18 0.12 1/80 11206
		now, _, _ = strings.Cut(behind, " ")
	}
	used, _ = strconv.ParseInt(now, 10, 64)
	return used
}

// OwnCgroup returns this process's directory in the hierarchy of a controller of cgroup v1, or in
// the hierarchy of v2 if controller is "". root is the visible root of this hierarchy. In hybrid
// mode the tree of v2 is mounted below the trees of v1.
func OwnCgroup(controller string) (dir, root string, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	var path string
	for line := range strings.Lines(string(groups)) { // 8:pids:/path
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && f[1] == controller {
			path = f[2]
		}
	}
	if path == "" || strings.HasPrefix(path, "/..") {
		return "", "", fmt.Errorf("this process cannot see its cgroup (/proc/self/cgroup: %q)", path)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(mounts)) {
		// ID, parent, device, root, mount point, options …, "-", type, source, options
		before, after, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		if v2 := controller == ""; v2 && g[0] != "cgroup2" || !v2 && (g[0] != "cgroup" || !has(g[2], controller)) {
			continue
		}
		root = unescape(f[4])
		if rel, err := filepath.Rel(unescape(f[3]), path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(root, rel), root, nil
		}
	}
	return "", "", fmt.Errorf("no file system with the cgroup %s is mounted: %w", path, errors.Join(err, fs.ErrNotExist))
}

// has reports whether the comma-separated list contains name.
func has(list, name string) bool { return strings.Contains(","+list+",", ","+name+",") }
