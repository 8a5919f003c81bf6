package protocol

import (
	"math"
	"reflect"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Msgpack is the codec of the same messages in MessagePack: a frame is a single map, with the same
// members as in JSON. Bytes are bin; no other type is accepted for bytes. A value kept undecoded,
// such as ProcessStartParams.Sandbox, is kept as JSON. (Ours.)
var Msgpack Codec = msgpackCodec{codec{packed: true}}

type msgpackCodec struct{ codec }

func (msgpackCodec) Name() string { return "msgpack" }
func (msgpackCodec) Binary() bool { return true }

func (msgpackCodec) Decode(frame []byte) (Message, error) {
	m, err := unpackMessage(frame)
	if err != nil {
		return Message{}, unreadable(err)
	}
	return m, nil
}

func unpackMessage(frame []byte) (Message, error) {
	u := unpacker{b: frame, tally: tally{strict: true}}
	switch kind := u.kind(); kind {
	case kindObject:
	case kindArray:
		return Message{}, noObject(kind)
	default:
		return Message{}, u.mismatch("a map: this connection speaks msgpack")
	}
	var m envelope
	var seen names
	err := u.object(func(key []byte) (err error) {
		if err := u.member(&seen, key); err != nil {
			return err
		}
		switch string(key) {
		case "id":
			m.ID, err = u.id()
		case "method":
			var name []byte
			name, err = u.text()
			m.Method, m.named = methodName(name), true
		case "params":
			m.params, err = u.raw()
		case "result":
			counted := u.tally
			u.values = math.MinInt // as in JSON
			m.result, err = u.raw()
			u.tally = counted
		case "error":
			var raw []byte
			if raw, err = u.raw(); err == nil && raw[0] != msgpcode.Nil {
				m.Error = new(Error)
				err = decodeValue(&unpacker{b: raw}, reflect.ValueOf(m.Error).Elem())
			}
		case "trace": // as in JSON
			if k := u.kind(); k != kindNull && k != kindObject {
				err = u.mismatch("struct W3cTraceContext")
			} else {
				err = u.skip(0)
			}
		default:
			return u.skip(0)
		}
		if err != nil {
			return within(string(key), err)
		}
		return nil
	})
	if err == nil {
		err = u.end()
	}
	if err != nil {
		return Message{}, err
	}
	return m.message()
}

func (msgpackCodec) Unmarshal(payload []byte, v any) error {
	switch v := v.(type) {
	case *OutputNotification:
		if unpackOutput(payload, v) {
			return nil
		}
	case *ProcessWriteParams:
		if unpackWrite(payload, v) {
			return nil
		}
	}
	if err := unmarshalMsgpack(payload, v); err != nil {
		return wrongParams(err)
	}
	return nil
}

// unmarshalMsgpack decodes the single value in payload into the target of v.
func unmarshalMsgpack(payload []byte, v any) error {
	if payload == nil {
		payload = []byte{msgpcode.Nil}
	}
	u := unpacker{b: payload, purse: newPurse(payload)}
	if err := unmarshal(&u, v); err != nil {
		return err
	}
	return u.end()
}

// unpackOutput decodes a payload with all members, perhaps without atMs, and no others. For other payloads unpackOutput
// returns false and does not change n.
func unpackOutput(payload []byte, n *OutputNotification) bool {
	u := unpacker{b: payload}
	var id, chunk []byte
	var seq, at uint64
	var numbered bool // there is a seq
	var stream Stream
	err := u.object(func(key []byte) (err error) {
		switch string(key) {
		case "processId":
			id, err = u.text()
		case "seq":
			seq, err = u.unsigned()
			numbered = true
		case "stream":
			var name []byte
			if name, err = u.text(); err == nil {
				err = stream.UnmarshalText(name)
			}
		case "chunk":
			chunk, err = u.bin()
		case "atMs":
			at, err = u.unsigned()
		default:
			err = errOdd
		}
		return err
	})
	if err != nil || u.end() != nil || id == nil || !numbered || stream == 0 || chunk == nil {
		return false
	}
	if n.ProcessID != string(id) { // usually the id is the same as in the last notification, and needs no copy
		n.ProcessID = string(id)
	}
	n.Seq, n.Stream, n.Chunk, n.AtMs = seq, stream, copied(n.Chunk, chunk), at
	return true
}

// unpackWrite decodes a payload with all members and no others. For other payloads unpackWrite
// returns false and does not change p.
func unpackWrite(payload []byte, p *ProcessWriteParams) bool {
	u := unpacker{b: payload}
	var id, chunk, writeID []byte
	err := u.object(func(key []byte) (err error) {
		switch string(key) {
		case "processId":
			id, err = u.text()
		case "chunk":
			chunk, err = u.bin()
		case "writeId":
			writeID, err = u.text()
		default:
			err = errOdd
		}
		return err
	})
	if err != nil || u.end() != nil || id == nil || chunk == nil || len(writeID) == 0 {
		return false
	}
	p.ProcessID, p.Chunk, p.WriteID = string(id), copied(p.Chunk, chunk), string(writeID)
	return true
}
