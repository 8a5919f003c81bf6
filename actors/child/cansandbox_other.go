//go:build !linux

package child

import (
	"errors"
	"time"
)

// TrySandbox fails: only Linux has sandboxes.
func TrySandbox(time.Duration, bool) SandboxState {
	return SandboxState{Err: &SandboxError{Stage: "namespaces", Err: errors.New("this system has none: sandboxes need Linux")}}
}
