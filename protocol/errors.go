package protocol

import (
	"encoding/json"
	"fmt"
)

// Error codes. The first four are JSON-RPC's, used as in exec-server.
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
	// repeat initialize after this code and CodeInternal, and after no other. (exec-server wire §7.)
	CodeAlreadyAttached = -32010

	// CodeObserver means: an observer asked for a change. (Ours.)
	CodeObserver = -32011

	// CodeUnauthorized means: the credential in InitializeParams.Token is missing or wrong, and the
	// server closes the connection. A websocket gets HTTP 401 instead. (Ours.)
	CodeUnauthorized = -32012
)

// Error is a failure on the wire, and a Go error.
type Error struct {
	Code    int             `json:"code" wire:"required"`    // a Code constant, or the code of another server
	Message string          `json:"message" wire:"required"` // the peer's text, where clients compare texts
	Data    json.RawMessage `json:"data,omitempty"`          // from a troupe server: an object with the kind, the advice and the limit

	cause error // not sent
}

// Because sets the cause of e, for errors.Is, and returns e. The cause does not cross the wire.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// Unwrap returns the cause; nil: unknown.
func (e *Error) Unwrap() error { return e.cause }

// details is the Data of an Error from a troupe server.
type details struct {
	Kind   ErrorKind `json:"kind,omitempty"`
	Advice string    `json:"advice,omitempty"`
	Limit  string    `json:"limit,omitempty"`
	Value  *float64  `json:"value,omitempty"`
	Used   *float64  `json:"used,omitempty"`
}

// details returns the Data of e, if it is of a troupe server.
func (e *Error) details() (d details) {
	if len(e.Data) == 0 || unmarshalJSON(e.Data, &d) != nil {
		return details{}
	}
	return d
}

func (e *Error) detail(d details) *Error {
	e.Data, _ = appendJSON(nil, d) // encoding strings and finite numbers never fails
	return e
}

// Kind returns the kind of e; empty: a server without kinds sent e.
func (e *Error) Kind() ErrorKind {
	return e.details().Kind
}

// Exceeds says that a limit of the server refuses the request, and returns e, whose kind is then KindLimit. name is the flag of troupe serve
// without dashes, and value is in its unit; a time is in milliseconds. used is how much was used before the
// request; of a limit on a single request, used is what the request asks for.
func (e *Error) Exceeds(name string, value, used float64) *Error {
	d := e.details()
	d.Kind, d.Limit, d.Value, d.Used = KindLimit, name, &value, &used
	return e.detail(d)
}

// Limit returns the arguments of Exceeds; an empty name: the server names no limit.
func (e *Error) Limit() (name string, value, used float64) {
	d := e.details()
	if d.Limit == "" || d.Value == nil || d.Used == nil {
		return "", 0, 0
	}
	return d.Limit, *d.Value, *d.Used
}

// Advise sets the advice of e and returns e. The advice is for people: what was wrong, and what to
// do. An Error has advice if clients compare its Message with the peer's text.
func (e *Error) Advise(format string, a ...any) *Error {
	d := e.details()
	d.Advice = fmt.Sprintf(format, a...)
	return e.detail(d)
}

// Advice returns the advice of e; empty: none.
func (e *Error) Advice() string {
	return e.details().Advice
}

// Error returns the message and the advice of e, for people. Programs look at Code and Kind.
func (e *Error) Error() string {
	if advice := e.Advice(); advice != "" {
		return e.Message + ": " + advice
	}
	return e.Message
}

// Errorf returns an Error with a formatted message.
func Errorf(kind ErrorKind, code int, format string, a ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, a...)}
	return e.detail(details{Kind: kind})
}

// WrongParams returns an Error of KindParams and CodeInvalidParams.
func WrongParams(format string, a ...any) *Error {
	return Errorf(KindParams, CodeInvalidParams, format, a...)
}

// Reword returns an Error with the code and the data of e and another message.
func (e *Error) Reword(format string, a ...any) *Error {
	return &Error{Code: e.Code, Message: fmt.Sprintf(format, a...), Data: e.Data, cause: e.cause}
}
