package protocol

import "fmt"

type ID struct {
	s    string
	n    int64
	kind uint8 // 0: absent
}

type Kind uint8

const (
	Request Kind = iota + 1
	Response
	Failure
	Notification
)

// Message is one decoded frame. Payload (params or result) aliases the input.
type Message struct {
	Kind    Kind
	ID      ID
	Method  string
	Payload []byte
	Error   *Error
}

type Codec interface {
	Name() string // "json"
	Binary() bool // websocket opcode: text or binary
	// Decode splits a frame. The error is an *Error to be sent with id -1.
	Decode(frame []byte) (Message, error)
	// Unmarshal decodes Payload into v (a pointer to a params or result type); nil payload means absent.
	// The error is an *Error with code CodeInvalidParams.
	Unmarshal(payload []byte, v any) error
	AppendRequest(dst []byte, id ID, method string, params any) ([]byte, error)
	AppendResponse(dst []byte, id ID, result any) ([]byte, error)
	AppendFailure(dst []byte, id ID, e *Error) ([]byte, error)
	AppendNotification(dst []byte, method string, params any) ([]byte, error)
}

const (
	CodeInvalidRequest  = -32600
	CodeMethodNotFound  = -32601
	CodeInvalidParams   = -32602
	CodeInternal        = -32603
	CodeNotFound        = -32004
	CodeAlreadyAttached = -32010
	CodeObserver        = -32011
)

type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }
func Errorf(code int, format string, a ...any) *Error {
	return &Error{code, fmt.Sprintf(format, a...)}
}
