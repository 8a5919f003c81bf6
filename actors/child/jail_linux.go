package child

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// forkJail forks a jail, and waits until its program runs, for b.after at most. The error ErrNoAnswer means: the
// jail was killed, but has not ended.
func (h *Host) forkJail(ctx context.Context, b *birth) (pid int, err error) {
	spec := b.spec
	plan, err := planOf(b)
	if err != nil {
		return 0, err
	}
	plan.Complete = h.completeSandbox
	j, err := confine.New(plan)
	if err != nil {
		return 0, err
	}
	j.Limits, j.Restrain = spec.Limits, h.trees.Restrain
	defer j.Close()
	defer func() {
		if err != nil || !plan.Policy.Files {
			j.Socket.Close()
		}
	}()
	over := cutting(ctx, j.Socket, b.after)
	defer over(&err)
	if err := b.kept.jail(j.Socket); err != nil {
		return 0, err
	}
	if b.kept != nil {
		j.Sending = b.kept.sending
	}
	a := j.Attr(b.theirs)
	a.Session, a.DeathSignal, a.Terminal = true, true, spec.TTY
	b.tree.Mark(a)
	b.kept.mark(a)
	pid, err = h.newborn(b, func(f *forker) (int, error) { return f.Start(a) })
	j.Forked()
	if err != nil {
		if pid != 0 {
			b.bury(pid)
		}
		return 0, j.ExplainFork(err)
	}
	level, err := j.Enter(pid, spec.Serve)
	switch {
	case err == nil && plan.Policy.Files:
		b.jail, b.level = j.Socket, level
		return pid, nil
	case err == nil:
		return pid, nil // the jail has become the program, or serves files as it is
	case errors.Is(err, os.ErrDeadlineExceeded):
		unix.Kill(pid, unix.SIGKILL)
		return pid, noAnswer(fmt.Sprintf("sandbox and execution of %q in working directory %q", b.path, spec.Dir), b.after)
	}
	return 0, j.Explain(err, b.bury(pid))
}

// planOf returns the Plan of a jail.
func planOf(b *birth) (*jail.Plan, error) {
	spec := b.spec
	plan := &jail.Plan{Policy: *spec.policy, Serve: spec.Serve != nil, Program: b.path, Argv: b.argv, Env: spec.Env, TTY: spec.TTY, Umask: spec.Umask}
	if spec.dir != nil {
		var stat unix.Stat_t
		if err := unix.Fstat(int(spec.dir.Fd()), &stat); err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrDir, spec.Dir, err)
		}
		plan.DirDev, plan.DirIno = stat.Dev, stat.Ino
	}
	var err error
	if plan.Dir, err = spec.fullDir(); err != nil {
		return nil, err
	}
	plan.User = spec.User.ids()
	if plan.Limits, err = trees.Limits(spec.Limits); err != nil {
		return nil, err
	}
	if spec.Limits.NoFile == nil { // the runtime of the jail raises its own
		now := noFileOfChildren()
		if now == nil {
			now = new(unix.Rlimit)
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, now); err != nil {
				return nil, err
			}
		}
		most := now.Max
		if plan.Policy.Files {
			if most, err = confine.MostFiles(); err != nil {
				return nil, err
			}
		}
		plan.Limits = append(plan.Limits, fork.Limit{Resource: unix.RLIMIT_NOFILE, Limit: unix.Rlimit{Cur: min(now.Cur, most), Max: min(now.Max, most)}})
	}
	return plan, nil
}
