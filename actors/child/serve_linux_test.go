package child

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// A jail that serves files has no Argv. Its errors name no program.
func TestErrorWithoutProgram(t *testing.T) {
	for _, err := range []error{&SandboxError{Stage: "namespaces", Err: syscall.EPERM}, syscall.EAGAIN, syscall.EPERM} {
		got := startError(err, new(Spec), func() string { return "" })
		if got == nil || errors.Is(err, ErrSandbox) != errors.Is(got, ErrSandbox) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A jail that serves files lives long and allocates, so it collects its memory. Every other jail allocates next to nothing
// after its start.
func TestServingJailCollectsMemory(t *testing.T) {
	for _, serve := range []bool{false, true} {
		env := jailEnv(&jail.Plan{Serve: serve})
		if slices.Contains(env, "GOGC=off") == serve {
			t.Errorf("the environment of a jail is %v; does it serve files: %v", env, serve)
		}
	}
}
