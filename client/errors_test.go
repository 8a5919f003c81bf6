package client

import (
	"errors"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Callers compare refusals with errors.Is: by kind, and by code if the server names no kind.
func TestErrorsByType(t *testing.T) {
	all := []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, ErrLimit, ErrPolicy,
		ErrUnauthorized, ErrAttached, ErrBusy, errors.ErrUnsupported, ErrProcessGone, ErrSessionGone, ErrStdinClosed, syscall.ENOEXEC}
	for _, c := range []struct {
		err  *protocol.Error
		want []error
	}{
		{protocol.Errorf(protocol.KindNoProgram, protocol.CodeInternal, "x"), []error{exec.ErrNotFound, fs.ErrNotExist}},
		{protocol.Errorf(protocol.KindNotExecutable, protocol.CodeInternal, "x"), []error{syscall.ENOEXEC}},
		{protocol.Errorf(protocol.KindNoDirectory, protocol.CodeInternal, "x"), []error{fs.ErrNotExist}},
		{protocol.Errorf(protocol.KindNotEmpty, protocol.CodeInternal, "x"), []error{fs.ErrExist}},
		{protocol.Errorf(protocol.KindPermission, protocol.CodeInternal, "x"), []error{fs.ErrPermission}},
		{protocol.Errorf(protocol.KindPolicy, protocol.CodeInternal, "x"), []error{fs.ErrPermission, ErrPolicy}},
		{protocol.Errorf(protocol.KindLimit, protocol.CodeInternal, "x"), []error{ErrLimit}},
		{protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "x"), []error{fs.ErrExist}},
		{protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "x"), []error{ErrProcessGone}},
		{protocol.Errorf(protocol.KindOff, protocol.CodeInvalidRequest, "x"), []error{errors.ErrUnsupported}},
		{protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "x"), nil},
		{&protocol.Error{Code: protocol.CodeNotFound}, []error{fs.ErrNotExist}},
		{&protocol.Error{Code: protocol.CodeAlreadyAttached}, []error{ErrAttached}},
		{&protocol.Error{Code: protocol.CodeInternal}, nil},
	} {
		var err error = &requestError{protocol.MethodProcessStart, c.err}
		for _, target := range all {
			if got, want := errors.Is(err, target), slices.Contains(c.want, target); got != want {
				t.Errorf("%s (%s): is %q: %t", err, c.err.Kind(), target, got)
			}
		}
		var refused *protocol.Error
		if !errors.As(err, &refused) || refused != c.err || Kind(err) != c.err.Kind() {
			t.Errorf("%v: no protocol.Error with its kind", err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if len(kinds[kind]) == 0 {
			t.Errorf("%s stands for nothing", kind)
		}
	}
	if Kind(errors.New("x")) != "" {
		t.Error("an error that is not a refusal has a kind")
	}
}

// An error within another one of this package names the package once, and stays within reach.
func TestErrorsNameThePackageOnce(t *testing.T) {
	err := errorf("connection lost: %w", errorf("message from the server: %w", fs.ErrInvalid))
	if want := "client: connection lost: message from the server: invalid argument"; err.Error() != want || !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("%q, want %q", err, want)
	}
}
