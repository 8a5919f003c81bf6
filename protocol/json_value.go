package protocol

import (
	"encoding/json"
	"slices"
)

// The methods below, with those in json_scan.go, are the JSON of a source.

func (s *scanner) kind() kind {
	switch c := s.peek(); {
	case c == '{':
		return kindObject
	case c == '[':
		return kindArray
	case c == '"':
		return kindText
	case c == 't' || c == 'f':
		return kindBool
	case c == 'n':
		return kindNull
	case c == '-' || '0' <= c && c <= '9':
		return kindNumber
	}
	return 0
}

func (s *scanner) rawJSON() (json.RawMessage, error) {
	raw, err := s.raw()
	return slices.Clone(raw), err
}

func (s *scanner) bytes(dst []byte) ([]byte, error) {
	t, err := s.expectText()
	if err != nil {
		return nil, err
	}
	return decodeBase64(dst, t)
}

func (s *scanner) unit() bool {
	ahead := *s
	if !ahead.accept('{') || !ahead.accept('}') {
		return false
	}
	*s = ahead
	return true
}

func (s *scanner) boolean() (bool, error) {
	if s.literal("true") {
		return true, nil
	}
	if s.literal("false") {
		return false, nil
	}
	return false, s.noValue()
}

// expectText returns text, or the error mismatch if no string is next.
func (s *scanner) expectText() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.mismatch("a string")
	}
	return s.text()
}

func unmarshalJSON(payload []byte, v any) error { return unmarshal(payload, false, v) }
