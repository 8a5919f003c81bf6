package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// tally is a Journal: it counts words, and its news are words.
type tally struct {
	n     map[string]int
	fresh []string `lost:"News has told it, or the whole field has it"`
	blind bool     `lost:"News cannot tell"`
}

func (t *tally) count(word string) {
	if t.n == nil {
		t.n = make(map[string]int)
	}
	t.n[word]++
	t.fresh = append(t.fresh, word)
}

func (t *tally) News(b []byte) ([]byte, bool) {
	told := !t.blind
	if told {
		for _, word := range t.fresh {
			b = appendSized(b, word)
		}
	}
	t.fresh, t.blind = nil, false
	return b, told
}

func (t *tally) Learn(b []byte) (err error) {
	var d decoder
	defer d.recover(&err)
	for len(b) > 0 {
		word := string(d.piece(&b))
		if t.count(word); word == "bad" {
			return errors.New("a bad word")
		}
	}
	t.fresh = nil
	return nil
}

// spec is a Versioned.
type spec struct {
	text    string
	version uint64 `lost:"of this process"`
}

func (s *spec) Version() uint64 {
	if s == nil {
		return 0
	}
	return s.version
}

func (s *spec) same(x *spec) bool { return (s == nil) == (x == nil) && (s == nil || s.text == x.text) }

type owned struct {
	a, b  int
	in    inner
	words tally
	spec  *spec
	p     *int
	env   *int `lost:"the next server has its own"`
}

func (o *owned) same(x *owned) bool {
	return o.a == x.a && o.b == x.b && reflect.DeepEqual(o.in, x.in) && maps.Equal(o.words.n, x.words.n) && reflect.DeepEqual(o.p, x.p) && o.spec.same(x.spec)
}

// newest returns the records of a ledger that count.
func newest(t interface{ Fatal(...any) }, ledger [][]byte) (left [][]byte) {
	var n Newest
	for _, b := range ledger {
		if err := n.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range ledger {
		if n.Counts(b) {
			left = append(left, b)
		}
	}
	return left
}

// readerOf returns a Reader of all records of a ledger.
func readerOf(t interface{ Fatal(...any) }, ledger [][]byte) *Reader {
	r := new(Reader)
	for _, b := range ledger {
		if err := r.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// only is Fill without a Writer.
func (r *Reader) only(owner string, v any) error {
	_, err := r.Fill(owner, v)
	return err
}

// Changed returns the record of Write; nil: there is none.
func (w *Writer) Changed(v any) (record []byte) {
	w.Write(v, func(b []byte) bool { record = bytes.Clone(b); return true })
	return record
}

// Whatever owners change, and whenever the server dies or the ledger is compacted: the next server has what the last record of each owner said.
func TestReaderHasTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type owner struct {
			Writer
			now  owned
			last owned // at the last record
		}
		var ledger [][]byte
		owners, next := make(map[string]*owner), 0
		pick := func() *owner {
			return owners[rapid.SampledFrom(slices.Sorted(maps.Keys(owners))).Draw(t, "owner")]
		}
		copyOf := func(o owned) owned {
			var c owned
			if err := Decode(Encode(nil, &o), &c); err != nil {
				t.Fatal(err)
			}
			return c
		}
		steps := map[string]func(t *rapid.T){
			"new": func(t *rapid.T) {
				next++
				o := &owner{Writer: Writer{Owner: fmt.Sprint("p-", next)}}
				o.now.spec, o.last.spec = new(spec), new(spec)
				owners[o.Owner] = o
				ledger = append(ledger, o.Changed(&o.now))
			},
			"change": func(t *rapid.T) {
				if len(owners) == 0 {
					return
				}
				o := pick()
				changed := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "in", "words", "many", "p", "spec"}), 0, 3).Draw(t, "fields")
				for _, field := range changed {
					switch field {
					case "a":
						o.now.a = rapid.IntRange(0, 2).Draw(t, "a")
					case "b":
						o.now.b = rapid.IntRange(0, 2).Draw(t, "b")
					case "in":
						o.now.in = drawInner(t, "in")
					case "words", "many":
						word := rapid.SampledFrom([]string{"x", "y", "a longer word"}).Draw(t, "word")
						for range map[string]int{"words": 1, "many": 300}[field] {
							o.now.words.count(word)
						}
						o.now.words.blind = rapid.Bool().Draw(t, "blind")
					case "spec":
						o.now.spec.text = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "spec")
						o.now.spec.version++
					case "p":
						o.now.p = rapid.SampledFrom([]*int{nil, new(int), new(1)}).Draw(t, "p")
					}
				}
				first := o.marks == nil
				b := o.Changed(&o.now)
				if len(changed) == 0 && !first && b != nil {
					t.Fatalf("nothing has changed, and the record is %q", b)
				}
				if rapid.IntRange(0, 4).Draw(t, "full") == 0 { // the ledger does not take the record
					o.now.a++
					o.Write(&o.now, func([]byte) bool { return false })
					b = o.Changed(&o.now)
				}
				if b != nil {
					ledger = append(ledger, b)
				}
				if b := o.Changed(&o.now); b != nil {
					t.Fatalf("the same again has the record %q", b)
				}
				o.last = copyOf(o.now)
			},
			"end": func(t *rapid.T) {
				if len(owners) == 0 {
					return
				}
				o := pick()
				ledger = append(ledger, o.Gone())
				delete(owners, o.Owner)
			},
			"compact": func(t *rapid.T) {
				ledger = newest(t, ledger)
				has := make(map[string]bool)
				for _, b := range ledger {
					owner, _, _ := new(decoder).record(b)
					if has[string(owner)] = true; owners[string(owner)] == nil {
						t.Fatalf("a record of %q is left, which has ended", owner)
					}
				}
				if len(has) != len(owners) {
					t.Fatalf("records of %v are left, want those of %d owners", has, len(owners))
				}
			},
			"death": func(t *rapid.T) {
				r := readerOf(t, ledger)
				for _, name := range slices.Sorted(maps.Keys(owners)) {
					o := owners[name]
					if rapid.Bool().Draw(t, "begins anew") {
						o.Writer, o.now = Writer{Owner: name}, copyOf(o.last)
						continue
					}
					var err error
					o.now = owned{}
					if o.Writer, err = r.Fill(name, &o.now); err != nil {
						t.Fatal(err)
					}
				}
			},
			"": func(t *rapid.T) {
				r := readerOf(t, ledger)
				if got, want := r.Owners(), slices.Sorted(maps.Keys(owners)); !slices.Equal(got, want) {
					t.Fatalf("the owners %q, want %q", got, want)
				}
				for name, o := range owners {
					env := new(int)
					got := owned{a: 7, p: new(int), env: env}
					if _, err := r.Fill(name, &got); err != nil {
						t.Fatal(err)
					}
					if !got.same(&o.last) || got.env != env {
						t.Fatalf("%s is %+v, want %+v", name, got, o.last)
					}
				}
			},
		}
		t.Repeat(steps)
	})
}

// A record has the changed fields only; an owner takes few bytes of memory.
func TestRecordsAreSmall(t *testing.T) {
	w := Writer{Owner: "p-1"}
	o := owned{in: inner{names: []string{strings.Repeat("x", 500)}}}
	if b := w.Changed(&o); len(b) < 500 {
		t.Errorf("the first record has %d bytes", len(b))
	}
	o.a = 1
	if b := w.Changed(&o); string(b) != "\x03p-1c\x01a\x01\x02" {
		t.Errorf("the record of a change is %q", b)
	}
	o.spec = &spec{text: "x"}
	if b := w.Changed(&o); b != nil {
		t.Errorf("the record of a variable with the same version is %q", b)
	}
	if o.spec.version++; len(w.Changed(&o)) == 0 {
		t.Error("no record of a variable with another version")
	}
	o.a = 0
	if b := w.Changed(&o); string(b) != "\x03p-1c\x01a\x00" {
		t.Errorf("the record of a field that is zero again is %q", b)
	}
	for range 5000 {
		o.words.count("word")
		b := w.Changed(&o)
		if _, kind, _ := new(decoder).record(b); kind == kindChanged && len(b) > 30 {
			t.Fatalf("a record of a word has %d bytes", len(b))
		}
	}
	if n := int(unsafe.Sizeof(w)) + 8*cap(w.marks); n > 200 {
		t.Errorf("a writer takes %d bytes", n)
	}
	if testing.Short() { // with the race detector a Pool loses what it has
		return
	}
	if allocs := testing.AllocsPerRun(100, func() { w.Changed(&o) }); allocs > 0 {
		t.Errorf("%v allocations without a change", allocs)
	}
}

// The records of an owner that count never take much more than all fields, and all fields are written seldom.
func TestRecordsAreBounded(t *testing.T) {
	w, o := Writer{Owner: "p-1"}, owned{}
	ledger := [][]byte{w.Changed(&o)}
	whole := 0
	for i := range 4000 {
		o.a = i
		o.words.count(fmt.Sprint("word ", i%400))
		b := w.Changed(&o)
		if _, kind, _ := new(decoder).record(b); kind == kindWhole {
			whole++
		}
		ledger = newest(t, append(ledger, b))
		size := 0
		for _, b := range ledger {
			size += len(b)
		}
		if all := len(Encode(nil, &o)); size > leastSince+3*all+100 { // a record has a header
			t.Fatalf("%d bytes of records, all fields take %d", size, all)
		}
	}
	if whole == 0 || whole > 15 {
		t.Errorf("all fields were written %d times", whole)
	}
}

// After a panic in Changed, the next record has all fields.
func TestChangedAfterPanic(t *testing.T) {
	type has struct {
		a   int
		any any
		b   int
	}
	w, h := Writer{Owner: "p"}, has{a: 1, b: 1}
	w.Changed(&h)
	h = has{a: 2, any: new(int), b: 2}
	func() {
		defer func() { recover() }()
		w.Changed(&h)
		t.Error("no panic")
	}()
	h.any = nil
	var r Reader
	var got has
	if err := errors.Join(r.Read(w.Changed(&h)), r.only("p", &got)); err != nil || got != h {
		t.Errorf("%+v, %v, want %+v", got, err, h)
	}
}

// Fields that point to the same variable each have its value.
func TestFieldsWithTheSamePointer(t *testing.T) {
	type has struct{ p, q *inner }
	x := &inner{a: 1}
	h, w := has{x, x}, Writer{Owner: "p"}
	var r Reader
	var got has
	if err := errors.Join(r.Read(w.Changed(&h)), r.only("p", &got)); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The Writer of Fill goes on with the records: it writes what has changed since, and of a Journal the news.
func TestWriterGoesOn(t *testing.T) {
	w, o := Writer{Owner: "p"}, owned{a: 1, spec: &spec{text: "long"}}
	for i := range 1000 {
		o.words.count(fmt.Sprint("word", i))
	}
	ledger := [][]byte{w.Changed(&o)}
	o.words.count("word0")
	ledger = append(ledger, w.Changed(&o))
	var again owned
	w, err := readerOf(t, ledger).Fill("p", &again)
	if err != nil {
		t.Fatal(err)
	}
	if b := w.Changed(&again); b != nil {
		t.Errorf("without a change the next Writer writes %q", b)
	}
	again.words.count("word0")
	again.a = 2
	if b := w.Changed(&again); len(b) == 0 || len(b) > 100 {
		t.Errorf("a change of two fields takes %d bytes: %.100q", len(b), b)
	}
}

// A server of another version writes all fields anew: a field that it does not have is zero once the first version comes back.
func TestFieldsOfAnotherVersion(t *testing.T) {
	type older struct{ a, b int }
	type newer struct{ a int }
	w := Writer{Owner: "p"}
	ledger := [][]byte{w.Changed(&older{1, 2})}
	var now newer
	w, err := readerOf(t, ledger).Fill("p", &now)
	if err != nil || now.a != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	ledger = append(ledger, w.Changed(&now))
	var back older
	if err := readerOf(t, ledger).only("p", &back); err != nil || back != (older{1, 0}) {
		t.Errorf("%+v, %v", back, err)
	}
}

// Records that no Writer makes are refused, and change nothing.
func TestRefusedRecords(t *testing.T) {
	var r Reader
	w := Writer{Owner: "p"}
	if err := r.Read(w.Changed(&owned{a: 1})); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{"", "\x01", "\x01p", "\x01px", "\x01qc", "\x01pga", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if err := r.Read([]byte(b)); err == nil {
			t.Errorf("%q is accepted", b)
		}
	}
	var got owned
	if err := r.only("p", &got); err != nil || got.a != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, b := range []string{"\x01pw\x01", "\x01pw\x01b\x05x", "\x01pw\x01a\x01\x04\x01", "\x01pw\x01a\x01\x06\x01", "\x01pw\x02+a\x01x", "\x01pw\x06+words\x04\x03bad", "\x01pw\x01a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01"} {
		if err := errors.Join(r.Read([]byte(b)), r.only("p", &got)); err == nil || !strings.HasPrefix(err.Error(), "record: p") {
			t.Errorf("%q: %v", b, err)
		}
	}
	if err := r.only("q", &got); err == nil {
		t.Error("an unknown owner is filled")
	}
	if err := new(Newest).Read([]byte("\x01p")); err == nil {
		t.Error("a record without a kind counts")
	}
}

// FuzzRead: no record panics, and the records that count mean the same as all.
func FuzzRead(f *testing.F) {
	w, o := Writer{Owner: "p"}, owned{a: 1}
	f.Add(w.Changed(&o), []byte{})
	o.words.count("word")
	f.Add(w.Changed(&o), w.Gone())
	f.Add([]byte("\x01pw\x06+words\x05\x04word"), binary.AppendUvarint(nil, 1<<40))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r, again Reader
		var ledger [][]byte
		for _, record := range [][]byte{a, b} {
			if r.Read(record) == nil {
				ledger = append(ledger, record)
			}
		}
		for _, record := range newest(t, ledger) {
			if err := again.Read(record); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(r.Owners(), again.Owners()) {
			t.Fatalf("%q, want %q", again.Owners(), r.Owners())
		}
		for _, name := range r.Owners() {
			var x, y owned
			if e1, e2 := r.only(name, &x), again.only(name, &y); (e1 == nil) != (e2 == nil) || e1 == nil && !x.same(&y) {
				t.Fatalf("%+v, %v; %+v, %v", x, e1, y, e2)
			}
		}
	})
}
