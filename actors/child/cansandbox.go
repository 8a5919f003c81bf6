package child

import (
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
)

// SandboxState says whether this system can confine children.
type SandboxState = confine.State

// tryAgain is how long a Host remembers a failed trial: somebody may be mending the system.
const tryAgain = 10 * time.Second

// sandboxTrials remember the last trial of a sandbox. Any goroutine may use them.
type sandboxTrials struct {
	mu    sync.Mutex // held during a trial: no two trials run at a time
	known SandboxState
	at    time.Time // of the trial; zero: there was none
}

// Sandbox returns the result of the last trial; ok is false if somebody must call TrySandbox to find out.
func (h *Host) Sandbox() (state SandboxState, ok bool) {
	s := &h.sandboxes
	if !s.mu.TryLock() {
		return SandboxState{}, false
	}
	defer s.mu.Unlock()
	return s.known, !s.at.IsZero() && (s.known.Err == nil || time.Since(s.at) < tryAgain)
}

// TrySandbox finds out whether this system can confine children, unless the Host knows already. TrySandbox blocks while a jail
// starts and ends, for twice the host's answer time at most. Call it from Ask, or a goroutine.
func (h *Host) TrySandbox() SandboxState {
	s := &h.sandboxes
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || s.known.Err != nil && time.Since(s.at) >= tryAgain {
		s.known, s.at = confine.Try(h.answerTime, h.completeSandbox), time.Now()
	}
	return s.known
}
