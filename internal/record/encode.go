package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Encode appends the value of v, or of the variable to which v points, to b. Encode panics if Check refuses the type, or if an interface has
// a value of a type that is not registered.
func Encode(b []byte, v any) []byte {
	x := reflect.ValueOf(v)
	if x.Kind() != reflect.Pointer || x.IsNil() {
		x = variable(x)
	}
	e := begin(x.Type().Elem())
	e.buf = b
	e.value(layoutOf(x.Type().Elem()), x.UnsafePointer())
	return e.end()
}

// variable returns a pointer to a copy of v.
func variable(v reflect.Value) reflect.Value {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}

// encoder is the state of an Encode. An actor encodes its record in each turn: reflection tells where the fields are, once for each type, and
// the values are read from memory. Only maps and interfaces are read by reflection.
type encoder struct {
	buf   []byte
	spare []byte   // memory of the encoder, for Write
	path  []string // of the field being written, for a panic
	depth int
	seen  map[object]int // the pointers so far, numbered from 1
}

// object is a variable behind a pointer. A struct and its first field have the same address.
type object struct {
	at unsafe.Pointer
	t  *layout
}

var encoders = sync.Pool{New: func() any { return &encoder{seen: make(map[object]int)} }}

func begin(t reflect.Type) *encoder {
	if err := Check(t); err != nil {
		panic(err)
	}
	e := encoders.Get().(*encoder)
	e.path = append(e.path, titleOf(t))
	return e
}

// end gives the encoder back, and returns its bytes. An encoder that has panicked is not given back.
func (e *encoder) end() []byte {
	b := e.buf
	e.buf, e.path = nil, e.path[:0]
	if len(e.seen) > 0 {
		clear(e.seen)
	}
	encoders.Put(e)
	return b
}

func (e *encoder) fail(format string, args ...any) {
	panic(fmt.Errorf("record: %s: %s", strings.Join(e.path, "."), fmt.Sprintf(format, args...)))
}

func (e *encoder) number(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) string(s string) { e.buf = appendSized(e.buf, s) }

// appendSized appends s with its length.
func appendSized[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// open leaves room for a length, and returns where the counted bytes begin.
func (e *encoder) open() (at int) {
	e.buf = append(e.buf, 0)
	return len(e.buf)
}

// close stores the length of everything appended since open, and returns the length.
func (e *encoder) close(at int) int {
	n := len(e.buf) - at
	if n < 0x80 {
		e.buf[at-1] = byte(n)
		return n
	}
	var length [binary.MaxVarintLen64]byte
	e.buf = slices.Replace(e.buf, at-1, at, length[:binary.PutUvarint(length[:], uint64(n))]...)
	return n
}

// sized writes the value at p with its length.
func (e *encoder) sized(t *layout, p unsafe.Pointer) {
	at := e.open()
	e.value(t, p)
	e.close(at)
}

// value writes the value at p, and nothing for a zero value.
func (e *encoder) value(t *layout, p unsafe.Pointer) {
	if e.depth++; e.depth > maxDepth {
		e.fail("more than %d values within each other", maxDepth)
	}
	switch t.kind {
	case reflect.Struct:
		if t.append != nil {
			e.buf = t.append(e.buf, p)
		}
		for i := range t.fields {
			e.field(&t.fields[i], p)
		}
	case reflect.String:
		e.buf = append(e.buf, *(*string)(p)...)
	case reflect.Slice:
		if s := (*slice)(p); s.data != nil {
			e.list(t, s.data, s.len)
		}
	case reflect.Array:
		e.array(t, p)
	case reflect.Map:
		if v := reflect.NewAt(t.of, p).Elem(); !v.IsNil() {
			e.table(v)
		}
	case reflect.Pointer:
		if to := *(*unsafe.Pointer)(p); to != nil {
			e.pointer(t, to)
		}
	case reflect.Interface:
		if v := reflect.NewAt(t.of, p).Elem(); !v.IsNil() {
			e.dynamic(v)
		}
	default:
		if n := toNumber(t, p); n != 0 {
			e.number(n)
		}
	}
	e.depth--
}

// slice is the memory of a slice.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// toNumber returns the number that stands for the bool or the number at p; 0: it is zero.
func toNumber(t *layout, p unsafe.Pointer) uint64 {
	var n uint64
	switch t.size {
	case 1:
		n = uint64(*(*uint8)(p))
	case 2:
		n = uint64(*(*uint16)(p))
	case 4:
		n = uint64(*(*uint32)(p))
	default:
		n = *(*uint64)(p)
	}
	switch {
	case t.kind == reflect.Float32:
		n = math.Float64bits(float64(math.Float32frombits(uint32(n))))
		fallthrough
	case t.kind == reflect.Float64:
		return bits.ReverseBytes64(n)
	case t.kind >= reflect.Int && t.kind <= reflect.Int64:
		unused := 64 - 8*t.size
		i := int64(n<<unused) >> unused
		return uint64(i<<1 ^ i>>63)
	}
	return n
}

// list writes n elements of the slice or array type t.
func (e *encoder) list(t *layout, p unsafe.Pointer, n int) {
	e.number(uint64(n))
	elem := layoutOf(t.of.Elem())
	if elem.kind == reflect.Uint8 {
		e.buf = append(e.buf, unsafe.Slice((*byte)(p), n)...)
		return
	}
	for i := range n {
		e.sized(elem, unsafe.Add(p, uintptr(i)*elem.size))
	}
}

// array writes an array, unless all elements are zero.
func (e *encoder) array(t *layout, p unsafe.Pointer) {
	if !reflect.NewAt(t.of, p).Elem().IsZero() {
		e.list(t, p, t.of.Len())
	}
}

// pointer writes the variable at to, or its number.
func (e *encoder) pointer(t *layout, to unsafe.Pointer) {
	elem := layoutOf(t.of.Elem())
	o := object{to, elem}
	n := e.seen[o]
	if e.number(uint64(n)); n == 0 {
		e.seen[o] = len(e.seen) + 1
		e.value(elem, to)
	}
}

func (e *encoder) table(v reflect.Value) {
	type entry struct {
		key   []byte // with its length
		value unsafe.Pointer
	}
	start, all := len(e.buf), make([]entry, 0, v.Len())
	keyType, valueType := layoutOf(v.Type().Key()), layoutOf(v.Type().Elem())
	key, values := reflect.New(v.Type().Key()), reflect.MakeSlice(reflect.SliceOf(v.Type().Elem()), v.Len(), v.Len())
	for i := v.MapRange(); i.Next(); {
		x := values.Index(len(all))
		key.Elem().SetIterKey(i)
		x.SetIterValue(i)
		at := len(e.buf)
		e.sized(keyType, key.UnsafePointer())
		all = append(all, entry{bytes.Clone(e.buf[at:]), x.Addr().UnsafePointer()})
	}
	e.buf = e.buf[:start]
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	e.number(uint64(len(all)))
	for _, x := range all {
		e.buf = append(e.buf, x.key...)
		e.sized(valueType, x.value)
	}
}

func (e *encoder) dynamic(v reflect.Value) {
	x := v.Elem()
	name, known := byType.Load(x.Type())
	if err, ok := x.Interface().(error); !known && ok && typeOfText.Implements(v.Type()) {
		name, known, x = "", true, reflect.ValueOf(text(err.Error()))
	}
	if !known {
		e.fail("a value of %v, which is not registered, in a %v", x.Type(), v.Type())
	}
	if err := Check(x.Type()); err != nil {
		e.fail("%v", err)
	}
	e.string(name.(string))
	e.value(layoutOf(x.Type()), variable(x).UnsafePointer())
}

// field writes a field of the struct at p, unless there is nothing to write.
func (e *encoder) field(f *field, p unsafe.Pointer) (some bool) {
	if p = unsafe.Add(p, f.offset); isZero(p, f.layout.size) { // most fields
		return false
	}
	before := len(e.buf)
	e.path = append(e.path, f.name)
	e.buf = append(e.buf, f.head...)
	at := e.open()
	e.value(f.layout, p)
	if some = e.close(at) > 0; !some {
		e.buf = e.buf[:before]
	}
	e.path = e.path[:len(e.path)-1]
	return some
}

var zeros [256]byte

// isZero reports whether n bytes at p are zero. isZero looks at few bytes only, and says no for more.
func isZero(p unsafe.Pointer, n uintptr) bool {
	return n <= uintptr(len(zeros)) && bytes.Equal(unsafe.Slice((*byte)(p), n), zeros[:n])
}
