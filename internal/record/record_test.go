package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type (
	word  string
	level int8
	big   struct{ X [1 << 16]int } // 512 KiB
	shape interface{ area() float64 }
	disc  struct{ radius float64 }
	box   struct{ W, h float64 }
	inner struct {
		a, b  int
		names []string
	}
	node struct {
		n    int
		next *node
	}
	rich struct {
		b       bool
		I       int
		i8      level
		i64     int64
		u       uint
		u8      uint8
		u64     uint64
		f       float64
		f32     float32
		s       word
		raw     []byte
		hash    [4]byte
		grid    [2][3]int16
		list    []inner
		texts   []word
		byName  map[word]inner
		byPlace map[[2]int]*inner
		in      inner
		inner
		p, q    *inner // perhaps the same
		pp      **int
		zero    *int
		chain   *node
		at, due time.Time
		times   []time.Time
		d       time.Duration
		any     any
		shape   shape
		shapes  []shape
		err     error
		_       int
		gone    func() `lost:"a test"`
		old     int    `record:"renamed"`
	}
)

func (d disc) area() float64 { return d.radius }
func (b *box) area() float64 { return b.h }

func init() {
	Register("disc", disc{})
	Register("box", (*box)(nil))
	Register("inner", inner{})
	Register("int", 0)
	Register("big", big{})
}

func drawInner(t *rapid.T, name string) inner {
	return inner{rapid.Int().Draw(t, name), rapid.IntRange(-1, 1).Draw(t, name), rapid.SliceOfN(rapid.String(), -1, 3).Draw(t, name)}
}

func drawTime(t *rapid.T, name string) time.Time {
	at := time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name))
	return rapid.SampledFrom([]time.Time{{}, at, at.UTC()}).Draw(t, name)
}

// drawShape returns a value for an interface: none, a value, a pointer, nil of a type.
func drawShape(t *rapid.T, name string) shape {
	return rapid.SampledFrom([]shape{nil, disc{}, disc{1.5}, &box{W: 1}, &box{h: 2}, (*box)(nil)}).Draw(t, name)
}

// or returns the value of draw, or now and then the zero value: nil.
func or[T any](t *rapid.T, name string, draw func() T) (v T) {
	if rapid.IntRange(0, 3).Draw(t, name) > 0 {
		v = draw()
	}
	return v
}

func drawRich(t *rapid.T) (r rich) {
	pointer := func() *inner { x := drawInner(t, "inner"); return &x }
	r.b, r.I, r.i8 = rapid.Bool().Draw(t, "b"), rapid.Int().Draw(t, "I"), level(rapid.Int8().Draw(t, "i8"))
	r.i64 = rapid.SampledFrom([]int64{0, 1, -1, math.MinInt64, math.MaxInt64}).Draw(t, "i64")
	r.u, r.u8, r.u64 = rapid.Uint().Draw(t, "u"), rapid.Uint8().Draw(t, "u8"), rapid.Uint64().Draw(t, "u64")
	r.f = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -2.5, math.Inf(1), math.MaxFloat64, 5e-324}).Draw(t, "f")
	r.f32 = rapid.Float32().Draw(t, "f32")
	r.s = word(rapid.String().Draw(t, "s"))
	r.raw = or(t, "raw", func() []byte { return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "raw") })
	r.hash[rapid.IntRange(0, 3).Draw(t, "hash")] = rapid.Byte().Draw(t, "hash")
	r.grid[1][rapid.IntRange(0, 2).Draw(t, "grid")] = rapid.Int16().Draw(t, "grid")
	r.list = or(t, "list", func() []inner { return []inner{drawInner(t, "list"), {}} })
	r.texts = or(t, "texts", func() []word { return []word{"", "x", word(rapid.String().Draw(t, "text"))} })
	r.byName = or(t, "byName", func() map[word]inner {
		all := make(map[word]inner)
		for _, s := range rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "names") {
			all[word(s)] = drawInner(t, "value")
		}
		return all
	})
	r.byPlace = or(t, "byPlace", func() map[[2]int]*inner {
		x := pointer()
		return map[[2]int]*inner{{}: x, {1, 2}: x, {2, 1}: nil, {-1, 0}: pointer()}
	})
	r.in, r.inner = drawInner(t, "in"), drawInner(t, "embedded")
	r.p = or(t, "p", pointer)
	if r.q = r.p; rapid.Bool().Draw(t, "apart") {
		r.q = or(t, "q", pointer)
	}
	r.pp = or(t, "pp", func() **int { return new(or(t, "pp", func() *int { return new(rapid.Int().Draw(t, "ppp")) })) })
	r.zero = or(t, "zero", func() *int { return new(int) })
	for range rapid.IntRange(0, 3).Draw(t, "chain") {
		r.chain = &node{rapid.Int().Draw(t, "n"), r.chain}
	}
	if r.chain != nil && rapid.Bool().Draw(t, "circle") {
		r.chain.next = r.chain
	}
	r.at, r.due = drawTime(t, "at"), drawTime(t, "due")
	r.times = or(t, "times", func() []time.Time { return []time.Time{drawTime(t, "times"), {}} })
	r.d = time.Duration(rapid.Int64().Draw(t, "d"))
	r.any = rapid.SampledFrom([]any{nil, 0, 7, inner{a: 1}, disc{2}, &box{h: 3}, text("an error")}).Draw(t, "any")
	r.shape = drawShape(t, "shape")
	r.shapes = or(t, "shapes", func() []shape { return []shape{drawShape(t, "shapes"), nil} })
	r.err = rapid.SampledFrom([]error{nil, text(""), text("broken")}).Draw(t, "err")
	r.old = rapid.Int().Draw(t, "old")
	return r
}

// What was encoded decodes to the same value, whatever the variable had before. The same value has the same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRich(t)
		b := Encode(nil, &r)
		got := drawRich(t)
		if err := Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v\nwant\n%+v", got, r)
		}
		if got.p != nil && (got.p == got.q) != (r.p == r.q) {
			t.Fatalf("p and q are the same: %v, want %v", got.p == got.q, r.p == r.q)
		}
		if x := got.byPlace; len(x) > 0 && x[[2]int{}] != x[[2]int{1, 2}] {
			t.Fatal("two entries of a map no longer have the same pointer")
		}
		for range 3 {
			if again := Encode([]byte("before"), got); string(again) != "before"+string(b) {
				t.Fatalf("the same value has other bytes:\n%q\n%q", again, b)
			}
		}
	})
}

// No zero value has bytes, and a struct has no bytes of its zero fields.
func TestZeroHasNoBytes(t *testing.T) {
	if b := Encode(nil, rich{}); len(b) > 0 {
		t.Errorf("the zero struct has the bytes %q", b)
	}
	type lost struct {
		X int `lost:"a test"`
	}
	if b := Encode(nil, struct{ in lost }{lost{1}}); len(b) > 0 {
		t.Errorf("a struct with a lost field alone has the bytes %q", b)
	}
	if b := Encode(nil, rich{I: 1}); string(b) != "\x01I\x01\x02" {
		t.Errorf("a struct with a single field has the bytes %q", b)
	}
}

// Lost fields stay, and errors of unregistered types come back with their text.
func TestLostAndErrors(t *testing.T) {
	called := 0
	r := rich{gone: func() { called++ }, err: fmt.Errorf("read: %w", io.EOF), any: io.EOF}
	b := Encode(nil, &r)
	if err := Decode(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.gone(); called != 1 || r.err.Error() != "read: EOF" || r.any != error(text("EOF")) {
		t.Errorf("%d, %v, %v", called, r.err, r.any)
	}
}

// A version skips fields that it does not know, and its own fields without bytes are zero.
func TestVersions(t *testing.T) {
	type older struct {
		same, dropped int
		list          []struct{ x, y int }
		before        string `record:"label"`
	}
	type newer struct {
		label string
		list  []struct{ y, z int }
		added *time.Time
		same  int
	}
	got := newer{added: new(time.Now())}
	if err := Decode(Encode(nil, older{1, 2, []struct{ x, y int }{{3, 4}, {5, 0}}, "text"}), &got); err != nil {
		t.Fatal(err)
	}
	if want := (newer{"text", []struct{ y, z int }{{4, 0}, {}}, nil, 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// A field of another type is refused with its path, or has a value.
	err := Decode(Encode(nil, struct{ In struct{ A string } }{struct{ A string }{"word"}}), new(struct{ In struct{ A int } }))
	if err == nil || !strings.Contains(err.Error(), ".In.A: ") {
		t.Errorf("a text in a number: %v", err)
	}
}

// A monotonic reading survives, and times without one come back as they were.
func TestTimes(t *testing.T) {
	type times struct{ At time.Time }
	now := time.Now()
	for _, d := range []time.Duration{0, time.Hour, -time.Hour, 1 << 61} {
		was, got := times{now.Add(d)}, times{}
		if err := Decode(Encode(nil, was), &got); err != nil {
			t.Fatal(err)
		}
		if got.At.Round(0) == got.At || got.At.Sub(was.At) != 0 {
			t.Errorf("%v came back as %v", was.At, got.At)
		}
	}
	if got := monotonic() - baseClock - time.Since(baseTime); got.Abs() > 100*time.Second {
		t.Errorf("the clocks are %v apart", got)
	}
	// A deadline is the same for a process whose clocks began at another moment, however its wall clock was set.
	b := Encode(nil, times{now})
	wasTime, wasClock := baseTime, baseClock
	defer func() { baseTime, baseClock = wasTime, wasClock }()
	baseTime, baseClock = baseTime.Add(time.Hour), baseClock+time.Hour
	var got times
	if err := Decode(b, &got); err != nil || got.At.Sub(now) != 0 {
		t.Errorf("%v, %v, want %v", got.At, err, now)
	}
}

type coded struct{ f func() string }

func (c coded) String() string { return c.f() }

// A type with Code is written by its functions, and only by them.
func TestCode(t *testing.T) {
	type has struct {
		c  coded
		p  *coded
		in map[string]coded
	}
	if err := Check(reflect.TypeFor[has]()); err == nil {
		t.Error("a func is accepted")
	}
	defer func() {
		codes.Delete(reflect.TypeFor[coded]())
		layouts.Clear()
		checked.Clear()
	}()
	bad := errors.New("bad")
	Code(func(b []byte, c *coded) []byte {
		if c.f == nil {
			return b
		}
		return append(b, c.f()...)
	}, func(b []byte, c *coded) error {
		if s := string(b); s != "bad" {
			c.f = func() string { return s }
			return nil
		}
		return bad
	})
	of := func(s string) coded { return coded{func() string { return s }} }
	c := of("pointer")
	var got has
	if err := Decode(Encode(nil, has{of("plain"), &c, map[string]coded{"key": of("map")}}), &got); err != nil {
		t.Fatal(err)
	}
	if got.c.String() != "plain" || got.p.String() != "pointer" || got.in["key"].String() != "map" {
		t.Errorf("%v", got)
	}
	if err := Decode(Encode(nil, has{c: of("bad")}), &got); !errors.Is(err, bad) {
		t.Errorf("%v, want %v", err, bad)
	}
}

type unknown interface{ unknown() }

// Check names each field that cannot be written, and Encode panics with the same words.
func TestCheck(t *testing.T) {
	type bad struct {
		F     func()
		C     chan int
		Mu    sync.Mutex
		Once  *sync.Once
		N     atomic.Int64
		P     uintptr
		Z     complex128
		U     unknown
		NoWhy int `lost:""`
		Blank int `lost:" "`
		Fine  int `lost:"a test"`
		Keys  map[*int]int
		Any   map[struct{ X any }]int
		Lost  map[struct {
			X int `lost:"a test"`
		}]int
		Twice  int `record:"Once"`
		Again  int `record:"News"`
		News   int
		Plus   int `record:"+x"`
		Deep   []map[string]struct{ In [2]*func() }
		Deeper []map[string]struct{ In [2]*func() }
		Self   *bad
		Shape  shape
		Err    error
	}
	got := Check(reflect.TypeFor[bad]())
	if got == nil {
		t.Fatal("nothing is refused")
	}
	for _, field := range []string{"F", "C", "Mu", "Once", "N", "P", "Z", "U", "NoWhy", "Blank", "Keys[key]", "Any[key].X", "Lost[key].X", "Twice", "News", "Plus", "Deep[][].In[]", "Deeper[][].In[]"} {
		if !strings.Contains(got.Error(), "record: bad."+field+": ") {
			t.Errorf("%s is not named", field)
		}
	}
	if n := strings.Count(got.Error(), "\n") + 1; n != 18 {
		t.Errorf("%d lines:\n%v", n, got)
	}
	for _, f := range []func(){func() { Encode(nil, bad{}) }, func() { new(Writer).Changed(new(bad)) }} {
		func() {
			defer func() {
				if r := recover(); fmt.Sprint(r) != got.Error() {
					t.Errorf("the panic is %v", r)
				}
			}()
			f()
		}()
	}
	if err := Decode(nil, new(bad)); err == nil {
		t.Error("Decode accepts the type")
	}
	if _, err := (&Reader{owners: map[string]*written{"": {}}}).Fill("", new(bad)); err == nil {
		t.Error("Fill accepts the type")
	}
	if err := Check(reflect.TypeFor[rich]()); err != nil {
		t.Error(err)
	}
}

// Check looks at the registered types that may be in an interface, and refuses an interface that no registered type may be in.
func TestCheckOfInterfaces(t *testing.T) {
	type has struct {
		X any
		U []unknown
	}
	forget := func(name string, v any) {
		byName.Delete(name)
		byType.Delete(reflect.TypeOf(v))
		checked.Clear()
	}
	Register("worse", worse{})
	err := Check(reflect.TypeFor[has]())
	forget("worse", worse{})
	if want := "record: has.X.(worse).In: a value of kind chan cannot be written"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	all := make(map[any]any)
	byName.Range(func(name, in any) bool { all[name] = in; return true })
	byName.Clear()
	byName.Store("", typeOfText)
	checked.Clear()
	err = errors.Join(Check(reflect.TypeFor[struct{ err error }]()), Check(reflect.TypeFor[struct{ x any }]()))
	for name, in := range all {
		byName.Store(name, in)
	}
	checked.Clear()
	if err == nil || !strings.HasSuffix(err.Error(), ".x: no registered type is a interface {}") {
		t.Errorf("%v", err)
	}
}

type worse struct{ In chan int }

func (worse) unknown() {}

// Names and types are registered once.
func TestRegisterPanics(t *testing.T) {
	for _, f := range []func(){
		func() { Register("", 1) }, func() { Register("disc", 1) }, func() { Register("nil", nil) },
		func() { Code(func(b []byte, _ *int) []byte { return b }, func([]byte, *int) error { return nil }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		}()
	}
	byName.Delete("nil")
}

// A value of an unregistered type, and a value that contains itself without a pointer, are named with their path.
func TestEncodePanics(t *testing.T) {
	type list []list
	circle := make(list, 1)
	circle[0] = circle
	type has struct {
		in struct{ shapes []shape }
		l  list
	}
	for path, v := range map[string]any{
		"record: rich.any: a value of *int, which is not registered, in a interface {}": rich{any: new(int)},
		"record: has.in.shapes: a value of record.square, ":                             has{in: struct{ shapes []shape }{[]shape{square{}}}},
		"record: has.l: more than 1000 values within each other":                        has{l: circle},
	} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.HasPrefix(r, path) {
					t.Errorf("the panic is %v, want %s", r, path)
				}
			}()
			Encode(nil, v)
		}()
	}
}

type square struct{}

func (square) area() float64 { return 1 }

// Bytes that stand for far more memory than their own are refused.
func TestDecodeIsBounded(t *testing.T) {
	many := func(one string) []byte {
		return append([]byte{10}, strings.Repeat(one, 10)...)
	}
	for _, c := range []struct {
		b []byte
		v any
	}{
		{many("\x00"), new([]big)},
		{many("\x01\x00"), new([]*big)},
		{many("\x01\x00\x00"), new(map[string]big)},
		{many("\x01\x00"), new([]map[string]big)},
		{many("\x04\x03big"), new([]any)},
	} {
		if err := Decode(c.b, c.v); err == nil || !strings.Contains(err.Error(), "too much memory") {
			t.Errorf("%T: %v", c.v, err)
		}
	}
	type list []list
	deep := []byte{}
	for range 2 * maxDepth {
		deep = append([]byte{1}, appendSized(nil, string(deep))...)
	}
	if err := Decode(deep, new(list)); err == nil || !strings.Contains(err.Error(), "within each other") {
		t.Errorf("a deep value: %v", err)
	}
}

// Bytes of another type, or with something before or after them, are refused.
func TestDamaged(t *testing.T) {
	x := new(7)
	type two struct {
		P *int
		Q *string
	}
	for _, c := range []struct {
		b []byte
		v any
	}{
		{Encode(nil, 300), new(int8)},
		{Encode(nil, -129), new(int8)},
		{Encode(nil, uint(300)), new(uint8)},
		{Encode(nil, uint(2)), new(bool)},
		{Encode(nil, [3]int{1}), new([2]int)},
		{Encode(nil, [1]byte{1}), new([2]byte)},
		{Encode(nil, struct{ P, Q *int }{x, x}), new(two)},
		{Encode(nil, struct{ e any }{7}), new(struct{ e error })},
		{Encode(nil, struct{ e any }{text("x")}), new(struct{ e shape })},
		{[]byte("\x05other"), new(any)},
		{[]byte("\x01"), new(*int)},
		{[]byte("\x80"), new(int)},
		{[]byte("\x01\x01"), new(int)},
		{[]byte("m\x00\x00"), new(time.Time)},
		{[]byte("m"), new(time.Time)},
		{[]byte("l\x02"), new(time.Time)},
		{[]byte("x\x02\x02"), new(time.Time)},
		{append([]byte("l\x02"), binary.AppendUvarint(nil, 1e9)...), new(time.Time)},
	} {
		if err := Decode(c.b, c.v); err == nil {
			t.Errorf("%q is a %T: %v", c.b, c.v, reflect.ValueOf(c.v).Elem())
		}
	}
}

// FuzzDecode: no input panics. What an input decodes to has bytes that decode to the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(Encode(nil, rich{I: 1, raw: []byte("x"), byName: map[word]inner{"k": {a: 1}}, p: new(inner), at: time.Unix(1, 2), due: time.Now(), shape: disc{1}, err: io.EOF}))
	x := &inner{a: 1, names: []string{"a"}}
	f.Add(Encode(nil, rich{p: x, q: x, chain: &node{1, new(node)}, shapes: []shape{&box{h: 1}, nil}, any: 3, grid: [2][3]int16{{1}}, hash: [4]byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again rich
		if Decode(b, &r) != nil {
			return
		}
		first := Encode(nil, &r)
		if err := Decode(first, &again); err != nil {
			t.Fatal(err)
		}
		if second := Encode(nil, &again); !bytes.Equal(first, second) {
			t.Fatalf("%q becomes %q", first, second)
		}
	})
}
