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

// scanner is a source of JSON. It rejects strings other than UTF-8: replacing a broken character could run another program than
// requested. It copies only strings with escapes.
//
// encoding/json is not used: it distinguishes neither null from absent nor the wrong member from
// others, and its speed would limit the output.
type scanner source

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
		return s.unexpected("nothing more", "trailing characters", endOfValue)
	}
	return nil
}

// unexpected returns an error: the next byte is not as expected. peer is exec-server's text for it,
// and end its text at the end of the input.
func (s *scanner) unexpected(expected, peer, end string) error {
	if s.i >= len(s.b) {
		return s.wrong(len(s.b), end, fmt.Sprintf("the text ends at byte %d, expected %s", s.i, expected))
	}
	return s.wrong(s.i+1, peer, fmt.Sprintf("found %q at byte %d, expected %s", s.b[s.i], s.i, expected))
}

const (
	endOfValue  = "EOF while parsing a value"
	endOfString = "EOF while parsing a string"
	endOfList   = "EOF while parsing a list"
	endOfObject = "EOF while parsing an object"
)

// wrong returns an error after the first at bytes, in exec-server's words and with our detail.
func (s *scanner) wrong(at int, peer, detail string) error {
	line := bytes.LastIndexByte(s.b[:at], '\n') + 1
	return &detailed{fmt.Sprintf("%s at line %d column %d", peer, 1+bytes.Count(s.b[:line], []byte("\n")), at-line), detail}
}

// object calls visit at the value of each member; visit must move past the value. The key is valid
// during the call.
func (s *scanner) object(visit func(key []byte) error) error {
	if !s.accept('{') {
		return s.unexpected("`{`", "expected value", endOfValue)
	}
	if s.accept('}') {
		return nil
	}
	for end := endOfObject; ; end = endOfValue {
		if c := s.peek(); c == '}' {
			return s.unexpected("a string", "trailing comma", end)
		} else if c != '"' {
			return s.unexpected("a string", "key must be a string", end)
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if !s.accept(':') {
			return s.unexpected("`:`", "expected `:`", endOfObject)
		}
		if err := visit(key); err != nil {
			return err
		}
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.unexpected("`,` or `}`", "expected `,` or `}`", endOfObject)
		}
	}
}

// array calls visit at each element; visit must move past the element.
func (s *scanner) array(visit func(i int) error) error {
	if !s.accept('[') {
		return s.unexpected("`[`", "expected value", endOfValue)
	}
	if s.accept(']') {
		return nil
	}
	for i := 0; ; i++ {
		if c := s.peek(); s.i == len(s.b) && i == 0 {
			return s.unexpected("a value", "", endOfList)
		} else if c == ']' {
			return s.unexpected("a value", "trailing comma", "")
		}
		if err := visit(i); err != nil {
			return err
		}
		if s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.unexpected("`,` or `]`", "expected `,` or `]`", endOfList)
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
		s.peek()
		return s.wrong(min(s.i+1, len(s.b)), "recursion limit exceeded", fmt.Sprintf("nested deeper than %d at byte %d", maxDepth, s.i))
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
	return s.noValue()
}

// noValue returns an error: no value is next.
func (s *scanner) noValue() error {
	rest := s.b[s.i:]
	for _, word := range []string{"null", "true", "false"} {
		if len(rest) == 0 || rest[0] != word[0] {
			continue
		}
		same := 1
		for same < min(len(rest), len(word)) && rest[same] == word[same] {
			same++
		}
		detail := fmt.Sprintf("found %q at byte %d, expected a value", rest[0], s.i)
		if same == len(rest) {
			return s.wrong(len(s.b), endOfValue, detail)
		}
		return s.wrong(s.i+same+1, "expected ident", detail)
	}
	return s.unexpected("a value", "expected value", endOfValue)
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
	either := func(a, b byte) bool {
		if s.i < len(s.b) && (s.b[s.i] == a || s.b[s.i] == b) {
			s.i++
			return true
		}
		return false
	}
	either('-', '-')
	if either('0', '0') {
		if some() {
			s.i = start + 1
			return nil, s.unexpected("no digit after 0", "invalid number", endOfValue)
		}
	} else if !some() {
		return nil, s.unexpected("a digit", "invalid number", endOfValue)
	}
	if either('.', '.') && !some() {
		return nil, s.unexpected("a digit", "invalid number", endOfValue)
	}
	if either('e', 'E') {
		either('+', '-')
		if !some() {
			return nil, s.unexpected("a digit", "invalid number", endOfValue)
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
		return nil, s.unexpected("a string", "expected value", endOfValue)
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
		return nil, s.unexpected("a string", "expected value", endOfValue)
	}
	n := bytes.IndexByte(s.b[s.i:], '"')
	if n < 0 {
		s.i = len(s.b)
		return nil, s.unexpected("the end of a string", "", endOfString)
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
			return nil, false, s.unexpected("the end of a string", "", endOfString)
		}
		switch s.b[s.i] {
		case '"':
			inner = s.b[start:s.i:s.i]
			s.i++
			if !ascii && !utf8.Valid(inner) {
				return nil, false, s.wrong(s.i, "invalid unicode code point", fmt.Sprintf("the string at byte %d is not UTF-8", start))
			}
			return inner, escaped, nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, s.unexpected("no control character in a string", `control character (\u0000-\u001F) found while parsing a string`, endOfString)
		}
	}
}

// escape moves past a valid escape. Two escapes for the halves of a surrogate pair count as one.
func (s *scanner) escape() error {
	at := s.i
	wrong := func(length int, peer string) error {
		if at+length > len(s.b) {
			length, peer = len(s.b)-at, endOfString
		}
		return s.wrong(at+length, peer, fmt.Sprintf("found %q at byte %d, expected an escape", s.b[at], at))
	}
	rest := s.b[at+1:]
	if len(rest) > 0 && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0 {
		s.i += 2
		return nil
	}
	if len(rest) == 0 || rest[0] != 'u' {
		return wrong(2, "invalid escape")
	}
	if len(rest) < 5 || !isHex4(rest[1:]) {
		return wrong(6, "invalid escape")
	}
	s.i += 6
	const lone = "lone leading surrogate in hex escape"
	switch r := hex4(rest[1:]); {
	case !utf16.IsSurrogate(r):
		return nil
	case r >= 0xDC00:
		return wrong(6, lone)
	}
	rest = rest[5:]
	for i, c := range []byte(`\u`) {
		if len(rest) <= i || rest[i] != c {
			return wrong(7+i, "unexpected end of hex escape")
		}
	}
	if len(rest) < 6 || !isHex4(rest[2:]) {
		return wrong(12, "invalid escape")
	}
	if low := hex4(rest[2:]); low < 0xDC00 || low > 0xDFFF {
		return wrong(12, lone)
	}
	s.i += 6
	return nil
}

func isHex4(b []byte) bool {
	for _, c := range b[:4] {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
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
			return ID{}, wrongID(fmt.Sprintf("found %s, expected %s", clip(t), idTypes))
		}
		return IntID(n), nil
	}
	again := *s
	if err := again.skip(0); err != nil { // no JSON at all
		return ID{}, err
	}
	return ID{}, wrongID(s.mismatch(idTypes).Error())
}

const idTypes = "a string or a 64-bit integer"

func wrongID(detail string) error {
	return &detailed{"data did not match any variant of untagged enum RequestId", detail}
}

// mismatch moves past the next value and returns an error: the value is not of the expected kind.
func (s *scanner) mismatch(expected string) error {
	v, err := s.raw()
	if err != nil {
		return err
	}
	switch v[0] {
	case '{':
		return wrongType("map", expected)
	case '[':
		return wrongType("sequence", expected)
	case '"':
		return wrongType("string "+clip(v), expected)
	case 't', 'f':
		return wrongType("boolean `"+string(v)+"`", expected)
	case 'n':
		return wrongType("null", expected)
	}
	return wrongNumber(v, expected)
}

func wrongType(found, expected string) error {
	return fmt.Errorf("invalid type: %s, expected %s", found, expected)
}

// wrongNumber is wrongType for a number, which exec-server does not repeat.
func wrongNumber(number []byte, expected string) error {
	return &detailed{wrongType("number", expected).Error(), "found " + clip(number)}
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

// FitString returns the longest beginning of s that has at most most bytes as a JSON string in which <, > and & are escaped, and the
// number of these bytes. FitString cuts s between two characters. most is at least 2, for the quotes.
func FitString(s string, most int) (fits string, size int) {
	size = len(`""`)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		cost := n
		switch {
		case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
			cost = len(`\n`)
		case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError && n == 1:
			cost = len(`\u0000`)
		}
		if size+cost > most {
			return s[:i], size
		}
		size += cost
		i += n
	}
	return s, size
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

// A notBase64 says what is wrong with base64, in exec-server's words.
type notBase64 string

func (e notBase64) Error() string { return string(e) }

// base64Error finds the mistake in src.
func base64Error(src []byte) error {
	symbols := bytes.TrimRight(src, "=")
	for i, c := range symbols {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return notBase64(fmt.Sprintf("Invalid symbol %d, offset %d.", c, i))
		}
	}
	if len(src)%4 == 1 && len(symbols) == len(src) {
		return notBase64(fmt.Sprintf("Invalid input length: %d", len(src)))
	}
	if len(src)%4 != 0 || len(src)-len(symbols) > 2 {
		return notBase64("Invalid padding")
	}
	last := len(symbols) - 1
	return notBase64(fmt.Sprintf("Invalid last symbol %d, offset %d.", symbols[last], last))
}
