package protocol

import "fmt"

// Error codes. The first four are JSON-RPC's, used as in exec-server. Programs look at the code
// only; the text is for people.
const (
	// CodeInvalidRequest means: the frame is unreadable, or the request is impossible in this
	// state: before initialize, an unknown process or session id, an id in use. (exec-server wire
	// §2, §3, §5, §7.)
	CodeInvalidRequest = -32600

	// CodeMethodNotFound means: there is no such method. (exec-server wire §2.)
	CodeMethodNotFound = -32601

	// CodeInvalidParams means: the params do not fit the method; the same request will never
	// succeed. (exec-server wire §2, §3.)
	CodeInvalidParams = -32602

	// CodeInternal means: the request was valid, but the operating system refused: no such file,
	// permission denied, out of processes. (exec-server wire §3.)
	CodeInternal = -32603

	// CodeNotFound means: a file or a file handle does not exist. (exec-server wire §8.)
	CodeNotFound = -32004

	// CodeAlreadyAttached means: the session has an owner on another connection. Clients should
	// retry after this code, and after no other. (exec-server wire §7.)
	CodeAlreadyAttached = -32010

	// CodeObserver means: an observer asked for a change. (Ours.)
	CodeObserver = -32011
)

// Error is a failure on the wire, and a Go error.
type Error struct {
	Code    int    `json:"code" wire:"required"`    // a Code constant, or the code of another server
	Message string `json:"message" wire:"required"` // for people

	cause error // not sent
}

// Because sets the cause of e, for errors.Is, and returns e. The cause does not cross the wire.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// Unwrap returns the cause; nil: unknown.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, a ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, a...)}
}
