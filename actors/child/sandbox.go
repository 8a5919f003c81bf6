package child

import (
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
)

// SandboxError says why a sandbox could not be made.
type SandboxError = confine.Error

// TrySandbox starts and ends a jail, and says whether the jail worked.
var TrySandbox = confine.Try

// confined reports whether the child has a sandbox.
func (s *Spec) confined() bool { return s.policy != nil || s.Sandbox != nil && !s.Sandbox.Disabled }

// resolveServe is resolve for a child that serves files. Without a Sandbox, the child has the files of its User.
func (h *Host) resolveServe(spec *Spec, step func(string)) error {
	if spec.User != nil {
		if err := mayBecome(spec.User); err != nil {
			return err
		}
	}
	if !spec.confined() {
		spec.policy = &sandbox.Policy{Network: true}
		return nil
	}
	return h.resolve(spec, step)
}

// tempDir returns the TMPDIR that the sandbox is about; "": there is none.
func (s *Spec) tempDir() string {
	if s.TempDir != nil {
		return *s.TempDir
	}
	return Variable(s.Env, "TMPDIR")
}

// Variable returns the first value of a variable in env, as getenv(3) does; "": there is none.
func Variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// openPlaces returns the Holder of the placeholders.
func (h *Host) openPlaces(dir string) *placeholder.Holder {
	if dir == "" {
		return new(placeholder.Holder)
	}
	places, err := placeholder.Open(dir)
	if err != nil {
		h.log.Warn("if this server is killed, the placeholders of its sandboxes stay until the next sandbox of the same directory", "state", dir, "err", err)
	}
	return places
}

// leaveTime is how long the end of a child waits until its placeholders are removed. A client that has seen the end sees none,
// unless a filesystem hangs.
const leaveTime = time.Second

// releasePlaces removes the placeholders of a sandbox that nobody else uses, for leaveTime at most; the removal goes on.
func (h *Host) releasePlaces(held *placeholder.Held) {
	if held == nil {
		return
	}
	done := make(chan struct{})
	h.leaving.Go(func() {
		held.Release()
		close(done)
	})
	select {
	case <-done:
	case <-time.After(leaveTime):
	}
}
