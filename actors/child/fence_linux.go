package child

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxKept is how many processes and threads a fence keeps for the server, of many; of few it
// keeps a quarter. Look-ups and file calls that hang hold most of them: see Host.Threads.
const maxKept = 192

func kept(max int64) int64 { return min(max/4, maxKept) }

// fence is the limit of processes and threads that all children have together. It keeps a part of
// what there may be here for the server: where the Go runtime gets no thread it ends the program.
//
// It is the directory of a server in cgroup v2, where the pids controller is delegated. Else it
// is a cgroup v1 of the threads that fork; what they fork is born there:
//
//	<our own cgroup of the pids controller>/troupe-<server>
type fence struct {
	dir     string   // ""; there is none
	outside string   // of a cgroup v1 the one above; ""; it is one of v2
	used    *os.File // pids.current
	why     string   // there is none, or it is a weak one; "": it holds

	mu    sync.Mutex // several spawners
	limit int64      // pids.max
	tids  []int      // of the threads that fork
}

func newFence(c containment, log *slog.Logger) *fence {
	f := &fence{limit: math.MaxInt64}
	v2, ok := c.(*cgroups)
	if ok && slices.Contains(v2.controllers, "pids") {
		f.dir = v2.dir
	} else if err := f.make(); err != nil {
		f.why = fmt.Sprintf("programs share the limits of processes and threads with the server, and one that forks without end can end it: no cgroup of the pids controller: %v", err)
		log.Warn(f.why)
		return f
	}
	var err error
	if f.used, err = os.Open(filepath.Join(f.dir, "pids.current")); err != nil {
		f.why = err.Error()
		f.close()
	}
	return f
}

// make makes the cgroup v1.
func (f *fence) make() error {
	own, _, err := ownCgroup("pids")
	if err != nil {
		return err
	}
	self, err := self()
	if err != nil {
		return err
	}
	entries, _ := os.ReadDir(own)
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), cgroupPrefix)
		if s, ok := parseServer(name); ours && ok && s.dead(self) {
			(&leaf{dir: filepath.Join(own, entry.Name())}).remove() // fails while something is left in it
		}
	}
	dir := filepath.Join(own, cgroupPrefix+self.String())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "tasks")); err != nil {
		unix.Rmdir(dir)
		return err
	}
	f.dir, f.outside = dir, own
	return nil
}

// enclose puts what a thread forks into the fence.
func (f *fence) enclose(tid int) {
	if f.outside == "" || tid == 0 {
		return
	}
	if err := f.move(tid, f.dir); err != nil {
		f.why = fmt.Sprintf("programs are not limited in %s: %v", f.dir, err)
		return
	}
	f.tids = append(f.tids, tid)
}

func (f *fence) move(tid int, dir string) error {
	return os.WriteFile(filepath.Join(dir, "tasks"), []byte(strconv.Itoa(tid)), 0)
}

// check sets the limit for what there may be now, and returns an ErrLimit if there is no room for
// one more child.
func (f *fence) check(r room) error {
	if f.used == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	used := (&bound{used: f.used}).now()
	limit, by := r.share(used)
	if used >= limit {
		for _, b := range r {
			b.readMax() // it may have been raised
		}
		limit, by = r.share(used)
	}
	if d := limit - f.limit; by != nil && (d < -8 || d > 8) {
		if err := os.WriteFile(filepath.Join(f.dir, "pids.max"), []byte(strconv.FormatInt(max(limit, 1), 10)), 0); err != nil {
			f.why = fmt.Sprintf("programs are not limited: %v", err)
		}
		f.limit = limit
	}
	if used < limit {
		return nil
	}
	max := by.max.Load()
	return fmt.Errorf("%w: %s is %d, programs use %d processes and threads, and %d are kept for the server: end some, or raise it", ErrLimit, by.name, max, used, kept(max))
}

// restrain limits a child where there is no fence: RLIMIT_NPROC counts what the server's user has,
// and stops a child before it stops the server. It comes just after the exec: a program set
// beforehand would run without its set-user-ID bit (ptrace(2)).
func (f *fence) restrain(pid int) {
	var limit unix.Rlimit
	if f.used != nil || os.Geteuid() == 0 || unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return
	}
	limit.Cur -= uint64(kept(int64(min(limit.Cur, math.MaxInt64))))
	limit.Max = min(limit.Max, limit.Cur)
	unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil) // fails for a program that runs as another
}

// share is how many of what there may be the children may have, who use so many now, and what
// bounds that; nil: nothing does.
func (r room) share(used int64) (limit int64, by *bound) {
	limit = math.MaxInt64
	for _, b := range r {
		max := b.max.Load()
		if max == math.MaxInt64 {
			continue
		}
		others := b.now() - used
		if l := max - others - kept(max); l < limit {
			limit, by = l, b
		}
	}
	return limit, by
}

// kept is how many processes and threads children leave to the server, as things are.
func (f *fence) kept(r room) int64 {
	least := int64(maxKept)
	for _, b := range r {
		least = min(least, kept(b.max.Load()))
	}
	return least
}

func (f *fence) told() (limit int64, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used == nil || f.limit == math.MaxInt64 {
		return 0, f.why
	}
	return f.limit, f.why
}

// close removes the fence. No child is left.
func (f *fence) close() {
	if f.used != nil {
		f.used.Close()
	}
	if f.outside == "" {
		return
	}
	for _, tid := range f.tids {
		f.move(tid, f.outside) // fails if it has ended
	}
	var pause backoff
	for range killTries / 4 { // what has exited is in it for another moment
		if (&leaf{dir: f.dir}).remove() == nil { // and those of servers that were killed within
			return
		}
		pause.wait()
	}
}
