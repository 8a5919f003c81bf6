package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// forker is a place for forks: a thread of its own, with which the children die, or a desk for children of a holder.
type forker struct {
	ID      int    // of the thread; 0: there is none
	Blocked uint64 // as fork.Attr.Blocked
	starter
}

type starter interface {
	Start(a *fork.Attr) (pid int, err error)
	Begin(a *fork.Attr, status int) (pid int, err error)
	Close()
}

func newForker(desk bool) (*forker, error) {
	if desk {
		d, err := fork.NewDesk()
		return &forker{Blocked: d.Blocked, starter: d}, err
	}
	t, err := fork.NewThread()
	t.Do(func() error { dropAmbient(); return nil })
	return &forker{ID: t.ID, Blocked: t.Blocked, starter: t}, err
}

// birth is everything that the fork of a child needs.
type birth struct {
	spec   *Spec
	path   string // of the program; a relative path begins at spec.Dir
	argv   []string
	theirs []uintptr // the child's 0, 1 and 2
	tree   *trees.Tree
	thread *forker // nil: the child may hang, or has steps of its own, and a thread is taken for the fork alone
	after  time.Duration
	kept   *kept // by the holder; nil: the child is a child of this program

	// forkJail sets these. Nil and empty: no jail confines files.
	jail  *os.File // the socket of the jail
	level string   // of its sandbox
}

// fork forks a child, and waits for the exec of its program: for b.after at most, if the child may hang. The error ErrNoAnswer means: the
// child was killed, but has not ended.
func (h *Host) fork(ctx context.Context, b *birth) (pid int, err error) {
	if b.spec.policy != nil {
		return h.forkJail(ctx, b)
	}
	a, err := attrOf(b)
	if err != nil {
		return 0, err
	}
	b.tree.Mark(a)
	b.kept.mark(a)
	if b.thread != nil {
		a.Blocked = b.thread.Blocked
		pid, err = h.newborn(b, func(f *forker) (int, error) { return f.Start(a) })
	} else {
		pid, err = h.forkApart(ctx, b, a)
	}
	switch {
	case errors.Is(err, ErrNoAnswer):
		return pid, err
	case err == nil:
		err = trees.ScoreLate(pid, b.spec.Limits)
	}
	if err != nil && pid != 0 {
		b.bury(pid)
	}
	return pid, stepError(err, b.spec)
}

// bury ends the child of a failed start, and returns how it has ended.
func (b *birth) bury(pid int) syscall.WaitStatus {
	unix.Kill(pid, unix.SIGKILL) // before the holder forgets whose it is
	b.kept.unborn()
	return b.tree.Bury(pid)
}

// newborn calls fork with a thread, and notes the child that it returns.
func (h *Host) newborn(b *birth, fork func(*forker) (int, error)) (pid int, err error) {
	defer strike("forked")
	if b.thread != nil {
		return h.trees.Fork(func() (int, error) { return fork(b.thread) })
	}
	forked := make(chan struct{})
	h.poolFor(b.spec).use(func(thread *forker) {
		pid, err = h.trees.Fork(func() (int, error) { return fork(thread) })
		close(forked)
	})
	<-forked
	return pid, err
}

// forkApart forks a child that may hang before it executes its program, or gets another user.
func (h *Host) forkApart(ctx context.Context, b *birth, a *fork.Attr) (pid int, err error) {
	r, w, err := pipe()
	if err != nil {
		return 0, trees.NoDescriptor(err)
	}
	status, err := trees.OurFile(r, "status")
	if err != nil {
		unix.Close(w)
		return 0, err
	}
	defer status.Close()
	over := cutting(ctx, status, b.after)
	defer over(&err)
	pid, err = h.newborn(b, func(f *forker) (int, error) {
		a.Blocked = f.Blocked
		return f.Begin(a, w)
	})
	unix.Close(w)
	if err != nil {
		return pid, err
	}
	report := make([]byte, fork.ReportSize)
	n, err := io.ReadFull(status, report)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		unix.Kill(pid, unix.SIGKILL)
		return pid, noAnswer(fmt.Sprintf("execution of %q in working directory %q", b.path, b.spec.Dir), b.after)
	}
	return pid, fork.Reported(report[:n])
}

// cutting limits the reads of status to the time after, or to that of ctx. The caller calls over with its result.
func cutting(ctx context.Context, status *os.File, after time.Duration) (over func(*error)) {
	status.SetReadDeadline(time.Now().Add(after))
	stop := context.AfterFunc(ctx, func() { status.SetReadDeadline(time.Unix(1, 0)) })
	return func(err *error) {
		if !stop() && errors.Is(*err, ErrNoAnswer) {
			*err = errors.Join(context.Cause(ctx), *err)
		}
	}
}

// attrOf is how a child without a sandbox is forked.
func attrOf(b *birth) (*fork.Attr, error) {
	spec := b.spec
	a := &fork.Attr{
		Path: b.path, Dir: spec.Dir, Argv: b.argv, Env: spec.Env, Files: b.theirs,
		Session: true, Terminal: spec.TTY, DeathSignal: true,
		Umask: -1, NoNewPrivs: spec.NoNewPrivs, Nice: spec.Limits.Nice, User: spec.User.ids(),
	}
	if spec.dir != nil {
		a.DirFile = int(spec.dir.Fd())
	}
	if spec.Umask != nil {
		a.Umask = int(*spec.Umask)
	}
	if trees.ScoresItself(spec.Limits) {
		a.OOMScoreAdj = spec.Limits.OOMScoreAdj
	}
	if nofile := noFileOfChildren(); nofile != nil && spec.Limits.NoFile == nil {
		a.Limits = append(a.Limits, fork.Limit{Resource: unix.RLIMIT_NOFILE, Limit: *nofile})
	}
	limits, err := trees.Limits(spec.Limits)
	a.Limits = append(a.Limits, limits...)
	return a, err
}

// noFileOfChildren returns the RLIMIT_NOFILE that this program was started with; nil: unknown. Package syscall raises it for this
// program, and gives the old one to children of syscall.ForkExec alone. So one such child is asked, and killed at once.
var noFileOfChildren = sync.OnceValue(func() *unix.Rlimit {
	attr := &syscall.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{jail.Name}, attr) // a jail without a plan does nothing
	if err != nil {
		return nil
	}
	defer trees.End(pid)
	has := new(unix.Rlimit)
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, has) != nil {
		return nil
	}
	return has
})
