package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// unpacker is a source of MessagePack. It rejects a length greater than the remaining bytes before using the length; it also rejects
// non-string keys, strings other than UTF-8, and extensions. It copies nothing.
//
// The library's Decoder is not used. It reads a stream: it trusts lengths, copies bytes although a
// Payload should alias the frame, and accepts bytes as strings and floats as integers.
type unpacker source

// item is the head of a value: its first byte, and its size if encoded.
type item struct {
	kind  kind
	n     uint64 // boolean: 1 or 0; number: its bits; otherwise the length in bytes, elements or members
	float bool   // n has the bits of a float64
	below bool   // n is a negative int64
}

// head moves past the head of the next value. It checks the announced length against the remaining
// bytes.
func (u *unpacker) head() (item, error) {
	at := u.i
	if at >= len(u.b) {
		return item{}, fmt.Errorf("the message ends at byte %d, expected a value", at)
	}
	c := u.b[at]
	u.i++
	var it item
	size := 0 // of n, in bytes
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return item{kind: kindNumber, n: uint64(c)}, nil
	case c >= msgpcode.NegFixedNumLow:
		return item{kind: kindNumber, n: uint64(int64(int8(c))), below: true}, nil
	case msgpcode.IsFixedString(c):
		it.kind, it.n = kindText, uint64(c&msgpcode.FixedStrMask)
	case msgpcode.IsFixedMap(c):
		it.kind, it.n = kindObject, uint64(c&msgpcode.FixedMapMask)
	case msgpcode.IsFixedArray(c):
		it.kind, it.n = kindArray, uint64(c&msgpcode.FixedArrayMask)
	case c == msgpcode.Nil:
		return item{kind: kindNull}, nil
	case c == msgpcode.False, c == msgpcode.True:
		return item{kind: kindBool, n: uint64(c - msgpcode.False)}, nil
	case msgpcode.IsBin(c):
		it.kind, size = kindBytes, 1<<(c-msgpcode.Bin8)
	case msgpcode.IsString(c):
		it.kind, size = kindText, 1<<(c-msgpcode.Str8)
	case c == msgpcode.Array16, c == msgpcode.Array32:
		it.kind, size = kindArray, 2<<(c-msgpcode.Array16)
	case c == msgpcode.Map16, c == msgpcode.Map32:
		it.kind, size = kindObject, 2<<(c-msgpcode.Map16)
	case c == msgpcode.Float, c == msgpcode.Double:
		it.kind, it.float, size = kindNumber, true, 4<<(c-msgpcode.Float)
	case msgpcode.Uint8 <= c && c <= msgpcode.Uint64:
		it.kind, size = kindNumber, 1<<(c-msgpcode.Uint8)
	case msgpcode.Int8 <= c && c <= msgpcode.Int64:
		it.kind, size = kindNumber, 1<<(c-msgpcode.Int8)
	case msgpcode.IsExt(c):
		return item{}, fmt.Errorf("an extension (0x%x) at byte %d: this wire has no MessagePack extensions", c, at)
	default:
		return item{}, fmt.Errorf("0x%x at byte %d begins no value", c, at)
	}
	if len(u.b)-u.i < size {
		return item{}, fmt.Errorf("the message ends within the head of the value at byte %d", at)
	}
	for _, c := range u.b[u.i : u.i+size] {
		it.n = it.n<<8 | uint64(c)
	}
	u.i += size

	left := uint64(len(u.b) - u.i)
	switch {
	case it.kind == kindNumber:
		if it.float && size == 4 {
			it.n = math.Float64bits(float64(math.Float32frombits(uint32(it.n))))
		}
		if msgpcode.Int8 <= c && c <= msgpcode.Int64 {
			unused := 64 - 8*size
			signed := int64(it.n<<unused) >> unused
			it.n, it.below = uint64(signed), signed < 0
		}
	case it.kind == kindObject && it.n > left/2, it.n > left: // an element has at least one byte, a member two
		return item{}, fmt.Errorf("the value at byte %d announces a length of %d, but only %d bytes follow", at, it.n, left)
	}
	return it, nil
}

// end fails if anything is left.
func (u *unpacker) end() error {
	if u.i < len(u.b) {
		return fmt.Errorf("%d bytes follow the end at byte %d, expected nothing more", len(u.b)-u.i, u.i)
	}
	return nil
}

func (u *unpacker) kind() kind {
	at := u.i
	it, _ := u.head()
	u.i = at
	return it.kind
}

// next calls head if a value of kind k is next, and fails otherwise.
func (u *unpacker) next(k kind, expected string) (item, error) {
	at := u.i
	it, err := u.head()
	if err == nil && it.kind != k {
		u.i = at
		err = u.mismatch(expected)
	}
	return it, err
}

// raw moves past a value and returns the value, aliasing the input.
func (u *unpacker) raw() ([]byte, error) {
	start := u.i
	if err := u.skip(0); err != nil {
		return nil, err
	}
	return u.b[start:u.i:u.i], nil
}

func (u *unpacker) skip(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d at byte %d", maxDepth, u.i)
	}
	switch u.kind() {
	case kindText:
		_, err := u.text()
		return err
	case kindArray:
		return u.array(func(int) error {
			if err := u.count(); err != nil {
				return err
			}
			return u.skip(depth + 1)
		})
	case kindObject:
		var seen names
		return u.object(func(key []byte) error {
			if err := u.member(&seen, key); err != nil {
				return err
			}
			return u.skip(depth + 1)
		})
	}
	it, err := u.head()
	if it.kind == kindBytes {
		u.i += int(it.n)
	}
	return err
}

// text moves past a string and returns the string, aliasing the input.
func (u *unpacker) text() ([]byte, error) {
	it, err := u.next(kindText, "a string")
	if err != nil {
		return nil, err
	}
	return u.utf8(it)
}

// utf8 moves past the bytes of a string after its head.
func (u *unpacker) utf8(it item) ([]byte, error) {
	t := u.b[u.i : u.i+int(it.n)]
	if !utf8.Valid(t) {
		return nil, fmt.Errorf("the string at byte %d is not UTF-8", u.i)
	}
	u.i += len(t)
	return t, nil
}

// bin moves past bytes and returns the bytes, aliasing the input.
func (u *unpacker) bin() ([]byte, error) {
	it, err := u.next(kindBytes, "bytes (bin): as they are, not in base64")
	if err != nil {
		return nil, err
	}
	b := u.b[u.i : u.i+int(it.n)]
	u.i += len(b)
	return b, nil
}

func (u *unpacker) bytes(dst []byte) ([]byte, error) {
	b, err := u.bin()
	if err != nil {
		return nil, err
	}
	return copied(dst, b), nil
}

// copied copies src into the capacity of dst, or into a new slice; the result is never nil.
func copied(dst, src []byte) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(src))
	}
	return append(dst[:0], src...)
}

func (u *unpacker) boolean() (bool, error) {
	it, err := u.next(kindBool, "a boolean")
	return it.n == 1, err
}

func (u *unpacker) number() ([]byte, error) {
	it, err := u.next(kindNumber, "a number")
	return it.appendNumber(u.digits[:0]), err
}

// appendNumber appends a number as JSON. Floats unknown to JSON become NaN, +Inf or -Inf.
func (it item) appendNumber(dst []byte) []byte {
	switch {
	case it.float:
		start := len(dst)
		dst = strconv.AppendFloat(dst, math.Float64frombits(it.n), 'g', -1, 64)
		if !bytes.ContainsAny(dst[start:], ".eIN") {
			dst = append(dst, ".0"...) // without ".0" the float would look like an integer
		}
		return dst
	case it.below:
		return strconv.AppendInt(dst, int64(it.n), 10)
	}
	return strconv.AppendUint(dst, it.n, 10)
}

// unsigned moves past a non-negative integer.
func (u *unpacker) unsigned() (uint64, error) {
	it, err := u.next(kindNumber, "u64")
	if it.float || it.below {
		err = errOdd
	}
	return it.n, err
}

func (u *unpacker) array(visit func(i int) error) error {
	it, err := u.next(kindArray, "a sequence")
	for i := 0; err == nil && i < int(it.n); i++ {
		err = visit(i)
	}
	return err
}

func (u *unpacker) object(visit func(key []byte) error) error {
	it, err := u.next(kindObject, "a map")
	for i := 0; err == nil && i < int(it.n); i++ {
		var key []byte
		if key, err = u.key(); err == nil {
			err = visit(key)
		}
	}
	return err
}

func (u *unpacker) key() ([]byte, error) {
	at := u.i
	it, err := u.head()
	switch {
	case err != nil:
		return nil, err
	case it.kind != kindText:
		return nil, fmt.Errorf("the key at byte %d is not a string", at)
	}
	return u.utf8(it)
}

func (u *unpacker) unit() bool {
	at := u.i
	if it, _ := u.head(); it.kind == kindObject && it.n == 0 {
		return true
	}
	u.i = at
	return false
}

// id moves past a request id.
func (u *unpacker) id() (ID, error) {
	switch u.kind() {
	case kindText:
		t, err := u.text()
		return StringID(string(t)), err
	case kindNumber:
		t, err := u.number()
		if err != nil {
			return ID{}, err
		}
		n, err := strconv.ParseInt(digits(t), 10, 64)
		if err != nil {
			return ID{}, wrongID(fmt.Sprintf("found %s, expected %s", clip(t), idTypes))
		}
		return IntID(n), nil
	}
	return ID{}, wrongID(u.mismatch(idTypes).Error())
}

func (u *unpacker) mismatch(expected string) error {
	it, err := u.head()
	if err != nil {
		return err
	}
	switch it.kind {
	case kindBool:
		return wrongType("boolean `"+strconv.FormatBool(it.n == 1)+"`", expected)
	case kindNumber:
		return wrongNumber(it.appendNumber(nil), expected)
	case kindText:
		return wrongType("string "+string(appendString(nil, clip(u.b[u.i:u.i+int(it.n)]))), expected)
	case kindBytes:
		return wrongType("bytes", expected)
	case kindArray:
		return wrongType("sequence", expected)
	case kindObject:
		return wrongType("map", expected)
	}
	return wrongType("null", expected)
}

// maxRaw is the size limit for a value kept as JSON, in bytes. Each byte may become six bytes of
// JSON.
const maxRaw = 64 << 10

func (u *unpacker) rawJSON() (json.RawMessage, error) {
	ahead := *u
	if err := ahead.skip(0); err != nil { // also checks the depth
		return nil, err
	}
	if size := ahead.i - u.i; size > maxRaw {
		return nil, fmt.Errorf("a value of %d bytes, the limit is %d", size, maxRaw)
	}
	return u.appendJSON(nil)
}

// appendJSON moves past a value and appends the value as JSON. Bytes become base64.
func (u *unpacker) appendJSON(dst []byte) ([]byte, error) {
	switch u.kind() {
	case kindNull:
		_, err := u.head()
		return append(dst, "null"...), err
	case kindBool:
		yes, err := u.boolean()
		return strconv.AppendBool(dst, yes), err
	case kindNumber:
		t, err := u.number()
		if bytes.ContainsAny(t, "IN") {
			err = fmt.Errorf("%s is not a number of JSON", clip(t))
		}
		return append(dst, t...), err
	case kindText:
		t, err := u.text()
		return appendString(dst, string(t)), err
	case kindBytes:
		b, err := u.bin()
		return appendBase64(dst, b), err
	case kindArray:
		dst = append(dst, '[')
		err := u.array(func(int) (err error) {
			dst, err = u.appendJSON(separate(dst))
			return err
		})
		return append(dst, ']'), err
	case kindObject:
		dst = append(dst, '{')
		err := u.object(func(key []byte) (err error) {
			dst, err = u.appendJSON(append(appendString(separate(dst), string(key)), ':'))
			return err
		})
		return append(dst, '}'), err
	}
	_, err := u.head()
	return dst, err
}
