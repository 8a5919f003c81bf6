// Package trees finds, measures, kills and reaps the trees of processes that a host has started. A [Tree] is a child with all its
// descendants.
//
// # Where to look
//
//   - trees.go, kill.go: the trees of a host; the state of a tree, and its end
//   - containment.go, contain_linux.go: the methods for finding descendants; which server has started a process
//   - search_linux.go, search_tree_linux.go, census_linux.go, tag_linux.go, cgroup_linux.go, apart_linux.go: how descendants are found
//   - usage_linux.go: how trees are measured
//   - reap_linux.go, exits_linux.go, reaper_linux.go: the wait for a process; exits; orphans that this program adopts
//   - spare_linux.go: kills without a free descriptor
//   - room_linux.go, fence_linux.go: how many processes and threads there may be
//   - settings_linux.go, files.go: limits of a cgroup; descriptors
package trees

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Containment is the method for finding the descendants of a child when all of them must go.
type Containment string

// With each method, a search also finds processes with the child's tag (RLIMIT_LOCKS), and all
// descendants of the processes found. docs/protocol/supervision.md lists the processes no method finds.
const (
	// ContainCgroup puts each child into a cgroup (v2) of its own. The kernel kills a cgroup as a
	// unit. Root and the owner of the cgroup can leave the cgroup.
	ContainCgroup Containment = "cgroup"
	// ContainMarker gives each child a second tag (RLIMIT_RTTIME), also within another server.
	ContainMarker Containment = "marker"
	// ContainGroup finds the process group and the session of the child.
	ContainGroup Containment = "group"
)

// Errors of trees.
var (
	ErrLimit        = errors.New("limit reached")
	ErrLimitRefused = errors.New("limits") // a limit cannot be set
	ErrSurvivors    = errors.New("child: could not kill the whole tree")
)

// Trees has the trees of all children of a host. Any goroutine may call its methods.
type Trees struct {
	log         *slog.Logger
	holder      Holder // nil: the children are children of this program
	runs        *atomic.Uint64
	containment containment
	spare       *spare
	exits       *exits
	room        room
	fence       *fence
	stopReaper  func() error
	looking     sync.WaitGroup // goroutines that search for descendants
	begun       chan struct{}  // capacity 1; full: a child was started
	reaped      atomic.Int64   // strangers, by the reaper

	// forking is read-locked from a fork until its child is in unborn. The reaper of strangers takes
	// the write lock, so as not to mistake our own new child for a stranger.
	forking sync.RWMutex

	mu     sync.Mutex
	unborn map[int]struct{} // pids of children that have not executed their program yet
	live   map[*Tree]struct{}
}

// runs counts the trees of this program.
var runs atomic.Uint64

// Config configures Trees.
type Config struct {
	Containment Containment // the method to use; empty: the best available
	Subreaper   bool        // adopt, reap and at the end kill orphans of the whole program
	Log         *slog.Logger

	Holder Holder         // nil: there is none
	Runs   *atomic.Uint64 // how many trees all servers of the holder have made; nil: counted here
}

// Holder is the parent of the children, in the place of this program, and outlives this program. The kernel gives orphans to the holder.
// Package holder has one.
type Holder interface {
	PID() int
	// Look says how the child with this name has ended. Look leaves the child a zombie, and Reap reaps the child.
	Look(name string) (holder.End, error)
	Reap(name string) (holder.End, error)
	ReapOrphan(pid int) (holder.End, error)
}

// New kills the processes left behind by dead servers of this machine in the same kind of containment.
func New(cfg Config) (*Trees, error) {
	ts := &Trees{log: cfg.Log, holder: cfg.Holder, runs: cmp.Or(cfg.Runs, &runs), begun: make(chan struct{}, 1), unborn: make(map[int]struct{}), live: make(map[*Tree]struct{})}
	var err error
	// newExits makes the runtime open its poller; newSpare needs an open poller.
	if ts.exits, err = newExits(); err != nil {
		return nil, err
	}
	ts.spare = newSpare(ts.log)
	if ts.containment, err = ts.newContainment(cfg); err != nil {
		ts.spare.close()
		ts.exits.close()
		return nil, err
	}
	ts.fence = ts.newFence()
	ts.room = newRoom()
	ts.stopReaper = func() error { return nil }
	if cfg.Subreaper {
		ts.stopReaper = ts.startReaper()
	}
	return ts, nil
}

// EndLost kills what dead servers have left, and what earlier servers of the holder have started and no tree has. Meanwhile no tree is made. EndLost is for Trees with
// a Holder; without one, New has killed what was left.
func (ts *Trees) EndLost() {
	ts.containment.endLost()
	ts.hasBegun() // earlier servers may have left orphans
}

// Find calls find, which adopts children of earlier servers. Meanwhile no child is taken for an orphan.
func (ts *Trees) Find(find func()) {
	ts.forking.RLock()
	defer ts.forking.RUnlock()
	find()
}

// hasBegun wakes the reaper of strangers.
func (ts *Trees) hasBegun() {
	select {
	case ts.begun <- struct{}{}:
	default:
	}
}

// EndAll begins the end of all trees: from now on no search waits for its share of the time, and nobody asks whose a stray is.
func (ts *Trees) EndAll() { ts.containment.endAll() }

// Unborn are the pids of the children that have not executed their program yet.
func (ts *Trees) Unborn() []int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Sorted(maps.Keys(ts.unborn))
}

// AwaitUnborn waits for killed children that have not executed their program, as long as Kill tries: a filesystem may hang.
func (ts *Trees) AwaitUnborn() error {
	var pause Backoff
	for range KillTries {
		if len(ts.Unborn()) == 0 {
			return nil
		}
		pause.Wait()
	}
	return fmt.Errorf("%w: pids %v are killed, and end when their filesystem answers", ErrSurvivors, ts.Unborn())
}

// StopReaper kills the orphans that this program has adopted, and adopts no more.
func (ts *Trees) StopReaper() error { return ts.stopReaper() }

// Close removes what the trees have shared. No tree is left.
func (ts *Trees) Close() error {
	ts.looking.Wait() // all trees are empty, so no search begins any more
	ts.fence.close()
	err := ts.containment.close()
	ts.exits.close()
	ts.room.close()
	ts.spare.close()
	return err
}

// Containment is the method used for all trees.
func (ts *Trees) Containment() Containment { return ts.containment.kind() }

// Allows returns an ErrLimitRefused for limits impossible on this system. The system may still
// refuse an allowed limit at the start.
func (ts *Trees) Allows(limits protocol.ProcessLimits) error { return ts.containment.allows(limits) }

// Room returns an ErrLimit if another process may be too many.
func (ts *Trees) Room() error {
	if err := ts.room.check(); err != nil {
		return err
	}
	return ts.fence.check(ts.room)
}

// NoRoom lists the limits that may have made a fork fail.
func (ts *Trees) NoRoom() string { return ts.room.String() }

// Enclose puts all children forked by the threads tids into the fence, and sets its limit.
func (ts *Trees) Enclose(tids ...int) {
	for _, tid := range tids {
		ts.fence.enclose(tid)
	}
	ts.fence.check(ts.room)
}

// ByThread reports whether only the children of the threads of Enclose are in the fence.
func (ts *Trees) ByThread() bool { return ts.fence.byThread() }

// Restrain limits the processes of a new child, if nothing limits those of all children together.
func (ts *Trees) Restrain(pid int) { ts.fence.restrain(pid) }

// Limit is how many processes and threads all children together may have. limit 0 means: there
// is no limit, or the server did not set the limit. why says why the children's limit leaves too
// few processes for the server; "" means: enough are left.
func (ts *Trees) Limit() (limit int64, why string) { return ts.fence.told() }

// Kept is how many processes and threads the children leave to the server.
func (ts *Trees) Kept() int { return int(ts.fence.kept(ts.room)) }

// Fork calls fork, and notes the child that it returns: nobody takes it for a stranger.
func (ts *Trees) Fork(fork func() (pid int, err error)) (pid int, err error) {
	ts.forking.RLock()
	defer ts.forking.RUnlock()
	if pid, err = fork(); pid != 0 { // also after a failure, if the holder has to reap the child
		ts.mu.Lock()
		ts.unborn[pid] = struct{}{}
		ts.mu.Unlock()
	}
	return pid, err
}

// Bury kills the child of a failed start, and waits for its end. The result is how the child has ended, also if that was before the kill.
func (t *Tree) Bury(pid int) (status syscall.WaitStatus) {
	if t.holder == nil {
		status = End(pid)
	} else {
		status = endHeld(t.holder, pid)
	}
	t.mu.Lock()
	t.closePidfd()
	t.mu.Unlock()
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()
	delete(t.trees.unborn, pid)
	return status
}

// Tree is one child with its descendants.
type Tree struct {
	trees  *Trees
	tree   tree
	holder Holder // the parent of the child; nil: this program
	name   string
	pid    int // fixed by Begin
	// Ending returns how the program has ended, as the child says; ok is false if the child does not say it. Fixed before Watch; nil: the child
	// is the program.
	Ending func() (e Ending, ok bool)

	mu        sync.Mutex
	pidfd     int                  // -1 before Begin, once status is set, or if the system has no pidfd
	status    *protocol.ExitStatus // nil: the child runs
	searching bool                 // a search started by Empty is running
	empty     bool                 // the tree is empty, for good, and the child was reaped
}

// Make prepares the tree of a child that will be forked. Its caller calls Begin or Remove.
func (ts *Trees) Make(name string, limits protocol.ProcessLimits) (*Tree, error) {
	place, err := ts.containment.tree(name, limits)
	if err != nil {
		return nil, fmt.Errorf("containment: %w", err)
	}
	return &Tree{trees: ts, tree: place, holder: ts.holder, name: name, pidfd: -1}, nil
}

// Held reports whether the child is a child of the holder. Name is its name there.
func (t *Tree) Held() bool { return t.holder != nil }

// Name is the name of the child.
func (t *Tree) Name() string { return t.name }

// Own says, before the fork, that this program will be the parent of the child, although there is a holder.
func (t *Tree) Own() { t.holder = nil }

// Adopt returns the tree of a child that was forked earlier. Its caller calls Begin.
func (ts *Trees) Adopt(trace Trace, pid int) *Tree {
	return &Tree{trees: ts, tree: ts.containment.adopt(trace, pid), holder: ts.holder, name: trace.Name, pidfd: -1}
}

// Trace returns what Adopt needs.
func (t *Tree) Trace() Trace { return t.tree.trace() }

// Begin is called with the pid of the child, whose program runs. A second call does nothing.
func (t *Tree) Begin(pid int) {
	if t.pid == 0 {
		t.tree.started(pid)
		t.pidfd = t.trees.exits.reserve(pid)
		t.begin(pid)
	}
}

// BeginReaped is Begin for a child that an earlier server has had reaped. Its pid may be another process's. Ending is fixed before.
func (t *Tree) BeginReaped(pid int) {
	t.empty = t.tree.pins() // else it was not reaped
	t.begin(pid)
	t.Wait()
}

func (t *Tree) begin(pid int) {
	ts := t.trees
	t.pid = pid
	ts.mu.Lock()
	ts.live[t] = struct{}{}
	delete(ts.unborn, pid)
	ts.mu.Unlock()
	ts.hasBegun()
}

// Watch calls seen once, on a goroutine, when the child seems to have exited. Wait tells.
func (t *Tree) Watch(seen func()) {
	if t.Status() != nil {
		go seen()
		return
	}
	t.trees.exits.watch(t, seen)
}

// PID is the pid of the child.
func (t *Tree) PID() int { return t.pid }

// SearchAtExit searches for descendants after the exit of the child, if the containment needs that: so the next Empty has its answer.
func (t *Tree) SearchAtExit() {
	if t.tree.soon() {
		t.Search(true)
	}
}

// Status says how the child has ended; nil: the child runs.
func (t *Tree) Status() *protocol.ExitStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Signal sends a signal to the process group of the child. After the child's exit, Signal does nothing.
func (t *Tree) Signal(sig syscall.Signal) error {
	// The lock prevents reaping, after which the pid could belong to another process.
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != nil {
		return nil
	}
	if err := syscall.Kill(-t.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s to process group %d: %w", unix.SignalName(sig), t.pid, err)
	}
	return nil
}

// Empty reports whether the child was reaped and no descendant is left, as of the last search. If there were some, Empty starts another search.
func (t *Tree) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != nil && !t.empty && !t.searching {
		t.searching = true
		t.trees.looking.Go(func() {
			t.Search(true)
			t.mu.Lock()
			t.searching = false
			t.mu.Unlock()
		})
	}
	return t.empty
}

// SearchTo calls done with the result of Search on a goroutine.
func (t *Tree) SearchTo(done func(empty bool, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty { // Close may have begun to wait for searches
		go done(true, nil)
		return
	}
	t.trees.looking.Go(func() { done(t.Search(true)) })
}

// Search reports whether the child has exited and left no descendant behind. A true result stays
// true, because nobody is left to fork. False with an error means: unknown. canWait is as in
// tree.empty.
func (t *Tree) Search(canWait bool) (bool, error) {
	t.mu.Lock()
	exited, empty := t.status != nil, t.empty
	t.mu.Unlock()
	if empty || !exited {
		return empty, nil
	}
	if empty, err := t.tree.empty(canWait); !empty {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.empty && t.tree.pins() {
		t.reap()
	}
	t.empty = true
	return true, nil
}

// Usage is the resource usage of the tree, or of the program if the child has no cgroup; nil if unknown. isInit: the program is the first
// child of the child. Usage reads files.
func (t *Tree) Usage(pressures, isInit bool) *protocol.Usage {
	u := t.tree.usage(pressures)
	if u == nil || u.Of != protocol.UsageOfProgram || !isInit {
		return u
	}
	return usageOfFirst(t.pid)
}

// Remove forgets the tree, which is empty, or of a child that was not forked.
func (t *Tree) Remove() error {
	if err := t.tree.remove(); err != nil {
		return err
	}
	t.trees.mu.Lock()
	defer t.trees.mu.Unlock()
	delete(t.trees.live, t)
	return nil
}

// Ending is how a process has ended.
type Ending struct {
	Status syscall.WaitStatus
	Usage  unix.Rusage
}

// lostStatus is the status of a child reaped by other code of this program, or of the holder.
func lostStatus() *protocol.ExitStatus {
	return &protocol.ExitStatus{ExitCode: -1, Reason: "exit status unknown: another wait in the server took it"}
}

func (t *Tree) closePidfd() {
	if t.pidfd >= 0 {
		unix.Close(t.pidfd) // also removes the pidfd from the epoll set
		t.pidfd = -1
	}
}

// exitStatus converts the result of wait(2) to the wire's status. If a signal killed the process,
// the exit code is 128 plus the signal's number, as in a shell.
func exitStatus(e Ending) *protocol.ExitStatus {
	ws, usage := e.Status, e.Usage
	st := &protocol.ExitStatus{
		ExitCode:   ws.ExitStatus(),
		CoreDumped: ws.CoreDump(),
		Rusage: protocol.Rusage{
			UserMs:      uint64(usage.Utime.Nano() / 1e6),
			SystemMs:    uint64(usage.Stime.Nano() / 1e6),
			MaxRSSBytes: uint64(usage.Maxrss) * maxRSSUnit,
		},
	}
	if ws.Signaled() {
		sig := ws.Signal()
		st.ExitCode = 128 + int(sig)
		if st.Signal = unix.SignalName(sig); st.Signal == "" {
			st.Signal = fmt.Sprintf("SIG%d", int(sig)) // a real-time signal has no name
		}
	}
	return st
}
