package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Any type of this package, to and from JSON, by tables computed once per type.
// `json:"name"` names a member, omitempty and omitzero leave it out when it is
// zero or has no elements; `wire:"required"` says that it must be there and not be
// null. A nil slice or map that is not left out is [] or {}, never null.

// table is what there is to know of a struct type.
type table struct {
	members  []member
	byName   map[string]int
	required uint64 // bit i: members[i] is required; no type has more than 64
}

type member struct {
	name  string
	index []int
	omit  bool // left out when empty
}

var tables sync.Map // reflect.Type → *table

func tableOf(t reflect.Type) *table {
	if known, ok := tables.Load(t); ok {
		return known.(*table)
	}
	known, _ := tables.LoadOrStore(t, newTable(t))
	return known.(*table)
}

// newTable puts what is always sent before what is not, whatever struct it is
// embedded from: the members that a peer knows come first.
func newTable(t reflect.Type) *table {
	tab := &table{byName: make(map[string]int)}
	required := make(map[string]bool)
	var sometimes []member
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		required[name] = f.Tag.Get("wire") == "required"
		if options == "" {
			tab.members = append(tab.members, member{name, f.Index, false})
		} else {
			sometimes = append(sometimes, member{name, f.Index, true})
		}
	}
	tab.members = append(tab.members, sometimes...)
	for i, m := range tab.members {
		tab.byName[m.name] = i
		if required[m.name] {
			tab.required |= 1 << i
		}
	}
	return tab
}

var (
	bytesType    = reflect.TypeFor[[]byte]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	streamType   = reflect.TypeFor[Stream]()
	noParamsType = reflect.TypeFor[NoParams]()
)

// validator is a type with rules that its Go type does not say. They are checked
// as soon as a value is decoded, never for what is absent.
type validator interface{ Validate() error }

// unmarshal decodes the one value in payload into what v points to.
func unmarshal(payload []byte, v any) error {
	target := reflect.ValueOf(v).Elem()
	if payload == nil {
		payload = []byte("null")
	}
	required := target.Kind() == reflect.Struct && tableOf(target.Type()).required != 0
	s := scanner{b: payload}
	if err := s.member(target, required); err != nil {
		return err
	}
	return s.end()
}

// member decodes a value that may be null unless it is required. Null leaves v.
func (s *scanner) member(v reflect.Value, required bool) error {
	if !required && s.literal("null") {
		return nil
	}
	return s.value(v)
}

// value decodes a value that may not be null.
func (s *scanner) value(v reflect.Value) error {
	switch v.Type() {
	case rawType:
		raw, err := s.raw()
		v.SetBytes(slices.Clone(raw))
		return err
	case bytesType:
		t, err := s.expectText()
		if err != nil {
			return err
		}
		b, err := decodeBase64(v.Bytes(), t)
		v.SetBytes(b)
		return err
	case streamType:
		t, err := s.expectText()
		if err != nil {
			return err
		}
		return v.Addr().Interface().(*Stream).UnmarshalText(t)
	case noParamsType:
		if ahead := *s; ahead.accept('{') && ahead.accept('}') {
			*s = ahead
			return nil
		}
		return s.mismatch("unit")
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return s.value(v.Elem())
	case reflect.String:
		t, err := s.expectText()
		if err != nil {
			return err
		}
		v.SetString(string(t))
		return validate(v)
	case reflect.Bool:
		yes := s.literal("true")
		if !yes && !s.literal("false") {
			return s.mismatch("a boolean")
		}
		v.SetBool(yes)
		return nil
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint64:
		return s.integer(v)
	case reflect.Float64:
		return s.float(v)
	case reflect.Slice:
		return s.slice(v)
	case reflect.Map:
		return s.mapping(v)
	case reflect.Struct:
		return s.structure(v)
	}
	return fmt.Errorf("protocol: %s is not a type of the wire", v.Type())
}

func (s *scanner) expectText() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.mismatch("a string")
	}
	return s.text()
}

func (s *scanner) integer(v reflect.Value) error {
	expected := "i" + strconv.Itoa(v.Type().Bits())
	if v.CanUint() {
		expected = "u" + strconv.Itoa(v.Type().Bits())
	}
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return s.mismatch(expected)
	}
	t, err := s.number()
	if err != nil {
		return err
	}
	if v.CanUint() {
		var n uint64
		n, err = strconv.ParseUint(digits(t), 10, v.Type().Bits())
		v.SetUint(n)
	} else {
		var n int64
		n, err = strconv.ParseInt(digits(t), 10, v.Type().Bits())
		v.SetInt(n)
	}
	if err != nil {
		return fmt.Errorf("invalid number %s, expected %s", clip(t), expected)
	}
	return nil
}

func (s *scanner) float(v reflect.Value) error {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return s.mismatch("f64")
	}
	t, err := s.number()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(t), 64)
	if err != nil {
		return fmt.Errorf("invalid number %s, expected f64", clip(t))
	}
	v.SetFloat(f)
	return nil
}

func (s *scanner) slice(v reflect.Value) error {
	if s.peek() != '[' {
		return s.mismatch("a sequence")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return s.array(func(i int) error {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		if err := s.value(v.Index(i)); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
		return nil
	})
}

func (s *scanner) mapping(v reflect.Value) error {
	if s.peek() != '{' {
		return s.mismatch("a map")
	}
	v.Set(reflect.MakeMap(v.Type()))
	return s.object(func(key []byte) error {
		name := string(key)
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := s.value(elem); err != nil {
			return within(clip(name), err)
		}
		v.SetMapIndex(reflect.ValueOf(name), elem)
		return nil
	})
}

func (s *scanner) structure(v reflect.Value) error {
	if s.peek() != '{' {
		return s.mismatch("struct " + v.Type().Name())
	}
	tab := tableOf(v.Type())
	var seen uint64
	err := s.object(func(key []byte) error {
		i, ok := tab.byName[string(key)]
		if !ok {
			return s.skip(0)
		}
		seen |= 1 << i
		m := &tab.members[i]
		if err := s.member(v.FieldByIndex(m.index), tab.required>>i&1 != 0); err != nil {
			return within(m.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if missing := tab.required &^ seen; missing != 0 {
		for i, m := range tab.members {
			if missing>>i&1 != 0 {
				return fmt.Errorf("missing field `%s`", m.name)
			}
		}
	}
	return validate(v)
}

func validate(v reflect.Value) error {
	if rules, ok := v.Addr().Interface().(validator); ok {
		return rules.Validate()
	}
	return nil
}

// fieldError says in which member an error was found.
type fieldError struct {
	path string // envPolicy.exclude[3]
	err  error
}

func (e *fieldError) Error() string { return e.err.Error() + ", in `" + e.path + "`" }

func within(name string, err error) error {
	inner, ok := errors.AsType[*fieldError](err)
	switch {
	case !ok:
		return &fieldError{name, err}
	case strings.HasPrefix(inner.path, "["):
		inner.path = name + inner.path
	default:
		inner.path = name + "." + inner.path
	}
	return inner
}

// appendValue appends v as JSON. Maps go in the order of their keys.
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
			return dst, fmt.Errorf("protocol: %v is no number of JSON", f)
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

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// separate appends a comma unless dst ends where an array or object has begun.
func separate(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '[' || last == '{' {
		return dst
	}
	return append(dst, ',')
}
