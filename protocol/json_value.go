package protocol

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// unmarshalJSON decodes the single value in payload into the target of v.
func unmarshalJSON(payload []byte, v any) error {
	if payload == nil {
		payload = []byte("null")
	}
	s := scanner{b: payload, purse: newPurse(payload)}
	if err := unmarshal(&s, v); err != nil {
		return err
	}
	return s.end()
}

// The methods below, with those in json_scan.go, make scanner a source.

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

// hasMember reports whether the next value is an object with a non-null member of this name. The
// scanner does not move.
func (s scanner) hasMember(name string) (found bool) {
	err := s.object(func(key []byte) error {
		found = found || string(key) == name && s.kind() != kindNull
		return s.skip(0)
	})
	return found && err == nil
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

// appendValue appends v as JSON. Maps are sorted by their keys.
func appendValue(dst []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return append(dst, "null"...), nil
	}
	switch v.Type() {
	case rawType:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		s := scanner{b: v.Bytes()}
		raw, err := s.raw()
		if err == nil {
			err = s.end()
		}
		if err != nil {
			return dst, fmt.Errorf("protocol: raw value: %w", err)
		}
		return append(dst, raw...), nil
	case bytesType:
		return appendBase64(dst, v.Bytes()), nil
	case limitType:
		if limit := v.Interface().(Limit); !limit.None {
			return strconv.AppendInt(dst, limit.Value, 10), nil
		}
		return append(dst, "null"...), nil
	case streamType:
		name, err := Stream(v.Uint()).MarshalText()
		return appendString(dst, string(name)), err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return appendValue(dst, v.Elem())
	case reflect.String:
		return appendString(dst, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint16, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float64:
		if f := v.Float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return dst, fmt.Errorf("protocol: %v is not a number of JSON", f)
		}
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64), nil
	case reflect.Slice:
		var err error
		dst = append(dst, '[')
		for i := range v.Len() {
			if dst, err = appendValue(separate(dst), v.Index(i)); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		var err error
		dst = append(dst, '{')
		for _, k := range keys {
			dst = append(appendString(separate(dst), k.String()), ':')
			if dst, err = appendValue(dst, v.MapIndex(k)); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case reflect.Struct:
		var err error
		dst = append(dst, '{')
		for _, m := range tableOf(v.Type()).members {
			f := v.FieldByIndex(m.index)
			if m.omit && empty(f) {
				continue
			}
			dst = append(appendString(separate(dst), m.name), ':')
			if dst, err = appendValue(dst, f); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, fmt.Errorf("protocol: %s is not a type of the wire", v.Type())
}

// separate appends a comma, unless dst ends with the start of an array or object.
func separate(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '[' || last == '{' {
		return dst
	}
	return append(dst, ',')
}
