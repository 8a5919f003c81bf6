// Package protocol is the wire: methods, messages, error codes and the codecs
// that turn them into bytes. It imports nothing else of this module, starts no
// goroutine and keeps no state but tables computed once per type.
//
// Where a comment says "exec-server wire §N", the shape is that of the peer and
// must stay; where it says "ours", a client that does not ask never sees it.
package protocol

import (
	"errors"
	"fmt"
)

// Kind tells the four messages of JSON-RPC apart.
type Kind uint8

const (
	Request      Kind = iota + 1 // has ID and Method; must be answered
	Response                     // has ID; Payload is the result
	Failure                      // has ID and Error
	Notification                 // has Method; is never answered
)

// Message is one decoded frame.
type Message struct {
	Kind   Kind
	ID     ID     // zero for a Notification
	Method string // of a Request or Notification

	// Payload is the undecoded params or result, nil if the member was absent. It
	// aliases the frame: it lives as long as the frame's buffer is left alone.
	Payload []byte

	Error *Error // of a Failure
}

// A Codec turns messages into frames and back. Its methods may be called by any
// number of goroutines at once.
//
// The Append methods append one whole frame to dst and return the longer slice.
// They fail only on what is a bug of the caller (a zero ID, a type that is not
// one of this package's), and then return dst as it was. params and result are
// values of this package's types or pointers to them; a nil params is left out.
type Codec interface {
	// Name is the codec's name in flags and in websocket subprotocols: "json" or "msgpack".
	Name() string

	// Binary tells the opcode of its websocket frames: binary or text.
	Binary() bool

	// Decode splits a frame. What it cannot read it refuses with an *Error that is
	// to be sent with InvalidID; it allocates nothing in proportion to the frame.
	Decode(frame []byte) (Message, error)

	// Unmarshal decodes a Payload into v, a pointer to a zero value of one of this
	// package's types; nil means that the payload was absent. Nothing in v aliases
	// the payload. The error is an *Error with CodeInvalidParams that names the
	// member, what was found and what was expected.
	//
	// v need not be zero if it is an *OutputNotification: every field is set, and
	// the capacity of Chunk is used again.
	Unmarshal(payload []byte, v any) error

	AppendRequest(dst []byte, id ID, method string, params any) ([]byte, error)
	AppendResponse(dst []byte, id ID, result any) ([]byte, error)
	AppendFailure(dst []byte, id ID, e *Error) ([]byte, error)
	AppendNotification(dst []byte, method string, params any) ([]byte, error)
}

// envelope is the members of a frame, before they are looked at together.
type envelope struct {
	Message
	named          bool // it has a method, which may be empty
	params, result []byte
}

// message says which of the four messages it is.
func (e *envelope) message() (Message, error) {
	m := e.Message
	switch {
	case e.named && m.ID.IsZero():
		m.Kind, m.Payload, m.Error = Notification, e.params, nil
	case e.named && len(m.ID.s) > maxID:
		return Message{}, fmt.Errorf("`id` has %d bytes, the limit is %d", len(m.ID.s), maxID)
	case e.named:
		m.Kind, m.Payload, m.Error = Request, e.params, nil
	case e.result == nil && m.Error == nil:
		return Message{}, errors.New("missing field `method`, `result` or `error`")
	case e.result != nil && m.Error != nil:
		return Message{}, errors.New("fields `result` and `error` exclude each other")
	case m.ID.IsZero():
		return Message{}, errors.New("missing field `id`")
	case e.result != nil:
		m.Kind, m.Payload = Response, e.result
	default:
		m.Kind = Failure
	}
	return m, nil
}

// HasMember reports whether a Payload of c is an object with a member of that name that is not
// null. It allocates nothing in proportion to the payload.
func HasMember(c Codec, payload []byte, name string) bool {
	if c == Msgpack {
		return unpacker{b: payload}.hasMember(name)
	}
	return scanner{b: payload}.hasMember(name)
}
