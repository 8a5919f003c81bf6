package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

var (
	byName  sync.Map // of Register: string → reflect.Type
	byType  sync.Map // of Register: reflect.Type → string
	codes   sync.Map // of Code: reflect.Type → *layout
	layouts sync.Map // of the types so far: reflect.Type → *layout
	checked sync.Map // the results of Check: reflect.Type → error, or nil
)

// text is an error of a type that is not registered, after its way through bytes. Its name is empty.
type text string

func (t text) Error() string { return string(t) }

var typeOfText = reflect.TypeFor[text]()

func init() { byName.Store("", typeOfText) }

// Register allows interfaces to have values of the type of zero. A value is written with the name, which is unique and never changes.
// Register and Code are for the initialization of packages, before any value is written or read.
func Register(name string, zero any) {
	t := reflect.TypeOf(zero)
	if old, twice := byName.LoadOrStore(name, t); t == nil || name == "" || twice && old != t {
		panic(fmt.Sprintf("record: the name %q for %v is empty or taken, or the type is nil", name, t))
	}
	byType.Store(t, name)
	checked.Clear()
}

// RegisterAll is Register for the types of values, with the names that %T prints: of the package and the type.
func RegisterAll(values ...any) {
	for _, v := range values {
		Register(fmt.Sprintf("%T", v), v)
	}
}

// Code has structs of type T written by append and read by fill, and not field by field. append appends nothing for the zero value alone, and
// the same bytes for equal values. fill returns an error for bytes that append does not write.
func Code[T any](append func(b []byte, v *T) []byte, fill func(b []byte, v *T) error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("record: Code is for structs, and %v is none", t))
	}
	codes.Store(t, &layout{
		append: func(b []byte, p unsafe.Pointer) []byte { return append(b, (*T)(p)) },
		fill:   func(b []byte, v reflect.Value) error { return fill(b, v.Interface().(*T)) },
	})
	checked.Clear()
	layouts.Clear()
}

// layout says how values of a type are written.
type layout struct {
	of     reflect.Type
	kind   reflect.Kind
	size   uintptr
	fields []field // of a struct, without the lost ones

	// By Code, with a pointer to the struct; else nil.
	append func(b []byte, p unsafe.Pointer) []byte
	fill   func(b []byte, v reflect.Value) error
}

// field is a field of a struct that is written.
type field struct {
	index  int
	offset uintptr
	name   string
	head   []byte // the name with its length
	news   []byte // of a Journal: as head, for its news
	layout *layout

	journal   bool // the pointer to the field is a Journal
	versioned bool // the field is a Versioned
}

// layoutOf returns the one layout of a type.
func layoutOf(t reflect.Type) *layout {
	if s, ok := layouts.Load(t); ok {
		return s.(*layout)
	}
	s := &layout{of: t, kind: t.Kind(), size: t.Size()}
	if code, ok := codes.Load(t); ok {
		s.append, s.fill = code.(*layout).append, code.(*layout).fill
	} else if s.kind == reflect.Struct {
		for i := range t.NumField() {
			if f := t.Field(i); isKept(f) {
				s.fields = append(s.fields, fieldOf(f))
			}
		}
	}
	one, _ := layouts.LoadOrStore(t, s)
	return one.(*layout)
}

func fieldOf(f reflect.StructField) field {
	name := nameOf(f)
	return field{
		index: f.Index[0], offset: f.Offset, name: name, head: appendSized(nil, name), news: appendSized(nil, news+name), layout: layoutOf(f.Type),
		journal: reflect.PointerTo(f.Type).Implements(reflect.TypeFor[Journal]()), versioned: f.Type.Implements(reflect.TypeFor[Versioned]()),
	}
}

// at returns a pointer to the field of the struct at p.
func (f *field) at(p unsafe.Pointer) reflect.Value {
	return reflect.NewAt(f.layout.of, unsafe.Add(p, f.offset))
}

// find returns the index of a field; below 0: there is none. The search begins at next: mostly, fields come in their order.
func (s *layout) find(name []byte, next int) int {
	for i := range s.fields {
		if at := (next + i) % len(s.fields); s.fields[at].name == string(name) {
			return at
		}
	}
	return -1
}

// settable returns a field that may be set, although the field may not be exported.
func settable(f reflect.Value) reflect.Value {
	if f.CanSet() {
		return f
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// nameOf returns the name under which a field is written.
func nameOf(f reflect.StructField) string { return cmp.Or(f.Tag.Get("record"), f.Name) }

// isKept is false for lost fields and for blank ones.
func isKept(f reflect.StructField) bool {
	_, lost := f.Tag.Lookup("lost")
	return !lost && f.Name != "_"
}

// titleOf names a type at the beginning of a path.
func titleOf(t reflect.Type) string { return cmp.Or(t.Name(), t.String()) }

// Check returns an error with a line for each field within a type that cannot be written and is not declared lost, such as
// "processRecord.run.handle"; nil: the type can be written. An interface can be written if values of a registered type, or errors, may be in
// it. Check looks at all registered types that may be in it.
func Check(t reflect.Type) error {
	if known, ok := checked.Load(t); ok {
		err, _ := known.(error)
		return err
	}
	c := check{good: make(map[reflect.Type]bool), within: make(map[reflect.Type]bool), asked: make(map[reflect.Type]bool)}
	c.walk(t, titleOf(t), false)
	err := errors.Join(c.wrong...)
	checked.Store(t, err)
	return err
}

type check struct {
	wrong  []error
	good   map[reflect.Type]bool // without a fault
	within map[reflect.Type]bool // around the present one
	asked  map[reflect.Type]bool // registered ones
}

func (c *check) fault(path, format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Errorf("record: %s: %s", path, fmt.Sprintf(format, args...)))
}

// walk checks a type at a path. key: the type is that of a key in a map, or within one.
func (c *check) walk(t reflect.Type, path string, key bool) {
	if !key && (c.good[t] || c.within[t]) {
		return
	}
	before := len(c.wrong)
	c.within[t] = true
	switch kind := t.Kind(); {
	case t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic":
		c.fault(path, "%v is for the goroutines of one process", t)
	case key && (kind == reflect.Pointer || kind == reflect.Interface):
		c.fault(path, "a key with a value of kind %v has no order", kind)
	case kind <= reflect.Float64 && t != reflect.TypeFor[uintptr](), kind == reflect.String: // syscall.Errno is a number
	case kind == reflect.Slice, kind == reflect.Array:
		c.walk(t.Elem(), path+"[]", key)
	case kind == reflect.Map:
		c.walk(t.Key(), path+"[key]", true)
		c.walk(t.Elem(), path+"[]", false)
	case kind == reflect.Pointer:
		c.walk(t.Elem(), path, false)
	case kind == reflect.Interface:
		c.inside(t, path)
	case kind == reflect.Struct:
		c.fields(t, path, key)
	default:
		c.fault(path, "a value of kind %v cannot be written", kind)
	}
	delete(c.within, t)
	c.good[t] = c.good[t] || !key && len(c.wrong) == before
}

// inside checks the registered types that may be in an interface, each once.
func (c *check) inside(t reflect.Type, path string) {
	fits := make(map[string]reflect.Type)
	byName.Range(func(name, in any) bool {
		if in := in.(reflect.Type); in.Implements(t) && (in != typeOfText || t.NumMethod() > 0) {
			fits[name.(string)] = in
		}
		return true
	})
	if len(fits) == 0 {
		c.fault(path, "no registered type is a %v", t)
	}
	for _, name := range slices.Sorted(maps.Keys(fits)) {
		if in := fits[name]; !c.asked[in] {
			c.asked[in] = true
			c.walk(in, fmt.Sprintf("%s.(%s)", path, name), false)
		}
	}
}

func (c *check) fields(t reflect.Type, path string, key bool) {
	if layoutOf(t).append != nil {
		return
	}
	names := make(map[string]bool)
	for i := range t.NumField() {
		f := t.Field(i)
		at := path + "." + f.Name
		name := nameOf(f)
		switch why, lost := f.Tag.Lookup("lost"); {
		case lost && strings.TrimSpace(why) == "":
			c.fault(at, "the tag lost has no reason")
		case lost && key:
			c.fault(at, "keys that differ in a lost field would be the same")
		case isKept(f) && (names[name] || strings.HasPrefix(name, news)):
			c.fault(at, "the name %q is taken, or begins with %q", name, news)
		case isKept(f):
			names[name] = true
			c.walk(f.Type, at, key)
		}
	}
}
