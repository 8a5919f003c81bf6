package protocol

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// source reads encoded values once from left to right. It checks every byte, also of skipped values. After an error its position is
// meaningless. A source of JSON reads as a scanner, and a source of MessagePack as an unpacker: three types with the same fields.
type source struct {
	b      []byte
	i      int // index of the next byte
	packed bool
	purse
	tally // of skipped values

	digits [32]byte // buffer of the unpacker for number
}

// kind returns the kind of the next value; 0 if there is none, or if the value is broken.
func (s *source) kind() kind {
	if s.packed {
		return (*unpacker)(s).kind()
	}
	return (*scanner)(s).kind()
}

// skip moves past a value, of any kind, nested in depth others.
func (s *source) skip(depth int) error {
	if s.packed {
		return (*unpacker)(s).skip(depth)
	}
	return (*scanner)(s).skip(depth)
}

// raw moves past a value of any kind and returns the value, aliasing the input.
func (s *source) raw() ([]byte, error) {
	if s.packed {
		return (*unpacker)(s).raw()
	}
	return (*scanner)(s).raw()
}

// rawJSON moves past a value of any kind and returns a copy, as JSON.
func (s *source) rawJSON() (json.RawMessage, error) {
	if s.packed {
		return (*unpacker)(s).rawJSON()
	}
	return (*scanner)(s).rawJSON()
}

// end fails if anything is left.
func (s *source) end() error {
	if s.packed {
		return (*unpacker)(s).end()
	}
	return (*scanner)(s).end()
}

// mismatch returns an error: the next value is not of the expected kind.
func (s *source) mismatch(expected string) error {
	if s.packed {
		return (*unpacker)(s).mismatch(expected)
	}
	return (*scanner)(s).mismatch(expected)
}

// blob moves past bytes and returns them as they are in the input, for decodeBlob.
func (s *source) blob() ([]byte, error) {
	if s.packed {
		return (*unpacker)(s).bin()
	}
	return (*scanner)(s).base64()
}

// decodeBlob decodes a blob into the capacity of dst, or into a new slice if dst is too small. The result is never nil.
func (s *source) decodeBlob(dst, blob []byte) ([]byte, error) {
	if s.packed {
		return copied(dst, blob), nil
	}
	return decodeBase64(dst, blob)
}

// bytes moves past bytes and returns them as decodeBlob does. Another kind of value is an error.
func (s *source) bytes(dst []byte) ([]byte, error) {
	if s.packed {
		return (*unpacker)(s).bytes(dst)
	}
	return (*scanner)(s).bytes(dst)
}

// unit moves past an object without members. For another value unit returns false.
func (s *source) unit() bool {
	if s.packed {
		return (*unpacker)(s).unit()
	}
	return (*scanner)(s).unit()
}

// Each method below moves past a value of its kind; this kind must be next. The results of text
// and number are valid until the next call.

func (s *source) text() ([]byte, error) {
	if s.packed {
		return (*unpacker)(s).text()
	}
	return (*scanner)(s).text()
}

// number returns a number as in JSON, or NaN or infinite.
func (s *source) number() ([]byte, error) {
	if s.packed {
		return (*unpacker)(s).number()
	}
	return (*scanner)(s).number()
}

// unsigned moves past a non-negative integer.
func (s *source) unsigned() (uint64, error) {
	if s.packed {
		return (*unpacker)(s).unsigned()
	}
	t, err := (*scanner)(s).number()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(digits(t), 10, 64)
}

func (s *source) boolean() (bool, error) {
	if s.packed {
		return (*unpacker)(s).boolean()
	}
	return (*scanner)(s).boolean()
}

// array calls visit at each element; visit must move past the element.
func (s *source) array(visit func(i int) error) error {
	if s.packed {
		return (*unpacker)(s).array(visit)
	}
	return (*scanner)(s).array(visit)
}

// object calls visit at the value of each member; visit must move past the value. The key is valid during the call.
func (s *source) object(visit func(key []byte) error) error {
	if s.packed {
		return (*unpacker)(s).object(visit)
	}
	return (*scanner)(s).object(visit)
}

// id moves past a request id.
func (s *source) id() (ID, error) {
	if s.packed {
		return (*unpacker)(s).id()
	}
	return (*scanner)(s).id()
}

// hasMember reports whether the next value is an object with a non-null member of this name.
func (s *source) hasMember(name string) (found bool) {
	err := s.object(func(key []byte) error {
		found = found || string(key) == name && s.kind() != kindNull
		return s.skip(0)
	})
	return found && err == nil
}

// unmarshal decodes the single value in payload into the target of v. A nil payload is null.
func unmarshal(payload []byte, packed bool, v any) error {
	if payload == nil {
		payload = []byte("null")
		if packed {
			payload = []byte{msgpcode.Nil}
		}
	}
	s := source{b: payload, packed: packed}
	s.purse = newPurse(payload)
	target := reflect.ValueOf(v).Elem()
	required := target.Kind() == reflect.Struct && tableOf(target.Type()).required != 0
	if err := decodeMember(&s, target, required); err != nil {
		return err
	}
	return s.end()
}

// decodeMessage splits a frame into a zero Message.
func decodeMessage(frame []byte, packed bool, into *Message) error {
	s := source{b: frame, packed: packed}
	s.strict = true
	if kind := s.kind(); kind != kindObject {
		return s.noMessage(kind)
	}

	var m envelope
	var seen names
	err := s.object(func(key []byte) (err error) {
		if err := s.member(&seen, key); err != nil {
			return err
		}
		switch string(key) {
		case "id":
			m.ID, err = s.id()
		case "method":
			var name []byte
			name, err = decodeText(&s)
			m.Method, m.named = methodName(name), true
		case "params":
			m.params, err = s.raw()
		case "result":
			counted := s.tally
			s.values = math.MinInt // a client may have asked for a long answer
			m.result, err = s.raw()
			s.tally = counted
		case "error":
			null := s.kind() == kindNull
			var raw []byte
			if raw, err = s.raw(); err == nil && !null {
				m.Error, err = decodeError(raw, packed)
			}
		case "trace": // checked as in exec-server, which then ignores it
			switch s.kind() {
			case kindNull:
				err = s.skip(0)
			case kindObject:
				var raw []byte
				raw, err = s.raw()
				m.Trace = traceOf(raw, packed)
			default:
				err = s.mismatch("struct W3cTraceContext")
			}
		default:
			return s.skip(0)
		}
		if err != nil {
			return within(string(key), err)
		}
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return err
	}
	err = m.message()
	*into = m.Message
	return err
}

// maxTrace bounds a member of a trace context, in bytes: W3C Trace Context §3.3.1.5 asks for 512.
const maxTrace = 512

// traceOf returns the W3C trace context in raw, an object that was checked; nil: there is none. Members that are no texts, or too long, count as absent.
func traceOf(raw []byte, packed bool) *TraceContext {
	s, t := source{b: raw, packed: packed}, new(TraceContext)
	err := s.object(func(key []byte) error {
		var into *string
		switch string(key) {
		case "traceparent":
			into = &t.Parent
		case "tracestate":
			into = &t.State
		}
		if into == nil || s.kind() != kindText {
			return s.skip(0)
		}
		text, err := decodeText(&s)
		if len(text) <= maxTrace {
			*into = string(text)
		}
		return err
	})
	if err != nil || t.Parent == "" {
		return nil
	}
	return t
}

// decodeError decodes the error of a frame. It has a source and a stack frame of its own: the goroutine of each connection keeps the
// stack that decoding once took.
func decodeError(raw []byte, packed bool) (*Error, error) {
	s, e := source{b: raw, packed: packed}, new(Error)
	return e, decodeValue(&s, reflect.ValueOf(e).Elem())
}

// noMessage returns the error of a frame with another value than an object.
func (s *source) noMessage(found kind) error {
	if s.packed && found != kindArray {
		return s.mismatch("a map: this connection speaks msgpack")
	}
	if !s.packed { // first, what is no JSON
		if err := s.skip(0); err != nil {
			return err
		}
		if err := s.end(); err != nil {
			return err
		}
	}
	detail := "a message is an object"
	if found == kindArray {
		detail = "found an array: batches are not supported"
	}
	return &detailed{"expected a JSON-RPC object", detail}
}

// methodName is string(b), without a copy for the two most frequent methods.
func methodName(b []byte) string {
	switch string(b) {
	case NotifyOutput:
		return NotifyOutput
	case MethodProcessWrite:
		return MethodProcessWrite
	}
	return string(b)
}

// errOdd makes the caller decode a payload with the tables instead.
var errOdd = errors.New("protocol: not a plain payload")

// decodeOutput decodes by hand, without the tables: a payload with every member exactly once, perhaps without atMs, and no other member. For
// other payloads decodeOutput returns false; it has then changed nothing in n except the bytes of n.Chunk. Tests prove that both ways agree.
func decodeOutput(payload []byte, packed bool, n *OutputNotification) bool {
	s := source{b: payload, packed: packed}
	members, all := 0, 4
	var id, chunk []byte
	var seq, at uint64
	var numbered bool // there is a seq
	var stream Stream
	err := s.object(func(key []byte) (err error) {
		members++
		switch string(key) {
		case "processId":
			id, err = s.text()
		case "seq":
			seq, err = s.unsigned()
			numbered = true
		case "stream":
			var name []byte
			if name, err = s.text(); err == nil {
				err = stream.UnmarshalText(name)
			}
		case "chunk":
			chunk, err = s.blob()
		case "atMs":
			at, err = s.unsigned()
			all = 5
		default:
			err = errOdd
		}
		return err
	})
	if err != nil || s.end() != nil || members != all || id == nil || !numbered || stream == 0 || chunk == nil {
		return false
	}
	if chunk, err = s.decodeBlob(n.Chunk, chunk); err != nil {
		return false
	}
	if n.ProcessID != string(id) { // usually the id is the same as in the last notification, and needs no copy
		n.ProcessID = string(id)
	}
	n.Seq, n.Stream, n.Chunk, n.AtMs = seq, stream, chunk, at
	return true
}

// decodeWrite is decodeOutput for a keystroke.
func decodeWrite(payload []byte, packed bool, p *ProcessWriteParams) bool {
	s := source{b: payload, packed: packed}
	members := 0
	var id, chunk, writeID []byte
	err := s.object(func(key []byte) (err error) {
		members++
		switch string(key) {
		case "processId":
			id, err = s.text()
		case "chunk":
			chunk, err = s.blob()
		case "writeId":
			writeID, err = s.text()
		default:
			err = errOdd
		}
		return err
	})
	if err != nil || s.end() != nil || members != 3 || id == nil || chunk == nil || len(writeID) == 0 {
		return false
	}
	if chunk, err = s.decodeBlob(p.Chunk, chunk); err != nil {
		return false
	}
	p.ProcessID, p.Chunk, p.WriteID = string(id), chunk, string(writeID)
	return true
}
