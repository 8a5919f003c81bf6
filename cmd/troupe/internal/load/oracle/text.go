package oracle

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// Marks for the unknown bytes of a text. No byte of a stream is below '\n'.
const (
	aDigit  = 0 // any of 0123456789
	aHex    = 1 // any of 0123456789abcdef
	aLetter = 2 // a or z
	nothing = 3 // no byte belongs here
)

// fitting has for each byte the marks that it fits, as bits.
var fitting = func() (bits [256]uint8) {
	for mark, all := range []string{aDigit: "0123456789", aHex: "0123456789abcdef", aLetter: "az"} {
		for _, c := range []byte(all) {
			bits[c] |= 1 << mark
		}
	}
	return bits
}()

// fits reports whether a byte may stand where a text has w.
func fits(w, c byte) bool {
	if w > nothing {
		return w == c
	}
	return fitting[c]>>w&1 != 0
}

// fit returns how many bytes at the begin of p fit want.
func fit(want, p []byte) (n int) {
	for n < len(p) && fits(want[n], p[n]) {
		n++
	}
	return n
}

// A text knows the predictable bytes of a run's stream.
type text struct {
	base    stream.Key // of the process
	content Content
	hello   int64 // its size; 0 on stderr
	line    int64 // the size of a line; 0: the content has no lines
	body    int   // how many bytes of a line are of the key, from bodyAt on; 0: none
	endAt   int64 // where the end begins; -1: unknown so far

	known  bool       // the run is known, and with the run sums
	number uint64     // the number chosen by the run; 0: the run was guessed
	sums   stream.Key // of lines and ends
	keyed  bool       // key is known; the key of an echo is known before the run is
	key    stream.Key // of the bytes of the content

	scratch []byte // for whole; copies of a text share it
}

// bodyAt is where the body of a line begins.
const bodyAt = 28

// A region is a part of a text.
type region uint8

const (
	plain  region = iota // bytes of a key
	hello                // hello, line and end are lines; an end has a newline in front
	line                 // of the content
	end                  // of the run's stream
	beyond               // the end
)

// newText returns the text of a run before the run is known.
func newText(base stream.Key, content Content, onStdout bool) text {
	t := text{base: base, content: content, endAt: -1}
	if onStdout {
		t.hello = int64(stream.HelloSize)
	}
	switch content.Form {
	case Lines:
		t.line, t.body = int64(stream.LineExtra+content.Body), content.Body
	case Answers:
		t.line = int64(stream.LineExtra + stream.AnswerSize)
	case Nothing:
		t.endAt = t.hello
	case Echo:
		t.keyed, t.key = true, base.Run(0, "stdin")
	}
	if content.Bytes > 0 {
		t.endAt = t.hello + content.Bytes
	}
	return t
}

// learn sets the number of the run.
func (t *text) learn(number uint64) {
	name := "stdout"
	if t.hello == 0 {
		name = "stderr"
	}
	t.known, t.number = true, number
	t.sums = t.base.Run(number, name)
	if t.content.Form != Echo {
		t.keyed, t.key = true, t.sums
	}
}

// region returns the region of a position, its begin and its size. A size of -1 means that the size is unknown.
func (t *text) region(at int64) (r region, begin, size int64) {
	switch {
	case at < t.hello:
		return hello, 0, t.hello
	case t.endAt >= 0 && at >= t.endAt+int64(stream.EndSize):
		return beyond, t.endAt + int64(stream.EndSize), -1
	case t.endAt >= 0 && at >= t.endAt:
		return end, t.endAt, int64(stream.EndSize)
	case t.line > 0:
		size := t.line
		begin := t.hello + (at-t.hello)/size*size
		if t.endAt >= 0 {
			size = min(size, t.endAt-begin)
		}
		return line, begin, size
	case t.endAt >= 0:
		return plain, t.hello, t.endAt - t.hello
	}
	return plain, t.hello, -1
}

// unknown reports whether no byte of a region is known.
func (t *text) unknown(r region) bool { return r == beyond || !t.keyed && (r == plain || r == line) }

// fill fills p with the text from position at on, with marks for unknown bytes.
func (t *text) fill(p []byte, at int64) {
	for len(p) > 0 {
		r, begin, size := t.region(at)
		q := p
		if size >= 0 {
			q = p[:min(int64(len(p)), begin+size-at)]
		}
		switch {
		case t.unknown(r):
			for i := range q {
				q[i] = nothing
			}
		case r == plain:
			t.key.Fill(q, at-t.hello)
		default:
			copy(q, t.whole(r, begin)[at-begin:])
		}
		p, at = p[len(q):], at+int64(len(q))
	}
}

// helloBody returns the body of a hello. The first call makes the body: the tables of the check sum take 0.2 ms, and each start in a sandbox executes
// this program and waits for the variables of all packages.
var helloBody = sync.OnceValue(func() []byte {
	var key stream.Key
	_, _, body, _ := key.ParseLine(key.AppendHello(nil, 0, 0, time.UnixMicro(0)))
	i := bytes.IndexByte(body, ' ') + 1
	for j := range body[i : i+16] {
		body[i+j] = aHex
	}
	for j := range body[i+17:] {
		body[i+17+j] = aDigit
	}
	return body
})

// whole returns the line at position begin, or the end, with marks for unknown bytes. The result is valid until the next call.
func (t *text) whole(r region, begin int64) []byte {
	p := t.scratch[:0]
	var n int64
	var body []byte // nil: of the key
	switch r {
	case hello:
		body = helloBody()
	case line:
		if n = (begin - t.hello) / t.line; t.content.Form == Answers {
			body = answerBody
		}
	case end:
		p = append(p, '\n')
		body = stream.AppendNumber(append(make([]byte, 0, 24), "end "...), t.endAt-t.hello, 20)
	}
	p = append(stream.AppendNumber(p, n, 10), ' ')
	p = append(append(p, anyTime...), ' ')
	if body == nil {
		from := len(p)
		p = slices.Grow(p, t.content.Body)[:from+t.content.Body]
		t.key.FillBody(p[from:], n)
	}
	p = append(append(p, body...), ' ')
	t.scratch = append(append(p, anySum...), '\n')
	return t.scratch
}

// anyTime and anySum are the time and the check sum of a line.
var (
	anyTime = bytes.Repeat([]byte{aDigit}, 16)
	anySum  = bytes.Repeat([]byte{aHex}, 8)
)

// answerBody is the body of an answer.
var answerBody = append([]byte{aLetter}, bytes.Repeat([]byte{aHex}, stream.AnswerSize-1)...)

// match returns how many bytes at the begin of p fit at position at. Of plain content, match compares all bytes; of a line, the predictable
// bytes.
func (t *text) match(p []byte, at int64) int {
	n := 0
	for n < len(p) {
		r, begin, size := t.region(at)
		q := p[n:]
		if size >= 0 {
			q = q[:min(int64(len(q)), begin+size-at)]
		}
		m := 0
		switch {
		case t.unknown(r):
		case r == plain:
			m = t.key.Match(q, at-t.hello)
		default:
			want := t.whole(r, begin)[at-begin:]
			if end := bodyAt + t.body; r == line && at == begin && len(q) >= end && bytes.Equal(q[bodyAt:end], want[bodyAt:end]) {
				if m = fit(want, q[:bodyAt]); m == bodyAt {
					m = end // the body is compared already
				}
			}
			m += fit(want[m:], q[m:])
		}
		n, at = n+m, at+int64(m)
		if m < len(q) {
			break
		}
	}
	return n
}

// matchBack returns how many bytes at the end of p fit before position at.
func (t *text) matchBack(p []byte, at int64) (n int) {
	p = p[int64(len(p))-max(0, min(int64(len(p)), at)):]
	want := make([]byte, len(p))
	t.fill(want, at-int64(len(p)))
	for n < len(p) && fits(want[len(p)-1-n], p[len(p)-1-n]) {
		n++
	}
	return n
}

// window is how many unplaced bytes to keep for the search, so that a place whose begin they have can be found.
func (t *text) window() int {
	n := max(stream.HelloSize, stream.EndSize, 3*stream.Cell)
	if t.line > 0 {
		n = max(n, int(min(t.line, 4096))) // longer lines have many whole cells
	}
	return n
}

// find searches p, from index from on, for bytes with a certain place in the text: a cell, a whole line, a hello or an end. find returns the
// index of the first such byte and its position in the text. For an end, endAt is the position of the end.
func (t *text) find(p []byte, from int) (index int, at, endAt int64, ok bool) {
	for i := from; i < len(p); i++ {
		rest := p[i:]
		if t.known && rest[0] == '\n' && len(rest) >= stream.EndSize && rest[stream.EndSize-1] == '\n' {
			if n, _, ok := t.sums.ParseEnd(rest[:stream.EndSize]); ok {
				return i, t.hello + n, t.hello + n, true
			}
		}
		if l := int(t.line); t.known && l > 0 && l <= 4096 && len(rest) >= l && rest[l-1] == '\n' && rest[10] == ' ' {
			if n, _, body, ok := t.sums.ParseLine(rest[:l]); ok && t.isContent(n, body) {
				return i, t.hello + n*t.line, -1, true
			}
		}
		if h := int(t.hello); h > 0 && len(rest) >= h && rest[h-1] == '\n' && rest[10] == ' ' {
			if number, _, _, ok := t.base.ParseHello(rest[:h]); ok && t.known && number == t.number {
				return i, 0, -1, true
			}
		}
		if len(rest) >= stream.Cell {
			if at, ok := t.cell(rest); ok {
				return i, at, -1, true
			}
		}
	}
	return 0, 0, 0, false
}

// isContent reports whether a correct line belongs to the content: hellos and ends have other bodies.
func (t *text) isContent(n int64, body []byte) bool {
	if t.content.Form == Answers {
		_, ok := stream.ParseAnswer(body)
		return ok
	}
	return t.key.Match(body, n*int64(len(body))) == len(body)
}

// cell returns the position of the cell at the begin of p, if the cell is of this content.
func (t *text) cell(p []byte) (at int64, ok bool) {
	if t.content.Form == Answers || t.content.Form == Nothing || !t.keyed {
		return 0, false
	}
	key, n, ok := stream.Whose(p)
	if !ok || key != t.key {
		return 0, false
	}
	return t.place(n)
}

// place returns the position in the text of a cell, from the cell's position in the key.
func (t *text) place(n int64) (at int64, ok bool) {
	if t.content.Form == Lines {
		b := int64(t.content.Body)
		if n%b+stream.Cell > b {
			return 0, false // a newline would be in the middle of the cell
		}
		n = n/b*t.line + bodyAt + n%b
	}
	at = t.hello + n
	return at, t.endAt < 0 || at < t.endAt
}

// guess looks in p for two neighbouring cells of the same key, and returns the key. guess is for a run with a lost hello.
func (t *text) guess(p []byte) (key stream.Key, ok bool) {
	if t.content.Form != Plain && t.content.Form != Lines {
		return 0, false
	}
	for i := 0; i+2*stream.Cell <= len(p); i++ {
		k1, n1, ok1 := stream.Whose(p[i:])
		k2, n2, ok2 := stream.Whose(p[i+stream.Cell:])
		if ok1 && ok2 && k1 == k2 && n2 == n1+stream.Cell {
			return k1, true
		}
	}
	return 0, false
}

// adopt takes a guessed key, also for sums: for guessed contents both keys are the same. The number stays unknown.
func (t *text) adopt(key stream.Key) { t.known, t.keyed, t.key, t.sums = true, true, key, key }

// signed reports whether p has an end with a check sum of the run. Such an end confirms a guessed number.
func (t *text) signed(p []byte) bool {
	for i := 0; i+stream.EndSize <= len(p); i++ {
		if _, _, ok := t.sums.ParseEnd(p[i : i+stream.EndSize]); ok {
			return true
		}
	}
	return false
}
