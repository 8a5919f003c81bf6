package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file encodes and decodes any type of this package, with tables computed once per type, in
// any encoding. `json:"name"` names a member; omitempty and omitzero leave out a zero value or an
// empty list or map; `wire:"required"` demands a present, non-null member, and `wire:"notnull"` a member
// that is absent or not null. In a type with a field `wire:"closed"`, unknown members are refused. A nil
// slice or map not left out is encoded as empty, never as null.

// table describes a struct type.
type table struct {
	members  []member
	byName   map[string]int
	required uint64 // bit i: members[i] is required; no type has more than 64
	closed   bool   // unknown members are refused
}

type member struct {
	name   string
	quoted string // name as the key of an object in JSON
	index  []int
	omit   bool // left out when empty
	null   bool // null means absent
	rules  bool // the value has rules: see check
}

// of returns the member of a struct. Only the first way is inlined, and nearly always taken.
func (m *member) of(v reflect.Value) reflect.Value {
	if len(m.index) == 1 {
		return v.Field(m.index[0])
	}
	return v.FieldByIndex(m.index)
}

var tables sync.Map // reflect.Type → *table

func tableOf(t reflect.Type) *table {
	if known, ok := tables.Load(t); ok {
		return known.(*table)
	}
	known, _ := tables.LoadOrStore(t, newTable(t))
	return known.(*table)
}

// newTable puts the members always sent before the others, including members of embedded structs.
// The members of exec-server thus come first.
func newTable(t reflect.Type) *table {
	tab := &table{byName: make(map[string]int)}
	required := make(map[string]bool)
	var sometimes []member
	for _, f := range reflect.VisibleFields(t) {
		tab.closed = tab.closed || f.Tag.Get("wire") == "closed"
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		required[name] = f.Tag.Get("wire") == "required"
		null := f.Tag.Get("wire") == ""
		if options == "" {
			tab.members = append(tab.members, member{name, `"` + name + `":`, f.Index, false, null, hasRules(f.Type)})
		} else {
			sometimes = append(sometimes, member{name, `"` + name + `":`, f.Index, true, null, hasRules(f.Type)})
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
	limitType    = reflect.TypeFor[Limit]()
	pathsType    = reflect.TypeFor[FsPaths]()
)

// validator is a type with rules beyond its Go type. Validate is called right after decoding a
// value, never for an absent member.
type validator interface{ Validate() error }

// purse limits the memory taken for decoding a payload. In memory, a short string, an empty list or
// a map is far larger than in a message.
type purse struct {
	left    int // bytes; meaningless unless bounded
	bounded bool
}

const (
	// decodeFactor is how many bytes of memory each byte of a payload may become. Any payload may
	// take decodeFree bytes on top.
	decodeFactor = 4
	decodeFree   = 1 << 20
)

func newPurse(payload []byte) purse {
	return purse{left: decodeFactor*len(payload) + decodeFree, bounded: true}
}

var errTooMuch = fmt.Errorf("too many small values: in memory they would take more than %d times the bytes of the message, and %d bytes more: send fewer at once", decodeFactor, decodeFree)

// spend takes n bytes.
func (p *purse) spend(n int) error {
	if p.left -= n; p.bounded && p.left < 0 {
		return errTooMuch
	}
	return nil
}

type kind uint8

const (
	kindNull kind = iota + 1
	kindBool
	kindNumber
	kindText
	kindBytes // JSON has no bytes, only text
	kindArray
	kindObject
)

// decodeMember decodes a value into v. If not required, the value may be null; null leaves v
// unchanged.
func decodeMember(s *source, v reflect.Value, required bool) error {
	if v.Type() == limitType {
		limit := v.Addr().Interface().(*Limit)
		if *limit = (Limit{Given: true, None: s.kind() == kindNull}); !limit.None {
			return decodeInteger(s, v.FieldByName("Value"))
		}
	}
	if !required && s.kind() == kindNull {
		return s.skip(0)
	}
	return decodeValue(s, v)
}

// decodeValue decodes a non-null value.
func decodeValue(s *source, v reflect.Value) error {
	switch v.Type() {
	case rawType:
		raw, err := s.rawJSON()
		v.SetBytes(raw)
		return err
	case bytesType:
		b, err := s.bytes(v.Bytes())
		v.SetBytes(b)
		return err
	case streamType:
		t, err := decodeText(s)
		if err != nil {
			return err
		}
		return v.Addr().Interface().(*Stream).UnmarshalText(t)
	case noParamsType:
		if s.unit() {
			return nil
		}
		return s.mismatch("unit")
	case pathsType:
		if s.kind() == kindText {
			t, err := s.text()
			v.Set(reflect.ValueOf(FsPaths{string(t)}))
			return err
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if err := s.spend(int(v.Type().Elem().Size())); err != nil {
			return err
		}
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(s, v.Elem())
	case reflect.String:
		t, err := decodeText(s)
		if err == nil {
			err = s.spend(len(t))
		}
		if err != nil {
			return err
		}
		v.SetString(string(t))
		return validate(v)
	case reflect.Bool:
		if s.kind() != kindBool {
			return s.mismatch("a boolean")
		}
		yes, err := s.boolean()
		v.SetBool(yes)
		return err
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint64:
		return decodeInteger(s, v)
	case reflect.Float64:
		return decodeFloat(s, v)
	case reflect.Slice:
		return decodeSlice(s, v)
	case reflect.Map:
		return decodeMap(s, v)
	case reflect.Struct:
		return decodeStruct(s, v)
	}
	return fmt.Errorf("protocol: %s is not a type of the wire", v.Type())
}

func decodeText(s *source) ([]byte, error) {
	if s.kind() != kindText {
		return nil, s.mismatch("a string")
	}
	return s.text()
}

func decodeInteger(s *source, v reflect.Value) error {
	expected := "i" + strconv.Itoa(v.Type().Bits())
	if v.CanUint() {
		expected = "u" + strconv.Itoa(v.Type().Bits())
	}
	if s.kind() != kindNumber {
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
		return &detailed{"invalid number", fmt.Sprintf("found %s, expected %s", clip(t), expected)}
	}
	return nil
}

func decodeFloat(s *source, v reflect.Value) error {
	if s.kind() != kindNumber {
		return s.mismatch("f64")
	}
	t, err := s.number()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(t), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return &detailed{"invalid number", fmt.Sprintf("found %s, expected f64", clip(t))}
	}
	v.SetFloat(f)
	return nil
}

func decodeSlice(s *source, v reflect.Value) error {
	if s.kind() != kindArray {
		return s.mismatch("a sequence")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	size := int(v.Type().Elem().Size())
	return s.array(func(i int) error {
		if err := s.spend(size); err != nil {
			return err
		}
		if i == v.Cap() {
			v.Grow(max(i, 4)) // doubled: the garbage is never more than the live elements
		}
		v.SetLen(i + 1)
		if err := decodeValue(s, v.Index(i)); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
		return nil
	})
}

func decodeMap(s *source, v reflect.Value) error {
	if s.kind() != kindObject {
		return s.mismatch("a map")
	}
	v.Set(reflect.MakeMap(v.Type()))
	size := int(v.Type().Key().Size()+v.Type().Elem().Size()) * 3 / 2 // 3/2, because a map is never full
	elem := reflect.New(v.Type().Elem()).Elem()                       // for each value in turn: the map copies the value
	return s.object(func(key []byte) error {
		if err := s.spend(size + len(key)); err != nil {
			return err
		}
		name := string(key)
		elem.SetZero()
		if err := decodeMember(s, elem, elem.Kind() != reflect.Pointer); err != nil {
			return within(clip(name), err)
		}
		v.SetMapIndex(reflect.ValueOf(name), elem)
		return nil
	})
}

func decodeStruct(s *source, v reflect.Value) error {
	if s.kind() != kindObject {
		return s.mismatch("struct " + peerName(v.Type()))
	}
	tab := tableOf(v.Type())
	var seen uint64
	err := s.object(func(key []byte) error {
		i, ok := tab.byName[string(key)]
		if !ok && tab.closed {
			return unknownMember(string(key), "here")
		}
		if !ok {
			return s.skip(0)
		}
		seen |= 1 << i
		m := &tab.members[i]
		if err := decodeMember(s, m.of(v), !m.null); err != nil {
			return within(m.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if missing := tab.required &^ seen; missing != 0 {
		return fmt.Errorf("missing field `%s`", tab.members[bits.TrailingZeros64(missing)].name)
	}
	return validate(v)
}

// peerNames are the names of types in the error texts of exec-server, where ours differ.
var peerNames = map[string]string{
	"ProcessStartParams":     "ExecParams",
	"ProcessReadParams":      "ReadParams",
	"ProcessWriteParams":     "WriteParams",
	"ProcessSignalParams":    "SignalParams",
	"ProcessTerminateParams": "TerminateParams",
	"EnvPolicy":              "ExecEnvPolicy",
	"HTTPRequestParams":      "HttpRequestParams",
	"HTTPHeader":             "HttpHeader",
}

func peerName(t reflect.Type) string {
	if name, ok := peerNames[t.Name()]; ok {
		return name
	}
	return t.Name()
}

func validate(v reflect.Value) error {
	if rules, ok := v.Addr().Interface().(validator); ok {
		return rules.Validate()
	}
	return nil
}

// Check returns the error of Unmarshal for params that no client has sent; nil: Unmarshal would accept the params. Strings other
// than UTF-8 pass: a program of this machine may have any bytes in its arguments.
func Check(params any) *Error {
	v := reflect.ValueOf(params)
	if !v.IsValid() || !hasRules(v.Type()) {
		return nil
	}
	if err := check(v); err != nil {
		return wrongParams(err)
	}
	return nil
}

// check applies the rules of v and of its parts, in the order of decodeValue. A member is absent if encoding would leave it out.
func check(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return check(v.Elem())
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return &detailed{"invalid number", fmt.Sprintf("found %v, expected f64", f)}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := check(v.Index(i)); err != nil {
				return within("["+strconv.Itoa(i)+"]", err)
			}
		}
	case reflect.Struct:
		for _, m := range tableOf(v.Type()).members {
			member := m.of(v)
			if !m.rules || m.omit && empty(member) {
				continue
			}
			if err := check(member); err != nil {
				return within(m.name, err)
			}
		}
	}
	if rules, ok := v.Interface().(validator); ok {
		return rules.Validate()
	}
	return nil
}

var validatorType = reflect.TypeFor[validator]()

// hasRules reports whether check can refuse a value of type t. No map of the wire has values with rules. Types of other
// packages have none: such a type may contain itself.
func hasRules(t reflect.Type) bool {
	if p := t.PkgPath(); p != "" && p != validatorType.PkgPath() {
		return false
	}
	if t.Implements(validatorType) {
		return true
	}
	switch t.Kind() {
	case reflect.Float64:
		return true
	case reflect.Pointer, reflect.Slice:
		return hasRules(t.Elem())
	case reflect.Struct:
		return slices.ContainsFunc(tableOf(t).members, func(m member) bool { return m.rules })
	}
	return false
}

// fieldError says in which member an error was found.
type fieldError struct {
	path string // such as envPolicy.exclude[3]
	err  error
}

func (e *fieldError) Error() string { return e.err.Error() }

// A detailed error has exec-server's text, and a detail of ours for the advice.
type detailed struct{ text, detail string }

func (e *detailed) Error() string { return e.text }

// ParamsError is the cause of an *Error of Unmarshal.
type ParamsError struct {
	Member string // with its path, such as envPolicy.exclude[3]; empty: the params as a whole
	Base64 bool   // the member is text other than base64
}

func (e *ParamsError) Error() string { return "wrong params: " + e.Member }

// wrongParams returns the error of Unmarshal. Its message is exec-server's text, if exec-server has one.
func wrongParams(err error) *Error {
	e, cause := WrongParams("%v", err), new(ParamsError)
	field, inMember := errors.AsType[*fieldError](err)
	if inMember {
		cause.Member, err = field.path, field.err
	}
	var advice []string
	switch err := err.(type) {
	case *detailed:
		advice = append(advice, err.detail)
	case *URIError:
		advice = append(advice, err.Advice)
	case notBase64:
		cause.Base64 = true
		advice = append(advice, "expected base64 with padding")
	}
	if inMember {
		advice = append(advice, "in `"+cause.Member+"`")
	}
	if advice != nil {
		e.Advise("%s", strings.Join(advice, ", "))
	}
	return e.Because(cause)
}

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

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}
