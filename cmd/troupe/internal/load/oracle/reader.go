package oracle

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The bounds of a reader's memory. Without a fault, a reader holds at most a line.
const (
	maxBad   = 16 << 10 // bytes without a known place
	maxHoles = 16       // beyond maxHoles, the oldest hole is reported as missing
	maxAhead = 1 << 20  // bytes after a hole; then the hole is reported as missing
	maxNote  = 20 << 10 // bytes of a replay
	near     = 64       // bytes: longer pieces are not equal by chance
)

// A hole is a missing part of a stream before received bytes.
type hole struct {
	from, to int64
	seen     seen
}

// A seen is the time of an event, with the events that show a finding.
type seen struct {
	seq  uint64
	at   time.Time
	cuts int
	note []Event
}

// A reader compares a stream of a run.
//
//	in place ── a byte that is not expected ──▶ searching
//	    ▲                                          │
//	    └── bytes whose place is certain: settle ──┘
type reader struct {
	c      *Checker
	stream protocol.Stream
	run    int
	text   text

	pos   int64 // of the next byte
	front int64 // no byte at front or later has arrived
	holes []hole
	fresh bool  // pos is unknown: the next bytes may have any place from front on
	after int64 // the place of the next bytes by the gaps before; -1: unknown. Of no use unless fresh
	gap   seen  // the first of the gaps before; zero: none

	// The repeated or late bytes in the present piece of the stream.
	span struct {
		kind     Kind
		from, to int64
		seen     seen
	}

	// Searching, if bad is not nil.
	bad      []byte // the bytes from pos on, without the first lost ones
	lost     int64
	searched int // bad has no certain place before this index
	tried    int // try the hello again at this number of bytes

	chunk int64  // the position at which the present event began; -1: unknown
	since seen   // when the present search, or the last one, began
	cur   []byte // the present line, from curFrom on
	begun int64  // offset in the line from which cur is filled
	over  bool   // the end has arrived
}

// feed takes the data of an event.
func (r *reader) feed(p []byte) {
	r.chunk = -1
	if r.bad == nil {
		r.chunk = r.pos
	} else {
		r.noteEvent(p)
	}
	r.take(p)
	for len(r.holes) > 0 && (len(r.holes) > maxHoles || r.front-r.holes[0].to > maxAhead) {
		r.missing(r.holes[0])
		r.holes = r.holes[1:]
	}
}

// take compares p with the text after the bytes taken so far.
func (r *reader) take(p []byte) {
	whole := p
	for len(p) > 0 {
		if r.bad == nil && !r.fresh {
			p = p[r.match(p):]
			if len(p) == 0 {
				return
			}
		}
		if r.bad == nil {
			r.bad = make([]byte, 0, 512)
			r.lost, r.searched = 0, 0
			r.noteBegin(whole, len(whole)-len(p))
		}
		n := min(len(p), 512, maxBad-len(r.bad))
		r.bad = append(r.bad, p[:n]...)
		p = p[n:]
		r.search(false)
	}
}

// match skips the right bytes at the begin of p, and returns their number.
func (r *reader) match(p []byte) int {
	done := 0
	for done < len(p) {
		q := p[done:]
		kind, begin, size := r.text.region(r.pos)
		if size >= 0 {
			q = q[:min(int64(len(q)), begin+size-r.pos)]
		}
		n := r.text.match(q, r.pos)
		if kind == plain || kind == beyond || n == 0 {
			r.advance(int64(n))
		} else {
			r.inLine(q[:n], kind, begin, size)
		}
		done += n
		if n < len(q) {
			break
		}
	}
	return done
}

// inLine skips a part of a line that may be right. When the line is complete, inLine judges the line by its check sum.
func (r *reader) inLine(p []byte, kind region, begin, size int64) {
	first := r.pos >= r.front // not a repeat
	o := r.pos - begin
	if o == 0 && int64(len(p)) == size {
		r.advance(size)
		r.judge(p, kind, begin, first)
		return
	}
	if o == 0 || r.begun > o || r.begun+int64(len(r.cur)) != o {
		r.cur, r.begun = r.cur[:0], o
	}
	r.cur = append(r.cur, p...)
	r.advance(int64(len(p)))
	if r.begun+int64(len(r.cur)) < size {
		return
	}
	// The time and all bytes under the check sum must have arrived in a single piece. All bytes before this piece are predictable, and are filled in.
	before := int64(11)
	if kind == end {
		before++
	}
	if r.begun > before {
		return
	}
	whole := make([]byte, size)
	r.text.fill(whole[:r.begun], begin)
	copy(whole[r.begun:], r.cur)
	r.judge(whole, kind, begin, first)
}

// judge judges a whole line. All predictable bytes of the line are right.
func (r *reader) judge(p []byte, kind region, begin int64, first bool) {
	if kind != hello && !r.text.known { // the hello was lost: an echo can go on without a hello
		r.over = r.over || kind == end
		return
	}
	printed, ok := r.parse(p, kind)
	if !ok {
		if p, ok = r.repairInPlace(p, kind, begin); !ok {
			return
		}
		printed, _ = r.parse(p, kind)
	}
	if kind == end {
		r.over = true
	}
	if kind == line && r.text.content.Form == Answers && first {
		if n, _, body, ok := r.text.sums.ParseLine(p); ok {
			a, _ := stream.ParseAnswer(body)
			r.c.answered(r, n, a)
		}
	}
	if first && r.c.o.Line != nil {
		r.c.o.Line(printed, r.c.now)
	}
}

// parse reads a whole line with a right number. A hello tells the number of the run.
func (r *reader) parse(p []byte, kind region) (printed time.Time, ok bool) {
	switch kind {
	case hello:
		number, pid, at, ok := r.text.base.ParseHello(p)
		if ok {
			r.c.hello(r, number, pid)
		}
		return at, ok
	case end:
		_, at, ok := r.text.sums.ParseEnd(p)
		return at, ok
	}
	_, at, _, ok := r.text.sums.ParseLine(p)
	return at, ok
}

// repairInPlace finds the altered byte in a line with a wrong check sum, and returns the right line.
func (r *reader) repairInPlace(p []byte, kind region, begin int64) (line []byte, ok bool) {
	r.seenNow()
	r.since.note = r.c.replay(r, begin, p)
	want := make([]byte, len(p))
	r.text.fill(want, begin)
	if f, ok := r.text.repair(p, want, kind, false); ok {
		r.found(f.kind, begin+int64(f.at), int64(f.bytes), f.line[f.at:], p[f.at:], "in the time or the check sum of a line")
		return f.line, true
	}
	at := bytes.IndexAny(want, "\x00\x01\x02")
	r.found(Altered, begin+int64(at), 1, nil, p[at:], "one byte or more: somewhere in the time, the check sum or another part of the line that cannot be known before")
	return nil, false
}

// advance skips n right bytes.
func (r *reader) advance(n int64) {
	r.c.st.Checked += n
	for n > 0 && r.pos < r.front {
		m := min(n, r.front-r.pos)
		kind, why := Doubled, r.since
		for i := range r.holes {
			h := &r.holes[i]
			if r.pos < h.from {
				m = min(m, h.from-r.pos)
				break
			}
			if r.pos >= h.to {
				continue
			}
			kind = Reordered
			m = min(m, h.to-r.pos)
			why.note = slices.Concat(h.seen.note, why.note)
			rest := hole{r.pos + m, h.to, h.seen}
			h.to = r.pos
			if rest.from < rest.to {
				r.holes = slices.Insert(r.holes, i+1, rest)
			}
			if r.holes[i].from == r.holes[i].to {
				r.holes = slices.Delete(r.holes, i, i+1)
			}
			break
		}
		if r.span.kind != kind || r.span.to != r.pos {
			r.flush()
			r.span.kind, r.span.from, r.span.seen = kind, r.pos, why
		}
		r.pos, n = r.pos+m, n-m
		r.span.to = r.pos
	}
	if r.pos == r.front {
		if r.span.kind != "" {
			r.flush()
		}
		r.pos += n
		r.front = r.pos
	}
}

// flush reports the repeated or late bytes.
func (r *reader) flush() {
	s := r.span
	r.span.kind = ""
	if s.kind != "" {
		since := r.since
		r.since = s.seen
		r.found(s.kind, s.from, s.to-s.from, nil, nil, "")
		r.since = since
	}
}

// curLine returns the received bytes of the present line, if its begin was received; else nil.
func (r *reader) curLine() []byte {
	if r.begun == 0 && int64(len(r.cur)) == r.pos {
		return r.cur
	}
	return nil
}

// found reports a finding of this stream.
func (r *reader) found(kind Kind, at, n int64, want, got []byte, detail string) {
	r.c.report(Finding{Kind: kind, Run: r.run, Stream: r.stream, Offset: at, Bytes: n, Want: quote(want), Got: quote(got), Detail: detail}, r.since)
}

func quote(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	p = bytes.Clone(p[:min(len(p), 64)])
	for i, c := range p {
		if c <= nothing {
			p[i] = '_' // unknown
		}
	}
	return strconv.Quote(string(p))
}

// seenNow makes findings refer to the present event.
func (r *reader) seenNow() { r.since = r.c.present() }

// noteBegin begins the replay of a fault at index i of the data of the present event.
func (r *reader) noteBegin(p []byte, i int) {
	r.seenNow()
	lead := min(i, near)
	r.since.note = r.c.replay(r, r.pos-int64(lead), p[i-lead:min(len(p), i+4096)])
}

// noteEvent adds the present event to the replay of the fault.
func (r *reader) noteEvent(p []byte) {
	n := 0
	for _, e := range r.since.note {
		n += len(e.Data)
	}
	if n += len(p); n > maxNote {
		return
	}
	r.since.note = append(r.since.note, Event{Kind: "output", Seq: r.c.seq, Stream: r.stream, Data: bytes.Clone(p)})
}
