package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// exitFailure is the exit code of a command that has failed, and of any command that cannot write to stdout.
	exitFailure = 1
	// exitUsage is the exit code for a wrong command line.
	exitUsage = 2
)

// Exit codes of the commands with programsCode for their own failures, as in env(1).
const (
	exitFailed        = 125 // troupe itself failed
	exitCannotExecute = 126 // or the policy of the server refuses
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

// programsCode marks the commands whose exit code is the program's. For a wrong command line they exit with exitFailed,
// because exitUsage may be the program's code. Each of their other failures is an exitError.
const programsCode = "exits with the code of the program"

var exitsAsProgram = map[string]string{programsCode: "yes"}

// A usageError means that the command line is wrong. Any other error means exitFailure, unless it is an exitError.
type usageError struct{ error }

// wrong returns a usageError.
func wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// An exitError is the error of a command that chooses its exit code.
type exitError struct {
	code int
	err  error // nil: the command has told the user why
}

func (e exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

// exit returns the end of a command that chooses its exit code; nil for success.
func exit(code int, err error) error {
	if code == 0 && err == nil {
		return nil
	}
	return exitError{code, err}
}

// status prints why a command failed, unless the command has, and returns the exit code of troupe. Errors may have texts
// of servers and of other people in them. What a command could not print counts more than its own end.
func status(cmd *cobra.Command, err error) int {
	e, chosen := errors.AsType[exitError](err)
	_, misused := errors.AsType[usageError](err)
	asProgram := cmd.Annotations[programsCode] != ""
	switch {
	case chosen, err == nil:
	case misused || asProgram || cmd.HasSubCommands(): // cobra finds an unknown subcommand
		e = exitError{exitUsage, fmt.Errorf("%s; see %s --help", strings.TrimSpace(show.Words(err)), cmd.CommandPath())}
		if asProgram {
			e.code = exitFailed
		}
	default:
		e = exitError{exitFailure, err}
	}
	if unwritten := stdout.failed(); unwritten != nil {
		e = exitError{exitFailure, cmp.Or(e.err, unwritten)}
	}
	if e.err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", cmd.CommandPath(), show.HarmlessText(show.Words(e.err)))
	}
	return e.code
}

// failure returns the exit code and the message for an end that was not the program's own.
func failure(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if errors.Is(err, client.ErrSessionGone) {
		if gone, ok := errors.AsType[*protocol.Error](err); ok && gone.Advice() != "" { // the server knows why
			return exitFailed, fmt.Errorf("the session is lost with all its programs: %s", gone.Advice())
		}
		return exitFailed, fmt.Errorf("the session is lost with all its programs: the server was restarted, or closed the session meanwhile (%w)", err)
	}
	if _, ok := errors.AsType[*transport.RefusedError](err); ok {
		return exitFailed, err
	}
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return exitFailed, err
	}
	switch refused.Kind() {
	case protocol.KindNoProgram:
		return exitNotFound, errors.New(refused.Message)
	case protocol.KindNotExecutable, protocol.KindPermission:
		return exitCannotExecute, errors.New(refused.Message)
	case protocol.KindPolicy:
		return exitCannotExecute, err
	}
	return exitFailed, err
}
