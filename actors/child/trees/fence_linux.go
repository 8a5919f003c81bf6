package trees

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxKept is how many processes and threads a fence keeps free for the server. If the limit is low,
// kept returns a quarter of the limit instead. Hanging look-ups and file calls may use most of the
// kept threads: see Host.Threads.
const maxKept = 192

func kept(max int64) int64 { return min(max/4, maxKept) }

// fence limits the processes and threads of all children together, and so keeps enough for the
// server: the Go runtime ends a program when it gets no thread.
//
// If the pids controller is delegated, the fence is the server's directory in cgroup v2. Otherwise
// the fence is a cgroup v1 containing the forking threads; their children are born in this cgroup:
//
//	<our own cgroup of the pids controller>/troupe-<server>
type fence struct {
	dir     string   // "": there is no fence
	outside string   // the parent of a cgroup v1; "": the fence is a cgroup v2
	used    *os.File // pids.current
	why     string   // why there is no fence, or only a weak fence; "": the fence holds

	mu    sync.Mutex // several starts use the fence
	limit int64      // pids.max
	tids  []int      // of the forking threads
}

func (ts *Trees) newFence() *fence {
	f := &fence{limit: math.MaxInt64}
	v2, ok := ts.containment.(*cgroups)
	if ok && slices.Contains(v2.controllers, "pids") {
		f.dir = v2.dir
	} else if err := f.make(ts); err != nil {
		f.why = fmt.Sprintf("programs share the limits of processes and threads with the server, so a program that forks without end can end the server: no cgroup of the pids controller: %v", err)
		ts.log.Info(f.why) // no warning: most users can change nothing about it
		return f
	}
	var err error
	if f.used, err = os.Open(filepath.Join(f.dir, "pids.current")); err != nil {
		f.why = err.Error()
		f.close()
	}
	return f
}

// make makes the cgroup v1, unless an earlier server of the holder has made it.
func (f *fence) make(ts *Trees) error {
	own, _, err := OwnCgroup("pids")
	if err != nil {
		return err
	}
	self, err := ts.self()
	if err != nil {
		return err
	}
	entries, _ := os.ReadDir(own)
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), cgroupPrefix)
		if s, ok := parseServer(name); ours && ok && s.dead(self) {
			(&leaf{dir: filepath.Join(own, entry.Name())}).remove() // fails while the cgroup has processes
		}
	}
	dir := filepath.Join(own, cgroupPrefix+self.String())
	if err := os.Mkdir(dir, 0o755); err != nil && !(ts.holder != nil && errors.Is(err, fs.ErrExist)) {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "tasks")); err != nil {
		unix.Rmdir(dir)
		return err
	}
	f.dir, f.outside = dir, own
	return nil
}

// byThread reports whether only the children of enclosed threads are in the fence.
func (f *fence) byThread() bool { return f.outside != "" }

// enclose puts all children forked by thread tid into the fence.
func (f *fence) enclose(tid int) {
	if f.outside == "" || tid == 0 {
		return
	}
	err := f.move(tid, f.dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.why = fmt.Sprintf("programs are not limited in %s: %v", f.dir, err)
		return
	}
	f.tids = append(f.tids, tid)
}

func (f *fence) move(tid int, dir string) error {
	return os.WriteFile(filepath.Join(dir, "tasks"), []byte(strconv.Itoa(tid)), 0)
}

// check sets the limit according to the current room r. If there is no room for another child,
// check returns an ErrLimit.
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
			b.readMax() // the maximum may have been raised
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

// restrain limits a child if there is no fence. RLIMIT_NPROC counts all processes of the server's
// user; a lower limit for the child stops the child before the server. restrain comes just after
// the exec: if the limit came before the exec, the child would be traced and would run without its
// set-user-ID bit (ptrace(2)).
func (f *fence) restrain(pid int) {
	var limit, own unix.Rlimit
	if f.used != nil || os.Geteuid() == 0 || unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return
	}
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil && limit.Cur < own.Cur {
		return // an earlier server of the holder has restrained the child
	}
	limit.Cur -= uint64(kept(int64(min(limit.Cur, math.MaxInt64))))
	limit.Max = min(limit.Max, limit.Cur)
	unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil) // fails for a program running as another user
}

// share is how many processes and threads the children may have, if they use used now. by is the
// bound deciding the limit; nil: no bound.
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

// kept is how many processes and threads the children leave to the server, with the current bounds.
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

// close removes the fence. No child may be left.
func (f *fence) close() {
	if f.used != nil {
		f.used.Close()
	}
	if f.outside == "" {
		return
	}
	for _, tid := range f.tids {
		f.move(tid, f.outside) // fails if the thread has ended
	}
	var pause Backoff
	for range KillTries / 4 { // exited processes stay in the cgroup for another moment
		if (&leaf{dir: f.dir}).remove() == nil { // also removes the cgroups of servers killed inside the fence
			return
		}
		pause.Wait()
	}
}
