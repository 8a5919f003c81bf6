//go:build unix && !linux

package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/rules"
)

// This file is for systems other than Linux. There, children survive a killed server, each child
// holds a waiting thread, and only process groups contain children.

const (
	fionread   = 0x4004667f // FIONREAD of the BSDs
	getTermios = unix.TIOCGETA
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
	soft, _, err := trees.NoFile()
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

// order knows nothing here.
type order struct{}

func newOrder() *order { return new(order) }

func (*order) close()                  {}
func (*order) add(*stream)             {}
func (*order) remove(*stream)          {}
func (*order) first(a, b *stream) bool { return false }

// forker forks on the calling thread.
type forker struct{ ID int }

func newForker(bool) (*forker, error) { return new(forker), nil }

func (*forker) Close() {}

// birth is everything that the fork of a child needs.
type birth struct {
	spec   *Spec
	path   string
	argv   []string
	theirs []uintptr
	tree   *trees.Tree
	thread *forker
	kept   *kept
	after  time.Duration
	jail   *os.File
	level  string
}

func (h *Host) fork(_ context.Context, b *birth) (pid int, err error) {
	if b.spec.Umask != nil || b.spec.NoNewPrivs {
		return 0, fmt.Errorf("%w: this system has no umask and no noNewPrivs for programs: leave them out", ErrUser)
	}
	attr := &syscall.ProcAttr{Dir: b.spec.Dir, Env: b.spec.Env, Files: b.theirs, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: b.spec.TTY}}
	return syscall.ForkExec(b.path, b.argv, attr)
}

// Only Linux has lanes: no Intake has a chain.

func (*stream) moveKept() bool { return false }

type keptStdin struct{ chain *arena.Chain }

func (*stdin) restore() {}

func (*stdin) resume() {}

func (*stdin) keep(_ [16]byte, b []byte, _ int) ([]byte, error) { return b, nil }

func (*stdin) moveKept(uintptr, []byte) (int, error) { return 0, nil }

// Only Linux has holders.
type (
	slots struct{}
	kept  struct{}
)

func openSlots(cfg HostConfig) (*slots, error) {
	if cfg.Holder != nil {
		return nil, errors.ErrUnsupported
	}
	return nil, nil
}

func (*slots) runs() *atomic.Uint64                    { return nil }
func (*slots) close()                                  {}
func (h *Host) keep(*Born, *Spec, bool) (*kept, error) { return nil, nil }
func (*kept) forget()                                  {}
func (*kept) born(*Born)                               {}
func (h *Host) find([]holder.Found)                    {}

// mayHang is always false here: only Linux has another way to fork.
func mayHang(_, _ string) bool { return false }

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

// enclose allows every directory, or none: this system cannot keep a path in a directory.
func (s *Spec) enclose(rule *rules.Rule, _ func(string)) error {
	if root, ok := rule.CwdRoot(s.Dir); !ok || root != "/" {
		return &rules.Refusal{What: "cwd", Name: s.Dir, Word: rules.Cwd}
	}
	return nil
}

func realPath(path string) (string, error) { return filepath.EvalSymlinks(path) }
