//go:build unix && !linux

package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file is for systems other than Linux. There, children survive a killed server, each child
// holds a waiting thread, and only process groups contain children.

const (
	fionread   = 0x4004667f // FIONREAD of the BSDs
	getTermios = unix.TIOCGETA
	maxRSSUnit = 1 // ru_maxrss is in bytes
)

func pipe() (r, w int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return 0, 0, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds[0], fds[1], nil
}

// SealFiles prevents children from inheriting the files this program was started with, except 0 to
// 2. Only a program may call SealFiles, not a Host, because the effect is global.
func SealFiles() error {
	soft, _, err := noFile()
	if err != nil {
		return fmt.Errorf("RLIMIT_NOFILE: %w", err)
	}
	for fd := 3; uint64(fd) < min(soft, 1<<16); fd++ {
		unix.CloseOnExec(fd)
	}
	return nil
}

func growPipe(uintptr, int) {}

func ptyMax() string { return "" }

// room does nothing here. On Linux, room checks the limits on the number of processes.
type room struct{}

func newRoom() room         { return room{} }
func (room) check() error   { return nil }
func (room) close()         {}
func (room) String() string { return "RLIMIT_NPROC of this user, or the system's" }

// exits gives each child a waiting goroutine. On Linux, one goroutine waits for all children.
type exits struct{}

func newExits() (*exits, error) { return new(exits), nil }

func (*exits) close()                  {}
func (*exits) reserve(int) (pidfd int) { return -1 }
func (*exits) watch(p *process)        { go p.wait() }

// order knows nothing here.
type order struct{}

func newOrder() *order { return new(order) }

func (*order) close()                  {}
func (*order) add(*stream)             {}
func (*order) remove(*stream)          {}
func (*order) first(a, b *stream) bool { return false }

// forker forks on the calling thread.
type forker struct{ ID int }

func newForker() (*forker, error) { return new(forker), nil }

func (*forker) Close() {}

// birth is everything that the fork of a child needs.
type birth struct {
	spec   *Spec
	path   string
	argv   []string
	theirs []uintptr
	tree   tree
	thread *forker
	after  time.Duration
}

func (h *Host) fork(_ context.Context, b *birth) (pid int, _ *jailer, err error) {
	if b.spec.Umask != nil || b.spec.NoNewPrivs {
		return 0, nil, fmt.Errorf("%w: this system has no umask and no noNewPrivs for programs: leave them out", ErrUser)
	}
	attr := &syscall.ProcAttr{Dir: b.spec.Dir, Env: b.spec.Env, Files: b.theirs, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: b.spec.TTY}}
	pid, err = syscall.ForkExec(b.path, b.argv, attr)
	return pid, nil, err
}

// mayHang is always false here: only Linux has another way to fork.
func mayHang(_, _ string) bool { return false }

// jailer is empty here. On Linux, a jailer is the server's side of a sandbox.
type jailer struct {
	socket *os.File
	level  string
}

// resolve refuses every sandbox: only Linux has them.
func (h *Host) resolve(spec *Spec, _ func(string)) error {
	if !spec.confined() {
		return nil
	}
	return fmt.Errorf("%w: this system cannot confine programs: leave sandbox out, or run the server on Linux", ErrSandbox)
}

// mayBecome refuses every user here: only Linux has the steps of such a start.
func mayBecome(u *User) error {
	return fmt.Errorf("%w %s: this system cannot start programs as another user: leave user out", ErrUser, u.Name)
}

// LookAs calls look: this system refuses every user before.
func LookAs(_ *User, look func()) error { look(); return nil }

func (*ends) give(*User) error { return nil }

func (h *Host) buryLate(*turn, int, tree, *Spec, string) {}

func (p *process) takeStatus() bool {
	p.mu.Lock()
	exited := p.status != nil
	p.mu.Unlock()
	if exited {
		return true
	}
	var ws unix.WaitStatus
	var usage unix.Rusage
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(p.pid, &ws, 0, &usage)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.status = lostStatus()
	default:
		p.status = exitStatus(syscall.WaitStatus(ws), &usage)
	}
	return true
}

func (p *process) Stopped() bool { return false }

func reap(int) {}

func (h *Host) startReaper() (stop func() error) { return func() error { return nil } }

// spare does nothing here: kills need no descriptors. On Linux, spare keeps descriptors for kills.
type spare struct{}

func newSpare(*slog.Logger) *spare { return nil }
func (*spare) close()              {}

// tag is empty here.
type tag struct{}

// mark is empty here. On Linux, a mark identifies the processes of a child.
type mark struct{}

func (h *Host) newContainment(cfg HostConfig) (containment, error) {
	h.endAll = func() {}
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

func newFence(containment, *slog.Logger) *fence {
	return &fence{why: "programs share the limits of processes and threads with the server: this system has no cgroups"}
}
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

func (groups) allows(limits protocol.ProcessLimits) error {
	if limits != (protocol.ProcessLimits{}) {
		return fmt.Errorf("%w are not available on this system", ErrLimitRefused)
	}
	return nil
}

// group is the process group of a child.
type group struct{ leader int }

func (*group) cgroup() int                              { return 0 }
func (*group) trace() Trace                             { return Trace{} }
func (g *group) started(pid int)                        { g.leader = pid }
func (*group) mark() mark                               { return mark{} }
func (*group) running()                                 {}
func (*group) pins() bool                               { return false }
func (*group) cheap() bool                              { return true }
func (*group) soon() bool                               { return false }
func (p *process) usage(pressures bool) *protocol.Usage { return p.tree.usage(pressures) }
func (*group) usage(bool) *protocol.Usage               { return nil }
func (*group) oomKilled() bool                          { return false }
func (*group) remove() error                            { return nil }

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

// enclose allows every directory, or none: this system cannot keep a path in a directory.
func (s *Spec) enclose(rule *rules.Rule, _ func(string)) error {
	if root, ok := rule.CwdRoot(s.Dir); !ok || root != "/" {
		return &rules.Refusal{What: "cwd", Name: s.Dir, Word: rules.Cwd}
	}
	return nil
}

func realPath(path string) (string, error) { return filepath.EvalSymlinks(path) }
