package record

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// A record of an owner is the length of the owner's name, the name, a kind, and fields as in a struct. A field of length 0 is zero.
const (
	kindGone    = 'g' // the owner has ended; no field follows
	kindWhole   = 'w' // no earlier field counts
	kindChanged = 'c' // all other fields count as before
	// news stands before the name of a field with News. The news follow the earlier bytes of the field.
	news = "+"
)

// A Journal is a field of an owner that changes by small pieces. Any other field is encoded in each turn, to see whether it has changed, and
// written whole if it has: a memory of 1000 entries takes a millisecond a turn. The pointer to a Journal has the methods. Only direct
// fields of the owner's struct count.
type Journal interface {
	// News appends the changes since the last call of News to b, and forgets them. Without changes News appends nothing. ok is false
	// if News cannot tell the changes: then the field is written whole, as any other.
	News(b []byte) (_ []byte, ok bool)
	// Learn applies what News has appended in one call. The field has the earlier state. Learn makes no news.
	Learn(b []byte) error
}

// A Versioned is a field of an owner that is large and changes seldom: a pointer to the same variable for the owner's life, whose methods count
// the changes of the variable. Any other pointer is followed in each turn. Only direct fields of the owner's struct count.
type Versioned interface {
	// Version returns another number after each change. The pointer may be nil.
	Version() uint64
}

// A Writer tells which fields of an owner have changed. The zero Writer with an Owner has written nothing. A single goroutine at a time may
// use a Writer. Besides the name, a Writer takes 56 bytes, and 8 for each field.
type Writer struct {
	Owner string // unique among all owners of a ledger

	// marks has for each field a hash of the last bytes, with their head; for a Versioned its version; for a Journal 0. Nil: the next record has all fields.
	marks []uint64

	whole, since int // bytes: of the last record with all fields, and of all records since
}

// leastSince is the least that the records since the last record with all fields take, in bytes, until all fields are written again. The other limit
// is twice that record: so the records that count stay few, and a large field is written again seldom.
const leastSince = 4 << 10

var seed = maphash.MakeSeed()

// Write passes a record with the fields of the struct to which v points that have changed since the last call to store, unless none has. The first record has all
// fields, and so has the next record after store has returned false. The record is valid until store returns.
func (w *Writer) Write(v any, store func(record []byte) bool) {
	x := reflect.ValueOf(v)
	e, fields, marks := begin(x.Type().Elem()), layoutOf(x.Type().Elem()).fields, w.marks
	w.marks = nil // after a panic the next record has all fields
	kind, first := byte(kindChanged), marks == nil
	if first {
		kind, marks = kindWhole, make([]uint64, len(fields))
	}
	e.buf = header(e.spare[:0], w.Owner, kind)
	some := first
	for i := range fields {
		if len(e.seen) > 0 {
			clear(e.seen)
		}
		some = e.changed(&fields[i], x.UnsafePointer(), &marks[i], first) || some
	}
	n := len(e.buf)
	switch {
	case first:
		w.whole, w.since = n, 0
	case some:
		w.since += n
	}
	again := w.since > leastSince+2*w.whole
	if !again && (!some || store(e.buf)) {
		w.marks = marks
	}
	e.spare = e.buf
	e.end()
	if again {
		w.Write(v, store)
	}
}

// Gone returns the record of the owner's end.
func (w *Writer) Gone() []byte { return header(nil, w.Owner, kindGone) }

func header(b []byte, owner string, kind byte) []byte { return append(appendSized(b, owner), kind) }

// changed writes a field of the struct at p if the field has changed since mark, and reports whether it has.
func (e *encoder) changed(f *field, p unsafe.Pointer, mark *uint64, first bool) bool {
	at := len(e.buf)
	var sum uint64
	switch {
	case f.versioned:
		if sum = f.at(p).Elem().Interface().(Versioned).Version(); sum == *mark && !first {
			return false
		}
	case f.journal:
		if told := e.news(f, p); told && !first {
			return len(e.buf) > at
		}
		e.buf = e.buf[:at]
	}
	some := e.field(f, p)
	if !f.journal && !f.versioned {
		if sum = maphash.Bytes(seed, e.buf[at:]); sum == *mark {
			e.buf = e.buf[:at]
			return false
		}
	}
	if *mark = sum; !some && !first {
		e.buf = append(append(e.buf, f.head...), 0)
	}
	return some || !first
}

// news writes the news of a Journal, if the Journal can tell them.
func (e *encoder) news(f *field, p unsafe.Pointer) (ok bool) {
	before := len(e.buf)
	e.buf = append(e.buf, f.news...)
	at := e.open()
	e.buf, ok = f.at(p).Interface().(Journal).News(e.buf)
	if e.close(at) == 0 {
		e.buf = e.buf[:before]
	}
	return ok
}

// A Reader collects the records of a ledger, and reads the fields of an owner when Fill asks for them: most records are of fields that have changed
// since. The zero Reader has none. A single goroutine at a time may call Read. From then on any goroutine may call Owners and Fill.
type Reader struct {
	owners map[string]*written
}

// titleOfRecord begins an error about a record whose owner is unknown.
var titleOfRecord = []string{"a record of a ledger"}

// written are the records of an owner that count.
type written struct {
	fields       [][]byte // of each record, the oldest first
	whole, since int      // as in Writer
}

// Read takes the next record of a ledger, whose bytes stay as they are until the last Fill. After an error the records before count.
func (r *Reader) Read(record []byte) (err error) {
	d := decoder{path: titleOfRecord}
	defer d.recover(&err)
	owner, kind, fields := d.record(record)
	w := r.owners[string(owner)]
	if right := kind == kindWhole || kind == kindGone && len(fields) == 0 || kind == kindChanged && w != nil; !right {
		d.path = []string{string(owner)}
		d.refuse(errDamaged)
	}
	switch kind {
	case kindGone:
		delete(r.owners, string(owner))
		return nil
	case kindWhole:
		if r.owners == nil {
			r.owners = make(map[string]*written)
		}
		w = &written{whole: len(record)}
		r.owners[string(owner)] = w
	default:
		w.since += len(record)
	}
	w.fields = append(w.fields, fields)
	return nil
}

// record cuts the head off a record.
func (d *decoder) record(b []byte) (owner []byte, kind byte, fields []byte) {
	owner = d.piece(&b)
	d.want(len(b) > 0)
	return owner, b[0], b[1:]
}

// Size returns how many bytes the records take that count.
func (r *Reader) Size() (n int) {
	for _, w := range r.owners {
		n += w.whole + w.since
	}
	return n
}

// Owners returns the names of all owners that have not ended, sorted.
func (r *Reader) Owners() []string { return slices.Sorted(maps.Keys(r.owners)) }

// Fill sets the struct to which v points to what the owner's records say, as Decode does. The Writer goes on with the records. If another version has
// written fields that the struct does not have, the Writer begins anew: they would seem to be of today once that version comes back.
func (r *Reader) Fill(owner string, v any) (Writer, error) {
	w := Writer{Owner: owner}
	records, ok := r.owners[owner]
	if !ok {
		return w, fmt.Errorf("record: %s: there is no record of this owner", owner)
	}
	x := reflect.ValueOf(v).Elem()
	if err := Check(x.Type()); err != nil {
		return w, err
	}
	layout := layoutOf(x.Type())
	all, known, err := records.split(layout, owner)
	if err != nil {
		return w, err
	}
	marks := make([]uint64, len(layout.fields))
	for i := range all {
		f := &layout.fields[i]
		if err := all[i].fill(settable(x.Field(f.index)), owner+"."+f.name); err != nil {
			return w, err
		}
		marks[i] = all[i].mark(f, x.Addr().UnsafePointer())
	}
	if known {
		w.marks, w.whole, w.since = marks, records.whole, records.since
	}
	return w, nil
}

// found is what the records say of a field.
type found struct {
	whole []byte
	news  [][]byte // since
}

// split finds the newest bytes of each field. known is false if a record has other fields, too.
func (w *written) split(s *layout, owner string) (all []found, known bool, err error) {
	d := decoder{path: []string{owner}}
	defer d.recover(&err)
	all, known = make([]found, len(s.fields)), true
	for _, rest := range w.fields {
		for next := 0; len(rest) > 0; {
			name, value := d.piece(&rest), d.piece(&rest)
			name, more := bytes.CutPrefix(name, []byte(news))
			i := s.find(name, next)
			switch {
			case i < 0:
				known = false
				continue
			case more:
				all[i].news = append(all[i].news, value)
			default:
				all[i] = found{whole: value}
			}
			next = i + 1
		}
	}
	return all, known, nil
}

// fill sets the field to.
func (f *found) fill(to reflect.Value, path string) error {
	if err := decode(f.whole, to, path); err != nil {
		return err
	}
	for _, part := range f.news {
		j, ok := to.Addr().Interface().(Journal)
		if !ok {
			return fmt.Errorf("record: %s: there are news, and %v is not a Journal", path, to.Type())
		}
		if err := j.Learn(part); err != nil {
			return fmt.Errorf("record: %s: %w", path, err)
		}
	}
	return nil
}

// mark returns the mark of a field, just filled, of the struct at p.
func (found *found) mark(f *field, p unsafe.Pointer) uint64 {
	switch {
	case f.versioned:
		return f.at(p).Elem().Interface().(Versioned).Version()
	case f.journal:
		return 0
	case len(found.whole) == 0:
		return maphash.Bytes(seed, nil)
	}
	return maphash.Bytes(seed, appendSized(slices.Clip(f.head), found.whole))
}

// Newest tells which records of a ledger count: of each owner that has not ended, the last whole record and the later ones. The caller passes all
// records to Read, and then all records to Counts in the same order. The zero Newest has read nothing.
type Newest struct {
	whole         map[string]int // owner → the number of the last whole record
	read, counted int            // so many records
}

// Read takes the next record.
func (w *Newest) Read(record []byte) (err error) {
	d := decoder{path: titleOfRecord}
	defer d.recover(&err)
	switch owner, kind, _ := d.record(record); kind {
	case kindGone:
		delete(w.whole, string(owner))
	case kindWhole:
		if w.whole == nil {
			w.whole = make(map[string]int)
		}
		w.whole[string(owner)] = w.read
	}
	w.read++
	return nil
}

// Counts reports whether the next record counts.
func (w *Newest) Counts(record []byte) bool {
	var d decoder
	owner, _, _ := d.record(record)
	whole, lives := w.whole[string(owner)]
	w.counted++
	return lives && whole < w.counted
}
