// Package dialect translates between the wire of the sister APIs, as the app-server wire has them,
// and programs. Each API is a Dialect: process/spawn, command/exec, and the command/exec of the
// first exec-server wire. The package does no I/O and knows no actors.
package dialect

import (
	"errors"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Exit codes of the server.
const (
	TimedOutCode = 124 // the timeout killed the program; as timeout(1) has it
	LostCode     = -1  // nobody saw the program's end
)

// Spec describes a program for a client.
type Spec struct {
	Dialect Dialect
	Name    string // the client's, or the server's; "" if Unnamed
	Unnamed bool   // no later request can name the program
	Params  protocol.ProcessStartParams
	Stdin   bool  // the client may write to stdin
	Stream  bool  // deltas carry the output as it comes; otherwise the end carries all output
	Limit   int64 // of the output of each stream, in bytes: the client's, or the default
	// Most is how many bytes of each stream the message with the end has room for, as a JSON string. 0 with Stream.
	Most int64
}

// Call is a request about a running program.
type Call struct {
	Write      *[]byte // nil: nothing is written
	CloseStdin bool    // after the write
	Resize     *protocol.Size
	Kill       bool
}

// End is how a program has ended. The arrays have stdout first, and stderr second.
type End struct {
	Code          int
	DrainTimedOut bool      // descendants held the output open for too long
	Output        [2]string // "" if the output was streamed
	CapReached    [2]bool
}

// Dialect is the wording of an API.
type Dialect interface {
	// API names the API. Programs of different APIs may have the same name.
	API() string
	// Started is the answer to the start. Nil: the end answers the start.
	Started(name string) any
	// Delta is the notification for streamed output.
	Delta(name string, s protocol.Stream, data []byte, capReached bool) (method string, params any)
	// Ended is the notification of the end. An empty method: body answers the start.
	Ended(name string, e End) (method string, body any)
	// Called is the answer to a successful Call.
	Called(Call) any

	// Unknown answers a Call if there is no such program, and Over if the program has exited.
	// Some calls succeed then.
	Unknown(name string, c Call) (any, *protocol.Error)
	Over(name string, c Call) (any, *protocol.Error)

	// The errors of a start whose name is in use, of a write without Spec.Stdin, and of a program
	// that the system does not run.
	Duplicate(name string) *protocol.Error
	NoStdin(name string) *protocol.Error
	NoSpawn(kind protocol.ErrorKind, why string) *protocol.Error
}

// Refuses returns the error for a call that does not suit the program; nil: none. stdinClosed: an earlier call
// has closed stdin.
func (s *Spec) Refuses(c Call, stdinClosed bool) *protocol.Error {
	switch {
	case (c.Write != nil || c.CloseStdin) && !s.Stdin:
		return s.Dialect.NoStdin(s.Name)
	case c.Write != nil && stdinClosed:
		return protocol.Errorf(protocol.KindStdinClosed, protocol.CodeInvalidRequest, "stdin is already closed")
	case c.Resize != nil && !s.Params.TTY:
		return protocol.Errorf(protocol.KindNoTTY, protocol.CodeInvalidRequest, "failed to resize PTY: process is not attached to a PTY")
	}
	return nil
}

// TooLarge returns the error for a program whose end answers the start and does not fit the answer.
func (s *Spec) TooLarge() *protocol.Error {
	return protocol.Errorf(protocol.KindTooLarge, protocol.CodeInvalidRequest, "%s was ended: an answer here has room for %d bytes of each stream as JSON, and the program has written more", s.Dialect.API(), s.Most).
		Advise("have less with outputBytesCap, or all of it with a processId and streamStdoutStderr")
}

// NotStarted returns the error for a start that failed with err, in the words of the dialect if the
// system refused the program. Clients compare these words, so the advice has the details.
func (s *Spec) NotStarted(err *protocol.Error) *protocol.Error {
	if err.Kind() == protocol.KindSandbox { // the system did not refuse the program
		return err
	}
	for _, e := range []struct {
		is error
		as syscall.Errno
	}{
		{syscall.ENOTDIR, syscall.ENOTDIR},
		{child.ErrNoProgram, syscall.ENOENT},
		{child.ErrPermission, syscall.EACCES},
		{child.ErrDir, syscall.ENOENT},
		{child.ErrExecFormat, syscall.ENOEXEC},
	} {
		if errors.Is(err, e.is) {
			return s.Dialect.NoSpawn(err.Kind(), files.Text(e.as)).Advise("%s", err.Message)
		}
	}
	return err
}
