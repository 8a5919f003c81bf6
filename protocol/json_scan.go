package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/segmentio/asm/base64"
)

// maxDepth is how deep arrays and objects may nest in skipped values; decoded values nest only as
// deep as their types. maxDepth bounds the stack, because a frame of 64 MiB may consist of opening
// brackets. (exec-server's parser has the same limit.)
const maxDepth = 128

// scanner reads JSON once from left to right. It checks every byte, also of skipped values, and
// rejects strings other than UTF-8: replacing a broken character could run another program than
// requested. It copies only strings with escapes. After an error its position is meaningless.
//
// encoding/json is not used: it distinguishes neither null from absent nor the wrong member from
// others, and its speed would limit the output.
type scanner struct {
	b []byte
	i int // index of the next byte
	purse
	tally // of skipped values
}

// peek skips blanks and returns the first byte of the next token, or 0 at the end of the input.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// accept skips c if c is next.
func (s *scanner) accept(c byte) bool {
	if s.peek() != c || s.i == len(s.b) {
		return false
	}
	s.i++
	return true
}

// end fails if anything but blanks is left.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.unexpected("nothing more")
	}
	return nil
}

func (s *scanner) unexpected(expected string) error {
	if s.i >= len(s.b) {
		return fmt.Errorf("the text ends at byte %d, expected %s", s.i, expected)
	}
	return fmt.Errorf("found %q at byte %d, expected %s", s.b[s.i], s.i, expected)
}

// object calls visit at the value of each member; visit must move past the value. The key is valid
// during the call.
func (s *scanner) object(visit func(key []byte) error) error {
	if !s.accept('{') {
		return s.unexpected("`{`")
	}
	if s.accept('}') {
		return nil
	}
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if !s.accept(':') {
			return s.unexpected("`:`")
		}
		if err := visit(key); err != nil {
			return err
		}
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.unexpected("`,` or `}`")
		}
	}
}

// array calls visit at each element; visit must move past the element.
func (s *scanner) array(visit func(i int) error) error {
	if !s.accept('[') {
		return s.unexpected("`[`")
	}
	if s.accept(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := visit(i); err != nil {
			return err
		}
		if s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.unexpected("`,` or `]`")
		}
	}
}

// raw moves past a value and returns the value, aliasing the input.
func (s *scanner) raw() ([]byte, error) {
	s.peek()
	start := s.i
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.b[start:s.i:s.i], nil
}

// skip moves past a value nested in depth others.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d at byte %d", maxDepth, s.i)
	}
	switch c := s.peek(); {
	case c == '{':
		var seen names
		return s.object(func(key []byte) error {
			if err := s.member(&seen, key); err != nil {
				return err
			}
			return s.skip(depth + 1)
		})
	case c == '[':
		return s.array(func(int) error {
			if err := s.count(); err != nil {
				return err
			}
			return s.skip(depth + 1)
		})
	case c == '"':
		_, _, err := s.token()
		return err
	case c == '-' || '0' <= c && c <= '9':
		_, err := s.number()
		return err
	case s.literal("null"), s.literal("true"), s.literal("false"):
		return nil
	}
	return s.unexpected("a value")
}

// literal skips word if word is next.
func (s *scanner) literal(word string) bool {
	s.peek()
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

// number moves past a number and returns its text, aliasing the input.
func (s *scanner) number() ([]byte, error) {
	s.peek()
	start := s.i
	some := func() bool { // digits
		from := s.i
		for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
			s.i++
		}
		return s.i > from
	}
	oneOf := func(set string) bool {
		if s.i < len(s.b) && strings.IndexByte(set, s.b[s.i]) >= 0 {
			s.i++
			return true
		}
		return false
	}
	oneOf("-")
	if !oneOf("0") && !some() {
		return nil, s.unexpected("a digit")
	}
	if oneOf(".") && !some() {
		return nil, s.unexpected("a digit")
	}
	if oneOf("eE") {
		oneOf("+-")
		if !some() {
			return nil, s.unexpected("a digit")
		}
	}
	return s.b[start:s.i], nil
}

// digits shortens a number for strconv to parse as an integer. The first 24 bytes are enough to
// fail: an integer of 64 bits has at most 20 digits, and none begins with 0.
func digits(number []byte) string { return string(number[:min(len(number), 24)]) }

// text moves past a string and returns its value. Without escapes the value aliases the input.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a string")
	}
	t, escaped, err := s.token()
	if err != nil || !escaped {
		return t, err
	}
	return unescape(t)
}

// base64 moves past a string and returns the bytes between its quotes. A string with escapes fails
// later, when it is decoded as base64.
func (s *scanner) base64() ([]byte, error) {
	if !s.accept('"') {
		return nil, s.unexpected("a string")
	}
	n := bytes.IndexByte(s.b[s.i:], '"')
	if n < 0 {
		s.i = len(s.b)
		return nil, s.unexpected("the end of a string")
	}
	inner := s.b[s.i : s.i+n]
	s.i += n + 1
	return inner, nil
}

// token moves past a string and returns the bytes between its quotes. The opening quote must be
// next.
func (s *scanner) token() (inner []byte, escaped bool, err error) {
	s.i++
	start, ascii := s.i, true
	for {
		n, a := plain(s.b[s.i:])
		s.i += n
		ascii = ascii && a
		if s.i == len(s.b) {
			return nil, false, s.unexpected("the end of a string")
		}
		switch s.b[s.i] {
		case '"':
			inner = s.b[start:s.i:s.i]
			s.i++
			if !ascii && !utf8.Valid(inner) {
				return nil, false, fmt.Errorf("the string at byte %d is not UTF-8", start)
			}
			return inner, escaped, nil
		case '\\':
			escaped = true
			if !s.escape() {
				return nil, false, s.unexpected("an escape")
			}
		default:
			return nil, false, s.unexpected("no control character in a string")
		}
	}
}

// escape moves past a valid escape, or returns false.
func (s *scanner) escape() bool {
	rest := s.b[s.i+1:]
	if len(rest) > 0 && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0 {
		s.i += 2
		return true
	}
	if len(rest) < 5 || rest[0] != 'u' {
		return false
	}
	for _, c := range rest[1:5] {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	s.i += 6
	return true
}

// plain returns how many bytes of b stand for themselves in a string: all bytes before the first
// quote, backslash or control character. ascii reports whether these bytes are ASCII.
//
// Most bytes of the wire pass through here, so plain looks at eight bytes at a time, and at 32
// while all are '#' or above, as in base64. In the difference x-n, the top bit of a byte is set if
// the byte is less than n. A borrow can set more top bits, but only above a byte less than n, and
// only the lowest set bit counts.
func plain(b []byte) (n int, ascii bool) {
	const (
		ones    = 0x0101010101010101
		tops    = ones << 7
		slashes = ones * '\\'
		quotes  = ones * '"'
	)
	var all uint64
	for ; len(b)-n >= 32; n += 32 {
		block := b[n : n+32]
		x0, x1 := binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
		x2, x3 := binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:])
		odd := (x0-ones*'#')&^x0 | (x0^slashes-ones)&^(x0^slashes) |
			(x1-ones*'#')&^x1 | (x1^slashes-ones)&^(x1^slashes) |
			(x2-ones*'#')&^x2 | (x2^slashes-ones)&^(x2^slashes) |
			(x3-ones*'#')&^x3 | (x3^slashes-ones)&^(x3^slashes)
		if odd&tops != 0 {
			break
		}
		all |= x0 | x1 | x2 | x3
	}
	for ; len(b)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		special := (x-ones*' ')&^x | (x^slashes-ones)&^(x^slashes) | (x^quotes-ones)&^(x^quotes)
		if special &= tops; special != 0 {
			k := bits.TrailingZeros64(special) &^ 7
			all |= x & (1<<k - 1)
			return n + k/8, all&tops == 0
		}
		all |= x
	}
	for ; n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\'; n++ {
		all |= uint64(b[n])
	}
	return n, all&tops == 0
}

// unescape resolves the escapes of a token. Half a surrogate pair stands for no character and is an
// error.
func unescape(t []byte) ([]byte, error) {
	out := make([]byte, 0, len(t))
	for {
		k := bytes.IndexByte(t, '\\')
		if k < 0 {
			return append(out, t...), nil
		}
		out = append(out, t[:k]...)
		c := t[k+1]
		if c != 'u' {
			if i := strings.IndexByte("b\bf\fn\nr\rt\t", c); i >= 0 {
				c = "b\bf\fn\nr\rt\t"[i+1]
			}
			out, t = append(out, c), t[k+2:]
			continue
		}
		r := hex4(t[k+2:])
		t = t[k+6:]
		if utf16.IsSurrogate(r) {
			if len(t) < 6 || t[0] != '\\' || t[1] != 'u' {
				return nil, errors.New("half of a surrogate pair in a string")
			}
			if r = utf16.DecodeRune(r, hex4(t[2:])); r == utf8.RuneError {
				return nil, errors.New("half of a surrogate pair in a string")
			}
			t = t[6:]
		}
		out = utf8.AppendRune(out, r)
	}
}

// hex4 is the value of four hexadecimal digits, already checked by token.
func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n)
}

// id moves past a request id.
func (s *scanner) id() (ID, error) {
	switch c := s.peek(); {
	case c == '"':
		t, err := s.text()
		return StringID(string(t)), err
	case c == '-' || '0' <= c && c <= '9':
		t, err := s.number()
		if err != nil {
			return ID{}, err
		}
		n, err := strconv.ParseInt(digits(t), 10, 64)
		if err != nil {
			return ID{}, fmt.Errorf("invalid number %s, expected a string or a 64-bit integer", clip(t))
		}
		return IntID(n), nil
	}
	return ID{}, s.mismatch("a string or a 64-bit integer")
}

// mismatch moves past the next value and returns an error: the value is not of the expected kind.
func (s *scanner) mismatch(expected string) error {
	v, err := s.raw()
	if err != nil {
		return err
	}
	found := clip(v) // null
	switch v[0] {
	case '{':
		found = "map"
	case '[':
		found = "sequence"
	case '"':
		found = "string " + clip(v)
	case 't', 'f':
		found = "boolean " + clip(v)
	case 'n':
	default:
		found = "number " + clip(v)
	}
	return fmt.Errorf("invalid type: %s, expected %s", found, expected)
}

// clip shortens a value for an error text: the sender knows the rest.
func clip[T ~[]byte | ~string](v T) string {
	const limit = 64
	if len(v) <= limit {
		return string(v)
	}
	return strings.ToValidUTF8(string(v[:limit]), "") + "…"
}

// appendString appends s as JSON. Bytes other than UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // marshalling a string never fails
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// std is base64 as in RFC 4648 §4, padded, with the unused bits zero.
var std = base64.StdEncoding.Strict()

// appendBase64 appends p as a JSON string.
func appendBase64(dst, p []byte) []byte {
	n := std.EncodedLen(len(p))
	dst = append(slices.Grow(dst, n+2), '"')
	std.Encode(dst[len(dst):len(dst)+n], p)
	return append(dst[:len(dst)+n], '"')
}

// decodeBase64 decodes src into the capacity of dst, or into a new slice if dst is too small. The
// result is never nil. The bytes of dst are lost even on error.
func decodeBase64(dst, src []byte) ([]byte, error) {
	n := std.DecodedLen(len(src))
	if cap(dst) < n || dst == nil {
		dst = make([]byte, n)
	}
	got, err := std.Decode(dst[:n], src)
	padding := len(src) - len(bytes.TrimRight(src, "="))
	// The decoder skips line breaks; the result is then too short.
	if err != nil || len(src)%4 != 0 || got != n-padding {
		return nil, base64Error(src)
	}
	return dst[:got], nil
}

// base64Error finds the mistake in src.
func base64Error(src []byte) error {
	symbols := bytes.TrimRight(src, "=")
	for i, c := range symbols {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return fmt.Errorf("invalid base64: symbol %d, offset %d", c, i)
		}
	}
	if len(src)%4 != 0 || len(src)-len(symbols) > 2 {
		return errors.New("invalid base64: padding")
	}
	last := len(symbols) - 1
	return fmt.Errorf("invalid base64: last symbol %d, offset %d", symbols[last], last)
}
