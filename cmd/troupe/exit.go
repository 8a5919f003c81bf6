package main

import (
	"errors"
	"fmt"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Exit codes of troupe run, attach and wait for their own failures, as in env(1).
const (
	exitFailed        = 125 // troupe itself failed
	exitCannotExecute = 126 // or the policy of the server refuses
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

// programsCode marks the commands whose exit code is the program's. For a wrong command line they exit with exitFailed,
// because exitUsage may be the program's code.
const programsCode = "exits with the code of the program"

var exitsAsProgram = map[string]string{programsCode: "yes"}

// failure returns the exit code and the message for an end that was not the program's own.
func failure(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if errors.Is(err, client.ErrSessionGone) {
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
