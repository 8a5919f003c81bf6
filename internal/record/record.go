// Package record writes the state of an actor as bytes, and reads the bytes back, perhaps in another process and with another version of
// the code. A server writes with each turn of an actor the fields that the turn has changed. After a kill, the next server fills the same
// struct with the newest bytes of each field.
//
// # Where to look
//
//   - encode.go: Encode; record.go: Decode
//   - types.go: which types can be written; what may be registered
//   - changes.go: Writer and Reader: the changed fields of each owner
//   - clock.go: times
//
// # What is written
//
// All fields of a struct are written, the unexported ones too. Two tags of a field change this:
//
//	record:"name"   the field is written under this name, and not under its own
//	lost:"reason"   the field is neither written nor filled; the reason is for readers of the code
//
// Another version may add and remove fields: Decode skips unknown names, and sets fields without bytes to zero. A field that gets another type gets
// another name, too.
//
// Pointers keep their identity within one Encode: two pointers to the same variable come back as two pointers to one new variable. Only
// pointers to a whole variable count, neither a pointer to a field of another struct nor a pointer to the variable of Encode. Slices and maps
// that share memory come back apart.
//
// # Format
//
// Numbers are unsigned varints of encoding/binary. The length of a value stands before the value, and the zero value of each type has no bytes.
//
//	bool, int, uint, float   a number: 1; zigzag; the value; the bits, their bytes reversed
//	string                   the bytes
//	slice, array             how many elements, then each with its length; of bytes: the bytes. Nil has no bytes
//	map                      how many entries, then of each key and value with their lengths, sorted by the bytes of the keys. Nil has no bytes
//	pointer                  0 and the value, or, if the value came before, its number from 1. Nil has no bytes
//	interface                the length of the registered name, the name, the value; of other errors 0 and the text. Nil has no bytes
//	struct                   of each field that is not zero: the name and the value, each with its length
//	time.Time                see clock.go
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"unsafe"
)

const (
	// maxDepth bounds values within each other.
	maxDepth = 1000
	// Decode takes at most freeBytes of memory, and grownBytes for each byte of its input: a byte may stand for a large zero value.
	freeBytes  = 1 << 20
	grownBytes = 1 << 10
)

// Decode sets the variable to which v points to the value in b. Lost fields keep their values; behind a pointer, in an array, slice or map
// lost fields are zero. After an error the variable has any value.
func Decode(b []byte, v any) error {
	x := reflect.ValueOf(v).Elem()
	return decode(b, x, titleOf(x.Type()))
}

func decode(b []byte, x reflect.Value, name string) (err error) {
	if err := Check(x.Type()); err != nil {
		return err
	}
	d := decoder{path: []string{name}, left: freeBytes + grownBytes*len(b)}
	defer d.recover(&err)
	d.value(b, x)
	return nil
}

// decoder is the state of a Decode. Its methods panic with damage.
type decoder struct {
	path    []string // of the field being read
	depth   int
	left    int             // how many bytes of memory may be taken
	objects []reflect.Value // the pointers so far
}

// damage says what is wrong with the input.
type damage struct{ error }

var errDamaged = errors.New("the bytes are damaged, or of another type")

func (d *decoder) refuse(err error) { panic(damage{err}) }

// recover makes the error of a damage.
func (d *decoder) recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case damage:
		*err = fmt.Errorf("record: %s: %w", strings.Join(d.path, "."), r.error)
	default:
		panic(r)
	}
}

// want refuses the input unless ok.
func (d *decoder) want(ok bool) {
	if !ok {
		d.refuse(errDamaged)
	}
}

// take counts memory for n values of a type.
func (d *decoder) take(n int, t reflect.Type) {
	if size := max(int(t.Size()), 1); n <= d.left/size {
		d.left -= n * size
	} else {
		d.refuse(fmt.Errorf("%d of %v take too much memory for the length of the input", n, t))
	}
}

// number, count and piece cut a number, a number of values with a byte at least, and a value with its length off the input.

func (d *decoder) number(b *[]byte) uint64 {
	n, k := binary.Uvarint(*b)
	d.want(k > 0)
	*b = (*b)[k:]
	return n
}

func (d *decoder) count(b *[]byte) int {
	n := d.number(b)
	d.want(n <= uint64(len(*b)))
	return int(n)
}

func (d *decoder) piece(b *[]byte) []byte {
	n := d.count(b)
	value := (*b)[:n:n]
	*b = (*b)[n:]
	return value
}

// value sets v to a value, and to zero without a byte. v may be set.
func (d *decoder) value(b []byte, v reflect.Value) {
	if d.depth++; d.depth > maxDepth {
		d.refuse(fmt.Errorf("more than %d values within each other", maxDepth))
	}
	switch kind := v.Kind(); {
	case kind == reflect.Struct:
		b = d.fields(b, v)
	case len(b) == 0:
		v.SetZero()
	case kind == reflect.String:
		v.SetString(string(b))
		b = nil
	case kind == reflect.Slice, kind == reflect.Array:
		b = d.list(b, v)
	case kind == reflect.Map:
		b = d.table(b, v)
	case kind == reflect.Pointer:
		b = d.pointer(b, v)
	case kind == reflect.Interface:
		d.dynamic(b, v)
		b = nil
	default:
		d.want(setNumber(v, d.number(&b)))
	}
	d.want(len(b) == 0)
	d.depth--
}

// setNumber reports whether n fits v.
func setNumber(v reflect.Value, n uint64) bool {
	switch {
	case v.CanInt():
		v.SetInt(int64(n>>1) ^ -int64(n&1))
		return v.Int() == int64(n>>1)^-int64(n&1)
	case v.CanUint():
		v.SetUint(n)
		return v.Uint() == n
	case v.CanFloat():
		v.SetFloat(math.Float64frombits(bits.ReverseBytes64(n)))
		return true
	}
	v.SetBool(n == 1)
	return n <= 1
}

func (d *decoder) list(b []byte, v reflect.Value) []byte {
	n := d.count(&b)
	if v.Kind() == reflect.Slice {
		d.take(n, v.Type().Elem())
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	}
	d.want(n == v.Len())
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return b[copy(v.Bytes(), b):]
	}
	for i := range n {
		d.value(d.piece(&b), v.Index(i))
	}
	return b
}

func (d *decoder) table(b []byte, v reflect.Value) []byte {
	n, t := d.count(&b), v.Type()
	d.take(n+1, t.Key()) // and one on its way
	d.take(n+1, t.Elem())
	v.Set(reflect.MakeMapWithSize(t, n))
	key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	for range n {
		d.value(d.piece(&b), key)
		d.value(d.piece(&b), value)
		v.SetMapIndex(key, value)
	}
	return b
}

func (d *decoder) pointer(b []byte, v reflect.Value) []byte {
	if n := d.number(&b); n > 0 {
		d.want(n <= uint64(len(d.objects)) && d.objects[n-1].Type().AssignableTo(v.Type()))
		v.Set(d.objects[n-1])
		return b
	}
	d.take(1, v.Type().Elem())
	to := reflect.New(v.Type().Elem())
	v.Set(to)
	d.objects = append(d.objects, to)
	d.value(b, to.Elem())
	return nil
}

func (d *decoder) dynamic(b []byte, v reflect.Value) {
	name := d.piece(&b)
	known, ok := byName.Load(string(name))
	if !ok {
		d.refuse(fmt.Errorf("no type is registered as %q", name))
	}
	t := known.(reflect.Type)
	if err := Check(t); err != nil {
		d.refuse(err)
	}
	d.want(t.Implements(v.Type()))
	d.take(1, t)
	to := reflect.New(t).Elem()
	d.value(b, to)
	v.Set(to)
}

func (d *decoder) fields(b []byte, v reflect.Value) []byte {
	s := layoutOf(v.Type())
	if s.append != nil {
		if v.SetZero(); len(b) > 0 {
			if err := s.fill(b, v.Addr()); err != nil {
				d.refuse(err)
			}
		}
		return nil
	}
	values := make([][]byte, len(s.fields))
	for next := 0; len(b) > 0; {
		name, value := d.piece(&b), d.piece(&b)
		if i := s.find(name, next); i >= 0 {
			values[i] = value
			next = i + 1
		}
	}
	for i := range s.fields {
		f := &s.fields[i]
		x := v.Field(f.index)
		if values[i] == nil && isZero(unsafe.Pointer(x.UnsafeAddr()), f.layout.size) { // most fields
			continue
		}
		d.path = append(d.path, f.name)
		d.value(values[i], settable(x))
		d.path = d.path[:len(d.path)-1]
	}
	return nil
}
