package protocol

import (
	"errors"
	"math"
	"reflect"
	"strconv"
)

// JSON is the codec of exec-server's dialect of JSON-RPC 2.0. A frame is a single object; there are
// no batches. A "jsonrpc" member is not written, and is ignored when read, like every unknown
// member. (exec-server wire, introduction and §2.)
var JSON Codec = jsonCodec{}

type jsonCodec struct{ codec }

func (jsonCodec) Name() string { return "json" }
func (jsonCodec) Binary() bool { return false }

func (jsonCodec) Decode(frame []byte) (Message, error) {
	m, err := decodeMessage(frame)
	if err != nil {
		return Message{}, unreadable(err)
	}
	return m, nil
}

func decodeMessage(frame []byte) (Message, error) {
	s := scanner{b: frame, tally: tally{strict: true}}
	if kind := s.kind(); kind != kindObject {
		err := s.skip(0)
		if err == nil {
			err = s.end()
		}
		if err == nil {
			err = noObject(kind)
		}
		return Message{}, err
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
			name, err = s.expectText()
			m.Method, m.named = methodName(name), true
		case "params":
			m.params, err = s.raw()
		case "result":
			counted := s.tally
			s.values = math.MinInt // a client may have asked for a long answer
			m.result, err = s.raw()
			s.tally = counted
		case "error":
			var raw []byte
			if raw, err = s.raw(); err == nil && string(raw) != "null" {
				m.Error = new(Error)
				err = decodeValue(&scanner{b: raw}, reflect.ValueOf(m.Error).Elem())
			}
		case "trace": // a W3C trace context; checked as in exec-server, then ignored
			if s.literal("null") {
				return nil
			}
			if s.peek() != '{' {
				err = s.mismatch("struct W3cTraceContext")
			} else {
				err = s.skip(0)
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
		return Message{}, err
	}
	return m.message()
}

func (jsonCodec) Unmarshal(payload []byte, v any) error {
	switch v := v.(type) {
	case *OutputNotification:
		if decodeOutput(payload, v) {
			return nil
		}
	case *ProcessWriteParams:
		if decodeWrite(payload, v) {
			return nil
		}
	}
	if err := unmarshalJSON(payload, v); err != nil {
		return wrongParams(err)
	}
	return nil
}

// errOdd makes the caller decode a payload with the tables instead.
var errOdd = errors.New("protocol: not a plain payload")

// decodeOutput decodes a payload with every member exactly once, perhaps without atMs, and no other member. For other
// payloads decodeOutput returns false; it has then changed nothing in n except the bytes of
// n.Chunk.
func decodeOutput(payload []byte, n *OutputNotification) bool {
	s := scanner{b: payload}
	members := 0
	var id, number, name, chunk, time []byte
	err := s.object(func(key []byte) (err error) {
		members++
		switch string(key) {
		case "processId":
			id, err = s.text()
		case "seq":
			number, err = s.number()
		case "stream":
			name, err = s.text()
		case "chunk":
			chunk, err = s.base64()
		case "atMs":
			time, err = s.number()
		default:
			err = errOdd
		}
		return err
	})
	if time == nil {
		members++
	}
	if err != nil || s.end() != nil || members != 5 || id == nil || chunk == nil {
		return false
	}
	var at uint64
	if time != nil {
		if at, err = strconv.ParseUint(digits(time), 10, 64); err != nil {
			return false
		}
	}
	seq, err := strconv.ParseUint(digits(number), 10, 64) // "" is no number, so a missing seq fails
	if err != nil {
		return false
	}
	var stream Stream
	if err := stream.UnmarshalText(name); err != nil {
		return false
	}
	if chunk, err = decodeBase64(n.Chunk, chunk); err != nil {
		return false
	}
	if n.ProcessID != string(id) { // usually the id is the same as in the last notification, and needs no copy
		n.ProcessID = string(id)
	}
	n.Seq, n.Stream, n.Chunk, n.AtMs = seq, stream, chunk, at
	return true
}

// decodeWrite decodes a payload with every member exactly once and no other member. For other
// payloads decodeWrite returns false; it has then changed nothing in p except the bytes of p.Chunk.
func decodeWrite(payload []byte, p *ProcessWriteParams) bool {
	s := scanner{b: payload}
	members := 0
	var id, chunk, writeID []byte
	err := s.object(func(key []byte) (err error) {
		members++
		switch string(key) {
		case "processId":
			id, err = s.text()
		case "chunk":
			chunk, err = s.base64()
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
	if chunk, err = decodeBase64(p.Chunk, chunk); err != nil {
		return false
	}
	p.ProcessID, p.Chunk, p.WriteID = string(id), chunk, string(writeID)
	return true
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
