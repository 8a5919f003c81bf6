package child

import (
	"errors"
	"syscall"
	"testing"
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
