package protocol

import "fmt"

// Error codes. The first four are JSON-RPC's and used as the peer uses them; the
// texts beside them are for people, only the code is for programs.
const (
	// CodeInvalidRequest: the frame cannot be read, or the request cannot be done
	// in this state: before initialize, an unknown process or session id, an id
	// that is taken. (exec-server wire §2, §3, §5, §7.)
	CodeInvalidRequest = -32600

	// CodeMethodNotFound: there is no such method. (exec-server wire §2.)
	CodeMethodNotFound = -32601

	// CodeInvalidParams: the params are not what the method takes; the same
	// request will never succeed. (exec-server wire §2, §3.)
	CodeInvalidParams = -32602

	// CodeInternal: the request was understood and the operating system refused:
	// no such file, permission denied, out of processes. (exec-server wire §3.)
	CodeInternal = -32603

	// CodeNotFound: a file or a file handle does not exist. (exec-server wire §8.)
	CodeNotFound = -32004

	// CodeAlreadyAttached: the session has an owner on another connection. The
	// only one a client should retry. (exec-server wire §7.)
	CodeAlreadyAttached = -32010

	// CodeObserver: an observer asked for a change. (Ours.)
	CodeObserver = -32011
)

// Error is a failure as it crosses the wire; to Go it is an error.
type Error struct {
	Code    int    `json:"code" wire:"required"`    // one of the Code constants, or another server's
	Message string `json:"message" wire:"required"` // for people

	cause error // stays here
}

// Because returns e with a cause, which does not cross the wire, for errors.Is.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// Unwrap is the cause; nil: none is known.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf is an Error with a formatted message.
func Errorf(code int, format string, a ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, a...)}
}
