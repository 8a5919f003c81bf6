package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Msgpack is the codec of the same messages in MessagePack: a frame is a single map, with the same
// members as in JSON. Bytes are bin; no other type is accepted for bytes. A value kept undecoded,
// such as ProcessStartParams.Sandbox, is kept as JSON. (Ours.)
var Msgpack Codec = msgpackCodec{}

type msgpackCodec struct{}

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

func (msgpackCodec) AppendRequest(dst []byte, id ID, method string, params any) ([]byte, error) {
	return pack(dst, func(p *packer) error {
		p.begin(2, params)
		p.key("id")
		if err := p.id(id); err != nil {
			return err
		}
		return p.call(method, params)
	})
}

func (msgpackCodec) AppendNotification(dst []byte, method string, params any) ([]byte, error) {
	return pack(dst, func(p *packer) error {
		p.begin(1, params)
		return p.call(method, params)
	})
}

func (msgpackCodec) AppendResponse(dst []byte, id ID, result any) ([]byte, error) {
	return pack(dst, func(p *packer) error {
		p.enc.EncodeMapLen(2)
		p.key("id")
		if err := p.id(id); err != nil {
			return err
		}
		p.key("result")
		return p.body(result)
	})
}

func (msgpackCodec) AppendFailure(dst []byte, id ID, e *Error) ([]byte, error) {
	return pack(dst, func(p *packer) error {
		p.enc.EncodeMapLen(2)
		p.key("error")
		if err := p.value(reflect.ValueOf(e)); err != nil {
			return err
		}
		p.key("id")
		return p.id(id)
	})
}

// packer appends MessagePack to b. enc fails only if Write or WriteByte fail. They never do, so the
// errors of enc are ignored.
type packer struct {
	b   []byte
	enc *msgpack.Encoder // writes to this packer
}

func (p *packer) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	return len(b), nil
}

func (p *packer) WriteByte(c byte) error {
	p.b = append(p.b, c)
	return nil
}

// packers keeps packers for reuse; a new packer for each frame would be garbage.
var packers = sync.Pool{New: func() any {
	p := new(packer)
	p.enc = msgpack.NewEncoder(p)
	return p
}}

// pack appends a frame to dst. On error pack returns the unchanged dst.
func pack(dst []byte, frame func(*packer) error) ([]byte, error) {
	p := packers.Get().(*packer)
	p.b = dst
	err := frame(p)
	longer := p.b
	p.b = nil
	packers.Put(p)
	if err != nil {
		return dst, err
	}
	return longer, nil
}

// begin begins a frame with this number of members, plus params unless nil.
func (p *packer) begin(members int, params any) {
	if params != nil {
		members++
	}
	p.enc.EncodeMapLen(members)
}

func (p *packer) call(method string, params any) error {
	p.key("method")
	p.text(method)
	if params == nil {
		return nil
	}
	p.key("params")
	return p.body(params)
}

func (p *packer) id(id ID) error {
	switch id.kind {
	case idString:
		p.text(id.s)
	case idInt:
		p.enc.EncodeInt(id.n)
	default:
		return errZeroID
	}
	return nil
}

// text packs s. As in JSON, each byte other than UTF-8 becomes U+FFFD.
func (p *packer) text(s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	p.enc.EncodeString(s)
}

// key packs a name of the wire: ASCII, and less than 32 bytes. Names are the most frequent values,
// and packing them with enc takes twice as long.
func (p *packer) key(name string) {
	p.b = append(append(p.b, msgpcode.FixedStrLow|byte(len(name))), name...)
}

func (p *packer) bytes(b []byte) {
	p.enc.EncodeBytesLen(len(b)) // EncodeBytes would encode nil as nil
	p.b = append(p.b, b...)
}

func (p *packer) stream(s Stream) error {
	name, err := s.name()
	p.key(name)
	return err
}

// body packs params or a result. Frequent types are packed without tables, as in JSON.
func (p *packer) body(v any) error {
	switch v := v.(type) {
	case OutputNotification:
		return p.output(&v)
	case *OutputNotification:
		return p.output(v)
	case ProcessReadResult:
		return p.read(&v)
	case *ProcessReadResult:
		return p.read(v)
	}
	return p.value(reflect.ValueOf(v))
}

func (p *packer) output(n *OutputNotification) error {
	timed := n.AtMs != 0
	if timed {
		p.enc.EncodeMapLen(5)
	} else {
		p.enc.EncodeMapLen(4)
	}
	p.key("processId")
	p.text(n.ProcessID)
	if err := p.chunk(n.Seq, n.Stream, n.Chunk); err != nil || !timed {
		return err
	}
	p.key("atMs")
	return p.enc.EncodeUint(n.AtMs)
}

// chunk packs the members common to output and chunks.
func (p *packer) chunk(seq uint64, stream Stream, chunk []byte) error {
	p.key("seq")
	p.enc.EncodeUint(seq)
	p.key("stream")
	err := p.stream(stream)
	p.key("chunk")
	p.bytes(chunk)
	return err
}

func (p *packer) read(r *ProcessReadResult) error {
	if r.detailed() {
		return p.value(reflect.ValueOf(r))
	}
	p.enc.EncodeMapLen(8)
	p.key("chunks")
	p.enc.EncodeArrayLen(len(r.Chunks))
	for i := range r.Chunks {
		c := &r.Chunks[i]
		p.enc.EncodeMapLen(3)
		if err := p.chunk(c.Seq, c.Stream, c.Chunk); err != nil {
			return err
		}
	}
	p.key("nextSeq")
	p.enc.EncodeUint(r.NextSeq)
	p.key("exited")
	p.enc.EncodeBool(r.Exited)
	p.key("exitCode")
	if r.ExitCode != nil {
		p.enc.EncodeInt(int64(*r.ExitCode))
	} else {
		p.enc.EncodeNil()
	}
	p.key("closed")
	p.enc.EncodeBool(r.Closed)
	p.key("failure")
	if r.Failure != nil {
		p.text(*r.Failure)
	} else {
		p.enc.EncodeNil()
	}
	p.key("sandboxDenied")
	p.enc.EncodeBool(r.SandboxDenied)
	p.key("firstSeq")
	p.enc.EncodeUint(r.FirstSeq)
	return nil
}

// value packs v with the tables. Maps are sorted by their keys.
func (p *packer) value(v reflect.Value) error {
	if !v.IsValid() {
		p.enc.EncodeNil()
		return nil
	}
	switch v.Type() {
	case rawType:
		if v.IsNil() {
			p.enc.EncodeNil()
			return nil
		}
		return p.raw(v.Bytes())
	case bytesType:
		p.bytes(v.Bytes())
		return nil
	case limitType:
		if limit := v.Interface().(Limit); !limit.None {
			p.enc.EncodeInt(limit.Value)
			return nil
		}
		p.enc.EncodeNil()
		return nil
	case streamType:
		return p.stream(Stream(v.Uint()))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return p.value(v.Elem())
	case reflect.String:
		p.text(v.String())
	case reflect.Bool:
		p.enc.EncodeBool(v.Bool())
	case reflect.Int, reflect.Int64:
		p.enc.EncodeInt(v.Int())
	case reflect.Uint16, reflect.Uint64:
		p.enc.EncodeUint(v.Uint())
	case reflect.Float64:
		f := v.Float()
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Errorf("protocol: %v is not a number of JSON", f)
		}
		p.enc.EncodeFloat64(f)
	case reflect.Slice:
		p.enc.EncodeArrayLen(v.Len())
		for i := range v.Len() {
			if err := p.value(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		p.enc.EncodeMapLen(len(keys))
		for _, k := range keys {
			p.text(k.String())
			if err := p.value(v.MapIndex(k)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return p.structure(v)
	default:
		return fmt.Errorf("protocol: %s is not a type of the wire", v.Type())
	}
	return nil
}

func (p *packer) structure(v reflect.Value) error {
	tab := tableOf(v.Type())
	omitted := func(m *member) bool { return m.omit && empty(v.FieldByIndex(m.index)) }
	n := 0
	for i := range tab.members {
		if !omitted(&tab.members[i]) {
			n++
		}
	}
	p.enc.EncodeMapLen(n)
	for i := range tab.members {
		m := &tab.members[i]
		if omitted(m) {
			continue
		}
		p.key(m.name)
		if err := p.value(v.FieldByIndex(m.index)); err != nil {
			return err
		}
	}
	return nil
}

// raw packs a JSON value.
func (p *packer) raw(b []byte) error {
	check, s := scanner{b: b}, scanner{b: b}
	err := check.skip(0) // also checks the depth
	if err == nil {
		err = check.end()
	}
	if err == nil {
		err = p.transcode(&s)
	}
	if err != nil {
		return fmt.Errorf("protocol: raw value: %w", err)
	}
	return nil
}

// transcode packs the next value of s.
func (p *packer) transcode(s *scanner) error {
	switch s.kind() {
	case kindBool:
		yes, err := s.boolean()
		p.enc.EncodeBool(yes)
		return err
	case kindNumber:
		t, err := s.number()
		if err != nil {
			return err
		}
		if n, err := strconv.ParseInt(string(t), 10, 64); err == nil {
			p.enc.EncodeInt(n)
		} else if n, err := strconv.ParseUint(string(t), 10, 64); err == nil {
			p.enc.EncodeUint(n)
		} else if f, err := strconv.ParseFloat(string(t), 64); err == nil {
			p.enc.EncodeFloat64(f)
		} else {
			return fmt.Errorf("the number %s is too large for a float64", clip(t))
		}
		return nil
	case kindText:
		t, err := s.text()
		p.text(string(t))
		return err
	case kindArray:
		return p.counted(msgpcode.Array32, func(n *uint32) error {
			return s.array(func(int) error {
				*n++
				return p.transcode(s)
			})
		})
	case kindObject:
		return p.counted(msgpcode.Map32, func(n *uint32) error {
			return s.object(func(key []byte) error {
				*n++
				p.text(string(key))
				return p.transcode(s)
			})
		})
	}
	p.enc.EncodeNil()
	return s.skip(0)
}

// counted packs an array or map whose length is known only after its elements.
func (p *packer) counted(code byte, elements func(n *uint32) error) error {
	p.b = append(p.b, code, 0, 0, 0, 0)
	at, n := len(p.b), uint32(0)
	err := elements(&n)
	binary.BigEndian.PutUint32(p.b[at-4:], n)
	return err
}
