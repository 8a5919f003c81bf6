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

// sink appends encoded values to a frame. Both encodings have the same members in the same order. In MessagePack an array and an object begin with
// their length, and in JSON they have an end.
type sink struct {
	b []byte  // of JSON
	p *packer // of MessagePack; nil: JSON
}

// packer has the bytes of a frame in MessagePack. enc fails only if Write or WriteByte fail. They never do, so the
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

// sinkOf returns a sink that appends to dst. The caller calls end once.
func sinkOf(dst []byte, packed bool) sink {
	if !packed {
		return sink{b: dst}
	}
	p := packers.Get().(*packer)
	p.b = dst
	return sink{p: p}
}

// end returns the longer slice. On error end returns dst, the slice before the frame.
func (k *sink) end(dst []byte, err error) ([]byte, error) {
	b := k.b
	if k.p != nil {
		b, k.p.b = k.p.b, nil
		packers.Put(k.p)
	}
	if err != nil {
		return dst, err
	}
	return b, nil
}

func (k *sink) null() {
	if k.p != nil {
		k.p.enc.EncodeNil()
		return
	}
	k.b = append(k.b, "null"...)
}

func (k *sink) boolean(yes bool) {
	if k.p != nil {
		k.p.enc.EncodeBool(yes)
		return
	}
	k.b = strconv.AppendBool(k.b, yes)
}

func (k *sink) integer(n int64) {
	if k.p != nil {
		k.p.enc.EncodeInt(n)
		return
	}
	k.b = strconv.AppendInt(k.b, n, 10)
}

func (k *sink) unsigned(n uint64) {
	if k.p != nil {
		k.p.enc.EncodeUint(n)
		return
	}
	k.b = strconv.AppendUint(k.b, n, 10)
}

func (k *sink) float(f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("protocol: %v is not a number of JSON", f)
	}
	if k.p != nil {
		k.p.enc.EncodeFloat64(f)
		return nil
	}
	k.b = strconv.AppendFloat(k.b, f, 'g', -1, 64)
	return nil
}

// text appends s. Each byte other than UTF-8 becomes U+FFFD.
func (k *sink) text(s string) {
	if k.p != nil {
		k.p.text(s)
		return
	}
	k.b = appendString(k.b, s)
}

func (p *packer) text(s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	p.enc.EncodeString(s)
}

func (k *sink) bytes(b []byte) {
	if k.p != nil {
		k.p.bytes(b)
		return
	}
	k.b = appendBase64(k.b, b)
}

func (p *packer) bytes(b []byte) {
	p.enc.EncodeBytesLen(len(b)) // EncodeBytes would encode nil as nil
	p.b = append(p.b, b...)
}

// raw appends a JSON value.
func (k *sink) raw(b []byte) error {
	s := scanner{b: b}
	raw, err := s.raw() // also checks the depth
	if err == nil {
		err = s.end()
	}
	switch {
	case err != nil:
	case k.p != nil:
		err = k.p.transcode(&scanner{b: b})
	default:
		k.b = append(k.b, raw...)
	}
	if err != nil {
		return fmt.Errorf("protocol: raw value: %w", err)
	}
	return nil
}

// array begins an array of n elements, each after element.
func (k *sink) array(n int) {
	if k.p != nil {
		k.p.enc.EncodeArrayLen(n)
		return
	}
	k.b = append(k.b, '[')
}

func (k *sink) element() {
	if k.p == nil {
		k.b = separate(k.b)
	}
}

// object begins an object of n members, each after its key.
func (k *sink) object(n int) {
	if k.p != nil {
		k.p.enc.EncodeMapLen(n)
		return
	}
	k.b = append(k.b, '{')
}

// key appends the name of a member. quoted has the name as in JSON, with a colon.
func (k *sink) key(quoted string) {
	if k.p != nil {
		k.p.name(quoted[1 : len(quoted)-2])
		return
	}
	k.b = append(separate(k.b), quoted...)
}

// name packs a name of the wire, which is ASCII, and has less than 32 bytes. Names are the most frequent values, and packing them with enc
// takes twice as long.
func (p *packer) name(name string) {
	p.b = append(append(p.b, msgpcode.FixedStrLow|byte(len(name))), name...)
}

// close ends an array or an object, with its bracket.
func (k *sink) close(bracket byte) {
	if k.p == nil {
		k.b = append(k.b, bracket)
	}
}

func (k *sink) id(id ID) error {
	switch id.kind {
	case idString:
		k.text(id.s)
	case idInt:
		k.integer(id.n)
	default:
		return errZeroID
	}
	return nil
}

func (k *sink) stream(s Stream) error {
	name, err := s.name() // ASCII, like the name of a member
	if k.p != nil {
		k.p.name(name)
		return err
	}
	k.b = append(append(append(k.b, '"'), name...), '"')
	return err
}

// call appends the method, the params and the end of a frame.
func (k *sink) call(method string, params any) (err error) {
	k.key(`"method":`)
	k.text(method)
	if params != nil {
		k.key(`"params":`)
		err = k.body(params)
	}
	k.close('}')
	return err
}

// body appends params or a result. Nearly every frame is output or input, and a keystroke should cost no reflection: some types are encoded by
// hand, without the tables. Tests prove that both ways agree.
func (k *sink) body(v any) error {
	switch v := v.(type) {
	case OutputNotification:
		return k.output(&v)
	case *OutputNotification:
		return k.output(v)
	case ProcessReadResult:
		return k.read(&v)
	case *ProcessReadResult:
		return k.read(v)
	}
	return k.value(reflect.ValueOf(v))
}

// output appends the most frequent message of all.
func (k *sink) output(n *OutputNotification) error {
	stream, err := n.Stream.name()
	if p := k.p; p != nil {
		p.enc.EncodeMapLen(4 + int(min(n.AtMs, 1)))
		p.name("processId")
		p.text(n.ProcessID)
		p.name("seq")
		p.enc.EncodeUint(n.Seq)
		p.name("stream")
		p.name(stream)
		p.name("chunk")
		p.bytes(n.Chunk)
		if n.AtMs != 0 {
			p.name("atMs")
			p.enc.EncodeUint(n.AtMs)
		}
		return err
	}
	b := appendString(append(k.b, `{"processId":`...), n.ProcessID)
	b = strconv.AppendUint(append(b, `,"seq":`...), n.Seq, 10)
	b = appendString(append(b, `,"stream":`...), stream)
	b = appendBase64(append(b, `,"chunk":`...), n.Chunk)
	if n.AtMs != 0 {
		b = strconv.AppendUint(append(b, `,"atMs":`...), n.AtMs, 10)
	}
	k.b = append(b, '}')
	return err
}

func (k *sink) read(r *ProcessReadResult) error {
	if r.detailed() {
		return k.value(reflect.ValueOf(r))
	}
	k.object(8)
	k.key(`"chunks":`)
	k.array(len(r.Chunks))
	for i := range r.Chunks {
		c := &r.Chunks[i]
		k.element()
		k.object(3)
		k.key(`"seq":`)
		k.unsigned(c.Seq)
		k.key(`"stream":`)
		if err := k.stream(c.Stream); err != nil {
			return err
		}
		k.key(`"chunk":`)
		k.bytes(c.Chunk)
		k.close('}')
	}
	k.close(']')
	k.key(`"nextSeq":`)
	k.unsigned(r.NextSeq)
	k.key(`"exited":`)
	k.boolean(r.Exited)
	k.key(`"exitCode":`)
	if r.ExitCode != nil {
		k.integer(int64(*r.ExitCode))
	} else {
		k.null()
	}
	k.key(`"closed":`)
	k.boolean(r.Closed)
	k.key(`"failure":`)
	if r.Failure != nil {
		k.text(*r.Failure)
	} else {
		k.null()
	}
	k.key(`"sandboxDenied":`)
	k.boolean(r.SandboxDenied)
	k.key(`"firstSeq":`)
	k.unsigned(r.FirstSeq)
	k.close('}')
	return nil
}

// value appends v with the tables. Maps are sorted by their keys.
func (k *sink) value(v reflect.Value) error {
	if !v.IsValid() {
		k.null()
		return nil
	}
	switch v.Type() {
	case rawType:
		if !v.IsNil() {
			return k.raw(v.Bytes())
		}
		k.null()
		return nil
	case bytesType:
		k.bytes(v.Bytes())
		return nil
	case limitType:
		if limit := v.Interface().(Limit); !limit.None {
			k.integer(limit.Value)
		} else {
			k.null()
		}
		return nil
	case streamType:
		return k.stream(Stream(v.Uint()))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return k.value(v.Elem())
	case reflect.String:
		k.text(v.String())
	case reflect.Bool:
		k.boolean(v.Bool())
	case reflect.Int, reflect.Int64:
		k.integer(v.Int())
	case reflect.Uint16, reflect.Uint64:
		k.unsigned(v.Uint())
	case reflect.Float64:
		return k.float(v.Float())
	case reflect.Slice:
		k.array(v.Len())
		for i := range v.Len() {
			k.element()
			if err := k.value(v.Index(i)); err != nil {
				return err
			}
		}
		k.close(']')
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		k.object(len(keys))
		for _, key := range keys {
			k.element()
			k.text(key.String())
			k.colon()
			if err := k.value(v.MapIndex(key)); err != nil {
				return err
			}
		}
		k.close('}')
	case reflect.Struct:
		return k.structure(v)
	default:
		return fmt.Errorf("protocol: %s is not a type of the wire", v.Type())
	}
	return nil
}

// colon ends a key that is no name of the wire.
func (k *sink) colon() {
	if k.p == nil {
		k.b = append(k.b, ':')
	}
}

func (k *sink) structure(v reflect.Value) error {
	members := tableOf(v.Type()).members
	n, omitted := len(members), uint64(0)
	for i := range members {
		if m := &members[i]; m.omit && empty(m.of(v)) {
			omitted |= 1 << i
			n--
		}
	}
	k.object(n)
	for i := range members {
		if omitted>>i&1 != 0 {
			continue
		}
		k.key(members[i].quoted)
		if err := k.value(members[i].of(v)); err != nil {
			return err
		}
	}
	k.close('}')
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

// separate appends a comma, unless dst ends with the start of an array or object.
func separate(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '[' || last == '{' {
		return dst
	}
	return append(dst, ',')
}

// appendJSON appends v as JSON.
func appendJSON(dst []byte, v any) ([]byte, error) {
	k := sinkOf(dst, false)
	err := k.value(reflect.ValueOf(v))
	return k.end(dst, err)
}
