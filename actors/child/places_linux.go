package child

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
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
