package oracle

import (
	"bytes"
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

// fits reports whether a byte may stand where a text has w.
func fits(w, c byte) bool {
	switch w {
	case aDigit:
		return '0' <= c && c <= '9'
	case aHex:
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
	case aLetter:
		return c == 'a' || c == 'z'
	case nothing:
		return false
	}
	return w == c
}

// A text knows the predictable bytes of a run's stream.
type text struct {
	base    stream.Key // of the process
	content Content
	hello   int64 // its size; 0 on stderr
	line    int64 // the size of a line; 0: the content has no lines
	endAt   int64 // where the end begins; -1: unknown so far

	known  bool       // the run is known, and with the run sums
	number uint64     // the number chosen by the run; 0: the run was guessed
	sums   stream.Key // of lines and ends
	keyed  bool       // key is known; the key of an echo is known before the run is
	key    stream.Key // of the bytes of the content
}

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
		t.line = int64(stream.LineExtra + content.Body)
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

// fill fills p with the text from position at on, with marks for unknown bytes.
func (t *text) fill(p []byte, at int64) {
	for len(p) > 0 {
		r, begin, size := t.region(at)
		q := p
		if size >= 0 {
			q = p[:min(int64(len(p)), begin+size-at)]
		}
		switch {
		case r == beyond || !t.keyed && (r == plain || r == line):
			for i := range q {
				q[i] = nothing
			}
		case r == plain:
			t.key.Fill(q, at-t.hello)
		default:
			t.fillLine(q, r, begin, at-begin)
		}
		p, at = p[len(q):], at+int64(len(q))
	}
}

// helloBody is the body of a hello.
var helloBody = func() []byte {
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
}()

// fillLine fills p with a part of the line at position begin. from is the offset of p in the line, or in the end.
func (t *text) fillLine(p []byte, r region, begin, from int64) {
	const head = 10 + 1 + 16 + 1 // number, time, and the spaces after them
	var n int64
	var body []byte
	bodyLen := int64(t.content.Body)
	switch r {
	case hello:
		body = helloBody
		bodyLen = int64(len(body))
	case line:
		n = (begin - t.hello) / t.line
		if t.content.Form == Answers {
			body = answerBody
			bodyLen = int64(len(body))
		}
	case end:
		if from == 0 {
			p[0] = '\n'
			p = p[1:]
			from++
		}
		from--
		body = append(make([]byte, 0, 24), "end "...)
		body = stream.AppendNumber(body, t.endAt-t.hello, 20)
		bodyLen = int64(len(body))
	}
	var number [10]byte
	stream.AppendNumber(number[:0], n, 10)
	for i := 0; i < len(p); {
		o := from + int64(i)
		switch {
		case o < 10:
			i += copy(p[i:], number[o:])
			continue
		case o == 10, o == head-1, o == head+bodyLen:
			p[i] = ' '
		case o < head-1:
			p[i] = aDigit
		case o < head+bodyLen:
			q := p[i:min(int64(len(p)), int64(i)+head+bodyLen-o)]
			if body != nil {
				copy(q, body[o-head:])
			} else {
				t.key.Fill(q, n*bodyLen+o-head)
			}
			i += len(q)
			continue
		case o < head+bodyLen+1+8:
			p[i] = aHex
		default:
			p[i] = '\n'
		}
		i++
	}
}

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
		var m int
		if r == plain && t.keyed {
			m = t.key.Match(q, at-t.hello)
		} else if r == line && at == begin && int64(len(q)) == size && t.isLine(q, begin) {
			m = len(q)
		} else {
			m = t.matchSlow(q, at)
		}
		n, at = n+m, at+int64(m)
		if m < len(q) {
			break
		}
	}
	return n
}

// isLine reports whether p fits as a whole line at position begin. isLine is faster than matchSlow. After false, matchSlow decides.
func (t *text) isLine(p []byte, begin int64) bool {
	if t.content.Form != Lines || !t.keyed || int64(len(p)) != t.line {
		return false
	}
	n := (begin - t.hello) / t.line
	for i, rest := 9, n; i >= 0; i-- {
		if p[i] != byte('0'+rest%10) {
			return false
		}
		rest /= 10
	}
	body := p[28 : 28+t.content.Body]
	sum := p[28+t.content.Body:]
	for _, c := range p[11:27] {
		if c < '0' || c > '9' {
			return false
		}
	}
	for _, c := range sum[1:9] {
		if !fits(aHex, c) {
			return false
		}
	}
	return p[10] == ' ' && p[27] == ' ' && sum[0] == ' ' && sum[9] == '\n' && t.key.Match(body, n*int64(len(body))) == len(body)
}

func (t *text) matchSlow(p []byte, at int64) int {
	var want [256]byte
	n := 0
	for n < len(p) {
		w := want[:min(len(want), len(p)-n)]
		t.fill(w, at+int64(n))
		for i := range w {
			if !fits(w[i], p[n+i]) {
				return n + i
			}
		}
		n += len(w)
	}
	return n
}

// matchBack returns how many bytes at the end of p fit before position at.
func (t *text) matchBack(p []byte, at int64) int {
	var want [256]byte
	n := 0
	for n < len(p) && int64(n) < at {
		w := want[:min(int64(len(want)), int64(len(p)-n), at-int64(n))]
		t.fill(w, at-int64(n+len(w)))
		q := p[len(p)-n-len(w) : len(p)-n]
		for i := len(w) - 1; i >= 0; i-- {
			if !fits(w[i], q[i]) {
				return n + len(w) - 1 - i
			}
		}
		n += len(w)
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
		n = n/b*t.line + 28 + n%b
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
