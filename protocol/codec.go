// Package protocol is the wire: methods, messages, error codes, and the codecs turning them into
// bytes. The package imports no other package of this module, starts no goroutine and keeps no
// state except tables computed once per type.
//
// The wire extends the wire of another program, exec-server. A comment with "exec-server wire §N"
// marks a shape fixed by exec-server. A comment with "ours" marks an extension; a client sees
// extensions only if it asks for them. The app-server is the other server of codex: its methods for programs (process/spawn, command/exec) are
// called sister APIs here.
//
// # Where to look
//
//   - session.go, process.go, supervision.go, info.go, events.go, limits.go: sessions, processes, restarts, probes and groups
//   - fs.go, fs_entry.go, http.go, fileuri.go: files and HTTP requests
//   - appserver.go, discovery.go, shellsnapshot.go: what only codex asks for
//   - sandbox.go, sandbox_json.go, sandbox_policy.go: sandboxes
//   - wire.go, repeat.go, errors.go, errorkind.go, id.go, signal.go, millis.go: notifications, repeats, errors, names, times
//   - connection.go: codes of Close frames
//   - codec.go, value.go: encoding of any type, by its fields and tags; a type has its rules in its method Validate, beside the type
//   - sink.go, source.go: what encodes and decodes, in either encoding; frequent messages by hand
//   - json_*.go, msgpack_scan.go, strict.go: the two encodings as they are read, and what they refuse
package protocol

import (
	"errors"
	"fmt"
	"reflect"
)

// Kind says which of the four JSON-RPC messages a Message is.
type Kind uint8

const (
	Request      Kind = iota + 1 // has ID and Method; must be answered
	Response                     // has ID; Payload is the result
	Failure                      // has ID and Error
	Notification                 // has Method; is never answered
)

// Message is a decoded frame.
type Message struct {
	Kind   Kind
	ID     ID     // zero for a Notification
	Method string // of a Request or Notification

	// Payload is the undecoded params or result, nil if the member was absent. Payload aliases the
	// frame, and is valid only while the frame's buffer stays unchanged.
	Payload []byte

	Error *Error // of a Failure

	Trace *TraceContext // of a Request or Notification; nil: none
}

// TraceContext is a place in a trace, as W3C Trace Context writes it: the member trace of a message has it.
type TraceContext struct {
	Parent string `json:"traceparent"`          // such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	State  string `json:"tracestate,omitempty"` // of vendors; "": none
}

// Codec turns messages into frames and back. Any number of goroutines may call its methods at once.
//
// The Append methods append a whole frame to dst and return the longer slice. They fail only for
// bugs of the caller (a zero ID, a type foreign to this package), and then return the unchanged
// dst. params and result are values of this package's types or pointers to them; nil params are
// left out.
type Codec interface {
	// Name is the codec's name in flags and in websocket subprotocols: "json" or "msgpack".
	Name() string

	// Binary says whether the opcode of the websocket frames is binary or text.
	Binary() bool

	// Decode splits a frame. For an invalid frame the error is an *Error to send with InvalidID, once
	// its message says where the frame is from.
	// Decode allocates nothing in proportion to the frame.
	Decode(frame []byte) (Message, error)

	// Unmarshal decodes a Payload into v, a pointer to a zero value of one of this package's types.
	// A nil payload means: absent. Nothing in v aliases the payload. The error is an *Error with
	// CodeInvalidParams; it names the member, the value found and the value expected.
	//
	// An *OutputNotification v need not be zero: Unmarshal sets every field, and reuses the
	// capacity of Chunk.
	Unmarshal(payload []byte, v any) error

	AppendRequest(dst []byte, id ID, method string, params any) ([]byte, error)
	AppendResponse(dst []byte, id ID, result any) ([]byte, error)
	AppendFailure(dst []byte, id ID, e *Error) ([]byte, error)
	AppendNotification(dst []byte, method string, params any) ([]byte, error)
}

// JSON is the codec of exec-server's dialect of JSON-RPC 2.0. A frame is a single object; there are
// no batches. A "jsonrpc" member is not written, and is ignored when read, like every unknown
// member. (exec-server wire, introduction and §2.)
var JSON Codec = codec{}

// Msgpack is the codec of the same messages in MessagePack: a frame is a single map, with the same
// members as in JSON. Bytes are bin; no other type is accepted for bytes. A value kept undecoded,
// such as ProcessStartParams.Sandbox, is kept as JSON. (Ours.)
var Msgpack Codec = codec{packed: true}

// CodecOf returns the codec of a subprotocol of a websocket: Msgpack for troupe.msgpack, and JSON, which every server speaks, for all others.
func CodecOf(subprotocol string) Codec {
	if subprotocol == "troupe."+Msgpack.Name() {
		return Msgpack
	}
	return JSON
}

type codec struct{ packed bool }

func (c codec) Name() string {
	if c.packed {
		return "msgpack"
	}
	return "json"
}

func (c codec) Binary() bool { return c.packed }

func (c codec) Decode(frame []byte) (m Message, _ error) {
	if err := decodeMessage(frame, c.packed, &m); err != nil {
		return Message{}, unreadable(err)
	}
	return m, nil
}

func (c codec) Unmarshal(payload []byte, v any) error {
	switch v := v.(type) {
	case *OutputNotification:
		if decodeOutput(payload, c.packed, v) {
			return nil
		}
	case *ProcessWriteParams:
		if decodeWrite(payload, c.packed, v) {
			return nil
		}
	}
	if err := unmarshal(payload, c.packed, v); err != nil {
		return wrongParams(err)
	}
	return nil
}

func (c codec) AppendRequest(dst []byte, id ID, method string, params any) ([]byte, error) {
	k := sinkOf(dst, c.packed)
	k.object(members(2, params))
	k.key(`"id":`)
	err := k.id(id)
	if err == nil {
		err = k.call(method, params)
	}
	return k.end(dst, err)
}

func (c codec) AppendNotification(dst []byte, method string, params any) ([]byte, error) {
	k := sinkOf(dst, c.packed)
	k.object(members(1, params))
	err := k.call(method, params)
	return k.end(dst, err)
}

// members returns how many members a frame has: so many, and params unless nil.
func members(n int, params any) int {
	if params != nil {
		n++
	}
	return n
}

func (c codec) AppendResponse(dst []byte, id ID, result any) ([]byte, error) {
	k := sinkOf(dst, c.packed)
	k.object(2)
	k.key(`"id":`)
	err := k.id(id)
	if err == nil {
		k.key(`"result":`)
		err = k.body(result)
	}
	k.close('}')
	return k.end(dst, err)
}

func (c codec) AppendFailure(dst []byte, id ID, e *Error) ([]byte, error) {
	k := sinkOf(dst, c.packed)
	k.object(2)
	k.key(`"error":`)
	err := k.value(reflect.ValueOf(e))
	if err == nil {
		k.key(`"id":`)
		err = k.id(id)
	}
	k.close('}')
	return k.end(dst, err)
}

// envelope has the members of a frame, before they are checked together.
type envelope struct {
	Message
	named          bool // the frame has a method, perhaps an empty string
	params, result []byte
}

// message makes the envelope one of the four messages.
func (e *envelope) message() error {
	m := &e.Message
	switch {
	case e.named && m.ID.IsZero():
		m.Kind, m.Payload, m.Error = Notification, e.params, nil
	case e.named && len(m.ID.s) > maxID:
		return fmt.Errorf("`id` has %d bytes, the limit is %d", len(m.ID.s), maxID)
	case e.named:
		m.Kind, m.Payload, m.Error = Request, e.params, nil
	case e.result == nil && m.Error == nil:
		return &detailed{"missing field `error`", "a message has a method, a result or an error"}
	case m.ID.IsZero():
		return errors.New("missing field `id`")
	case e.result != nil:
		m.Kind, m.Payload, m.Error = Response, e.result, nil
	default:
		m.Kind = Failure
	}
	return nil
}

// unreadable returns the error of Decode. Its message is exec-server's text, if exec-server has one.
func unreadable(err error) *Error {
	e := wrongParams(err)
	d := e.details()
	d.Kind = KindMessage
	e.Code, e.cause = CodeInvalidRequest, nil
	return e.detail(d)
}

// HasMember reports whether a Payload of codec c is an object with a non-null member of this name.
// HasMember allocates nothing in proportion to the payload.
func HasMember(c Codec, payload []byte, name string) bool {
	s := source{b: payload, packed: c == Msgpack}
	return s.hasMember(name)
}
