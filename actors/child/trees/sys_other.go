//go:build unix && !linux

package trees

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file is for systems other than Linux. There, children survive a killed server, each child
// holds a waiting thread, and only process groups contain children.

const maxRSSUnit = 1 // ru_maxrss is in bytes

// room does nothing here. On Linux, room checks the limits on the number of processes.
type room struct{}

func newRoom() room         { return room{} }
func (room) check() error   { return nil }
func (room) close()         {}
func (room) String() string { return "RLIMIT_NPROC of this user, or the system's" }

// exits gives each child a waiting goroutine. On Linux, one goroutine waits for all children.
type exits struct{}

func newExits() (*exits, error) { return new(exits), nil }

func (*exits) close()                     {}
func (*exits) reserve(int) (pidfd int)    { return -1 }
func (*exits) watch(_ *Tree, seen func()) { go seen() }

// Wait waits for the end of the child.
func (t *Tree) Wait() bool {
	t.mu.Lock()
	exited := t.status != nil
	t.mu.Unlock()
	if exited {
		return true
	}
	var ws unix.WaitStatus
	var usage unix.Rusage
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(t.pid, &ws, 0, &usage)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.status = lostStatus()
	default:
		t.status = exitStatus(Ending{syscall.WaitStatus(ws), usage})
	}
	return true
}

// Stopped reports false: nobody knows.
func (t *Tree) Stopped() bool { return false }

func (t *Tree) reap() {}

func endHeld(Holder, int) (status syscall.WaitStatus) { return status }

func (ts *Trees) startReaper() (stop func() error) { return func() error { return nil } }

// spare does nothing here: kills need no descriptors. On Linux, spare keeps descriptors for kills.
type spare struct{}

func newSpare(*slog.Logger) *spare { return nil }
func (*spare) close()              {}

// mark is empty here. On Linux, a mark identifies the processes of a child.
type mark struct{}

func (ts *Trees) newContainment(cfg Config) (containment, error) {
	if cfg.Containment != "" && cfg.Containment != ContainGroup {
		return nil, fmt.Errorf("containment %q is not available on this system: use %q", cfg.Containment, ContainGroup)
	}
	return groups{}, nil
}

// fence sets no limit here. On Linux, fence limits the processes and threads of all children
// together.
type fence struct {
	why   string
	limit int64
}

func (ts *Trees) newFence() *fence {
	return &fence{why: "programs share the limits of processes and threads with the server: this system has no cgroups"}
}
func (*fence) byThread() bool          { return false }
func (*fence) enclose(int)             {}
func (*fence) check(room) error        { return nil }
func (*fence) restrain(int)            {}
func (*fence) kept(room) int64         { return 192 }
func (*fence) close()                  {}
func (f *fence) told() (int64, string) { return 0, f.why }

type groups struct{}

func (groups) kind() Containment                                 { return ContainGroup }
func (groups) tree(string, protocol.ProcessLimits) (tree, error) { return &group{}, nil }
func (groups) adopt(_ Trace, pid int) tree                       { return &group{leader: pid} }
func (groups) close() error                                      { return nil }
func (groups) endAll()                                           {}
func (groups) endLost()                                          {}

func (groups) allows(limits protocol.ProcessLimits) error {
	if limits != (protocol.ProcessLimits{}) {
		return fmt.Errorf("%w are not available on this system", ErrLimitRefused)
	}
	return nil
}

// group is the process group of a child.
type group struct{ leader int }

func (*group) cgroup() int                { return 0 }
func (*group) trace() Trace               { return Trace{} }
func (g *group) started(pid int)          { g.leader = pid }
func (*group) mark() mark                 { return mark{} }
func (*group) running()                   {}
func (*group) pins() bool                 { return false }
func (*group) soon() bool                 { return false }
func (*group) usage(bool) *protocol.Usage { return nil }
func (*group) oomKilled() bool            { return false }
func (*group) remove() error              { return nil }

func (g *group) empty(bool) (bool, error) {
	return errors.Is(syscall.Kill(-g.leader, 0), syscall.ESRCH), nil
}

func (g *group) kill() error {
	if err := syscall.Kill(-g.leader, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("SIGKILL to process group %d: %w", g.leader, err)
	}
	return nil
}

func (g *group) members() []string { return []string{fmt.Sprintf("process group %d", g.leader)} }

func usageOfFirst(int) *protocol.Usage { return nil }

// End kills a child that has no tree, waits for its end, and returns how it has ended.
func End(pid int) (status syscall.WaitStatus) {
	syscall.Kill(pid, syscall.SIGKILL)
	syscall.Wait4(pid, &status, 0, nil)
	return status
}

// Ended reports whether a process has ended. A process that waits to be reaped has not.
func Ended(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
