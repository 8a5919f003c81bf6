package confine

import (
	"errors"
	"fmt"
)

// ErrSandbox means: the system cannot confine a child as its sandbox asks for.
var ErrSandbox = errors.New("sandbox")

// Error is an ErrSandbox: it says why a sandbox could not be made. Nothing of the program has run.
type Error struct {
	Stage string // the step of the server or of the jail
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("the sandbox cannot be made: %s: %v", e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes the error an ErrSandbox.
func (e *Error) Is(target error) bool { return target == ErrSandbox }

// A told error has the words of a jail, with the words of the system among them.
type told struct {
	text  string
	errno error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.errno }

// State says whether this system can confine children.
type State struct {
	// Err is the reason against sandboxes, with advice; nil: sandboxes work.
	Err error
	// Level is the level of sandboxes here: protocol.SandboxComplete or another level of package protocol. Empty: there is an Err.
	Level string
	// Landlock is the ABI of Landlock, 0 without it. Notes name missing protections of sandboxes, for people.
	Landlock int
	Notes    []string
}
