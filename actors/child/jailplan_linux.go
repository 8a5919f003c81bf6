package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/internal/sandbox/resolve"
)

// maxResolves is how often a policy is resolved while the files change.
const maxResolves = 5

// resolve sets the policy of a child with a Sandbox, and holds its placeholders. It waits for files.
func (h *Host) resolve(spec *Spec, step func(string)) error {
	if !spec.confined() {
		return nil
	}
	if spec.policy != nil {
		return h.hold(spec, spec.policy, step)
	}
	facts, err := h.factsOf(spec)
	if err != nil {
		return err
	}
	ctx := spec.Context
	if ctx == nil {
		ctx = context.Background()
	}
	// The start fails at its deadline, so a look-up beyond that is for nobody.
	ctx, cancel := context.WithTimeoutCause(ctx, h.answerTime, noAnswer("look-up of the paths of the sandbox", h.answerTime))
	defer cancel()
	for range maxResolves {
		if err = h.resolveOnce(ctx, spec, facts, step); !errors.Is(err, placeholder.ErrChanged) {
			break
		}
	}
	return err
}

// factsOf returns what the policy of a child follows from, beside its Sandbox.
func (h *Host) factsOf(spec *Spec) (resolve.Facts, error) {
	dir, err := spec.fullDir()
	return resolve.Facts{Cwd: dir, TMPDIR: spec.tempDir(), OtherUser: spec.User != nil, Hidden: h.hidden}, err
}

// resolveOnce looks at the files once. After a placeholder.ErrChanged, another look may succeed.
func (h *Host) resolveOnce(ctx context.Context, spec *Spec, facts resolve.Facts, step func(string)) error {
	step("look-up of the paths of the sandbox")
	found, err := resolve.Policy(ctx, spec.Sandbox, facts)
	switch {
	case errors.Is(err, resolve.ErrPolicy):
		return err
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSandbox, err)
	case spec.mustConfine && !found.Confines():
		return &rules.NoSandbox{Name: clip(spec.Argv)}
	}
	return h.hold(spec, found, step)
}

// hold holds the placeholders of the policy that was found, and gives the policy to the child.
func (h *Host) hold(spec *Spec, found *sandbox.Policy, step func(string)) (err error) {
	step("placeholders of the sandbox")
	uid := uint32(os.Geteuid())
	if spec.User != nil {
		uid = spec.User.UID
	}
	held := *found
	if spec.held, err = h.places.Hold(&held, uid); err != nil {
		return placeError(err)
	}
	spec.policy = &held
	if spec.Resolved != nil {
		spec.Resolved(found, &held)
	}
	return nil
}

// placeError explains why a placeholder cannot be made.
func placeError(err error) error {
	if errors.Is(err, placeholder.ErrMany) {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	if full := trees.NoDescriptor(err); errors.Is(full, ErrLimit) {
		return full
	}
	return fmt.Errorf("%w: %w", ErrSandbox, err)
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
	if u := spec.User; u != nil {
		plan.User = &jail.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	limits, err := limitsOf(spec)
	if err != nil {
		return nil, err
	}
	for _, l := range limits {
		plan.Limits = append(plan.Limits, jail.Rlimit{Resource: l.Resource, Cur: l.Limit.Cur, Max: l.Limit.Max})
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
			if most, err = mostFiles(); err != nil {
				return nil, err
			}
		}
		plan.Limits = append(plan.Limits, jail.Rlimit{Resource: unix.RLIMIT_NOFILE, Cur: min(now.Cur, most), Max: min(now.Max, most)})
	}
	return plan, nil
}

// mostFiles is how many descriptors a confined program may have, unless its client names a limit. The kernel counts the descriptors that a
// user has sent over sockets and nobody has received. It refuses to send more to whoever may not have as many open. So a program
// that may have fewer than the server cannot keep the server and its jails from sending. The distance is for threads of the program
// that send at the same moment, each up to 253.
func mostFiles() (uint64, error) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		return 0, err
	}
	return own.Cur - min(own.Cur/4, 4096), nil
}

// planFile returns a file in memory with plan.
func planFile(plan *jail.Plan) (fd int, err error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return -1, err
	}
	fd, err = unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, trees.NoDescriptor(err)
	}
	for n := 0; len(text) > 0; text = text[n:] {
		if n, err = unix.Write(fd, text); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("write the plan of a sandbox: %w", err)
		}
	}
	return fd, nil
}
