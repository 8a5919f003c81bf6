package oracle

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// search looks for a certain place in bad, and then judges the bytes before that place. final says that no bytes follow.
func (r *reader) search(final bool) {
	t := &r.text
	if t.hello > 0 && !t.known && r.pos < t.hello && !r.fresh && r.searchHello(final) {
		return
	}
	if !t.keyed {
		if _, ok := t.guess(r.bad); ok {
			r.guess(r.bad)
			if t.hello == 0 && r.pos == 0 && !r.fresh { // the hello is on its way
				again := r.bad
				r.bad, r.searched = nil, 0
				r.take(again)
				return
			}
			r.searched = 0
		}
	}
	i, at, endAt, ok := t.find(r.bad, r.searched)
	if !ok {
		keep := t.window()
		r.searched = max(r.searched, len(r.bad)-keep)
		if len(r.bad) == maxBad {
			r.lost += int64(len(r.bad) - keep)
			r.bad = append(r.bad[:0], r.bad[len(r.bad)-keep:]...)
			r.searched = 0
		}
		return
	}
	all := r.bad
	r.bad = nil
	back := t.matchBack(all[:i], at)
	if at >= r.pos && !r.fresh {
		back = int(min(int64(back), at-r.pos)) // the bytes before pos are matched already; unpredictable digits may match by chance
	}
	i, at = i-back, at-int64(back)
	if endAt >= 0 && t.endAt != endAt {
		if t.endAt >= 0 {
			r.found(Altered, endAt, 0, nil, nil, fmt.Sprintf("the program says that its content ends after %d bytes, want %d", endAt-t.hello, t.endAt-t.hello))
		}
		t.endAt = endAt
	}
	r.settle(all[:i], at)
	r.take(all[i:])
}

// searchHello looks for a hello with a single fault, and reports whether it found such a hello.
func (r *reader) searchHello(final bool) bool {
	all := slices.Concat(r.curLine(), r.bad)
	size := int(r.text.hello)
	if (len(all) <= size || len(all) < r.tried) && !final || r.lost > 0 {
		return false
	}
	r.tried = 2 * len(all) // wait for twice the bytes: each try costs more than the last
	want := make([]byte, size)
	r.text.fill(want, 0)
	f, ok := r.text.repair(all, want, hello, true)
	if !ok {
		r.searchNumber(final)
		return false
	}
	r.found(f.kind, int64(f.at), int64(f.bytes), f.line[min(f.at, len(f.line)):], all[min(f.at, len(all)):], "in the hello of the run")
	r.bad = nil
	r.pos, r.front = int64(size), max(r.front, int64(size))
	r.parse(f.line, hello)
	r.take(all[f.used:])
	return true
}

// searchNumber looks for the number of the run in the bytes: in a whole hello, or else in 16 digits that explain bytes after the digits.
func (r *reader) searchNumber(final bool) {
	t := &r.text
	for i := 0; i+int(t.hello) <= len(r.bad); i++ {
		if number, pid, _, ok := t.base.ParseHello(r.bad[i : i+int(t.hello)]); ok {
			r.c.hello(r, number, pid)
			return
		}
	}
	if !final && len(r.bad) < 512 || len(r.bad) > 4096 {
		return
	}
	all := slices.Concat(r.curLine(), r.bad)
	for i := 0; i+16 < min(len(all), 256); i++ {
		number, err := strconv.ParseUint(string(all[i:i+16]), 16, 64)
		if err != nil || number == 0 {
			continue
		}
		guessed := *t
		guessed.learn(number)
		if _, at, _, ok := guessed.find(all[i+16:], 0); ok && at >= t.hello && !(t.content.Form == Echo && !guessed.signed(all[i+16:])) {
			r.c.hello(r, number, 0)
			return
		}
	}
}

// guess takes the key of the run from the bytes p.
func (r *reader) guess(p []byte) {
	if key, ok := r.text.guess(p); ok {
		r.text.adopt(key)
	}
}

// equal reports whether the known bytes of two pieces of n bytes, at positions a and b, are the same.
func (r *reader) equal(a, b, n int64) bool {
	if a < 0 || b < 0 || n > near {
		return false
	}
	var p, q [near]byte
	r.text.fill(p[:n], a)
	r.text.fill(q[:n], b)
	return p == q
}

// settle judges a fault. After the right bytes up to pos came lost bytes, the bytes bad, and then the right bytes from position to on.
func (r *reader) settle(bad []byte, to int64) {
	if to != r.pos { // the next bytes belong to another line, or to another part of the line
		r.cur, r.begun = r.cur[:0], -1
	}
	if r.fresh {
		r.flush()
		r.since.note = slices.Concat(r.gap.note, r.since.note)
		if n := r.lost + int64(len(bad)); n > 0 {
			r.found(Foreign, max(r.front, to-n), n, nil, bad, "after a gap")
		}
		if r.after >= 0 && r.lost == 0 && len(bad) == 0 {
			r.checkGap(to)
		}
		if r.owed() {
			r.addHole(r.front, to-r.lost-int64(len(bad)))
		}
		r.fresh, r.gap = false, seen{}
		r.pos, r.front = to, max(r.front, to)
		return
	}
	n := r.lost + int64(len(bad)) // number of arrived bytes
	end := to
	if n == 0 && to != r.pos {
		to = r.shift(to)
	}
	e := to - r.pos // number of expected bytes
	r.flush()
	switch {
	case n == 0 && e > 0:
		r.addHole(r.pos, to)
	case e <= 0:
		if n > 0 && !(e == 0 && r.early(bad)) {
			r.extra(bad, r.pos)
		}
	case n == e:
		r.altered(bad, to)
	case n < e:
		r.fewer(bad, to)
	default:
		r.more(bad, to)
	}
	r.pos = to
	r.front = max(r.front, to)
	if again := end - to; again > 0 {
		r.c.st.Checked -= again
		r.advance(again)
	}
}

// owed reports whether bytes lost before the next bytes of a certain place are missing: a gap was before them, and is no gap of an observer.
func (r *reader) owed() bool { return r.fresh && r.gap.seq > 0 && !r.c.spec.Observer }

// checkGap compares the place of the first byte after a gap with the place that the gap has told.
func (r *reader) checkGap(to int64) {
	switch {
	case to > r.after && r.c.spec.Observer: // otherwise the whole gap is a hole
		r.found(Missing, r.after, to-r.after, nil, nil, "the gap before this event says that fewer bytes were dropped")
	case to < r.after:
		r.found(Order, to, r.after-to, nil, nil, fmt.Sprintf("the gap before this event says that %d bytes more were dropped", r.after-to))
	}
}

// shift chooses among several jumps that explain the same bytes. A jump goes from pos to another position. The best jump begins at the begin
// of a hole, of new bytes, or else of the event. shift moves pos back, and returns the end of the jump. The bytes from the end of the jump
// on have arrived already.
func (r *reader) shift(to int64) int64 {
	for i := range r.holes {
		h := &r.holes[i]
		if d := h.from - to; d > 0 && d <= near && r.equal(h.from-d, h.to-d, d) {
			h.from, h.to = h.from-d, h.to-d
		}
	}
	atFront := r.pos == r.front
	for _, j := range [...]int64{to - r.front, r.pos - r.chunk} {
		if j <= 0 || r.chunk < 0 || j > r.pos-r.chunk || j > near || !r.equal(r.pos-j, to-j, j) {
			continue
		}
		if atFront && j == to-r.front {
			continue
		}
		r.pos -= j
		to -= j
		if atFront {
			r.front = r.pos
		} else if r.span.kind != "" {
			r.span.to = max(r.span.from, r.span.to-j)
			if r.span.from == r.span.to {
				r.span.kind = ""
			}
		}
		break
	}
	return to
}

func (r *reader) addHole(from, to int64) {
	from = max(from, r.front)
	if from < to {
		r.holes = append(r.holes, hole{from, to, r.since})
	}
}

// extra judges bytes inserted before position at.
func (r *reader) extra(bad []byte, at int64) {
	n := int64(len(bad))
	if r.lost == 0 && n <= at {
		if r.again(bad, at) {
			r.found(Doubled, at-n, n, nil, bad, "")
			return
		}
		for i, h := range r.holes {
			if h.to-h.from == n && fitsAll(r.want(h.from, n), bad) {
				r.since.note = slices.Concat(h.seen.note, r.since.note)
				r.found(Reordered, h.from, n, nil, bad, "")
				r.holes = slices.Delete(r.holes, i, i+1)
				return
			}
		}
		if n >= 4 {
			from := max(0, at-4096)
			if i := bytes.LastIndex(r.want(from, at-from), bad); i >= 0 {
				r.found(Doubled, from+int64(i), n, nil, bad, "")
				return
			}
		}
	}
	r.found(Foreign, at, r.lost+n, nil, bad, r.c.whose(r, bad))
}

// again reports whether bad has the bytes before position at once more.
func (r *reader) again(bad []byte, at int64) bool {
	n := int64(len(bad))
	return n <= at && fitsAll(r.want(at-n, n), bad)
}

// early reports whether bad has expected bytes of a later place, and not the last bytes once more: the numbers of lines look alike. Then early
// leaves a hole for the bytes before.
func (r *reader) early(bad []byte) bool {
	n := int64(len(bad))
	if r.lost > 0 || n < 4 || r.pos < r.front || r.again(bad, r.pos) {
		return false
	}
	want := r.want(r.pos, n+4096)
	for i := int64(1); i+n <= int64(len(want)); i++ {
		if fitsAll(want[i:i+n], bad) && knows(want[i:i+n]) >= 4 {
			r.holes = append(r.holes, hole{r.pos, r.pos + i, r.since})
			r.front = r.pos + i + n
			r.c.st.Checked += n
			return true
		}
	}
	return false
}

// knows returns how many bytes of a text are known.
func knows(want []byte) (n int) {
	for _, w := range want {
		if w > nothing {
			n++
		}
	}
	return n
}

func (r *reader) want(at, n int64) []byte {
	p := make([]byte, n)
	r.text.fill(p, at)
	return p
}

func fitsAll(want, got []byte) bool { return fit(want, got[:len(want)]) == len(want) }

// altered judges bad when its length is the expected length.
func (r *reader) altered(bad []byte, to int64) {
	n := to - r.pos
	if r.lost > 0 {
		r.found(Altered, r.pos, n, r.want(r.pos, 64), bad, r.c.whose(r, bad))
		return
	}
	want := r.want(r.pos, n)
	wrong := misfits(want, bad, len(want))
	if len(wrong) == 2 && bad[wrong[0]] == want[wrong[1]] && bad[wrong[1]] == want[wrong[0]] {
		i := wrong[0]
		r.found(Reordered, r.pos+int64(i), 2, want[i:], bad[i:], fmt.Sprintf("this byte and the one at %d", r.pos+int64(wrong[1])))
		return
	}
	if from, n, ok := r.rotated(bad, r.pos); ok {
		r.found(Reordered, from, n, r.want(from, n), bad, "two pieces came in the other order")
		return
	}
	for len(wrong) > 0 {
		i, k := wrong[0], 1
		for k < len(wrong) && wrong[k]-wrong[k-1] <= 2 {
			k++
		}
		n := wrong[k-1] - i + 1
		r.found(Altered, r.pos+int64(i), int64(n), want[i:i+n], bad[i:i+n], r.c.whose(r, bad))
		wrong = wrong[k:]
	}
}

// rotated reports whether bad consists of two exchanged pieces. Bytes at the ends of the pieces may be right by chance, and are then not
// part of bad.
func (r *reader) rotated(bad []byte, at int64) (from, n int64, ok bool) {
	if len(bad) < 2 || len(bad) > 4096 {
		return 0, 0, false
	}
	for _, e := range [...][2]int64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {0, 2}} {
		from := at - e[0]
		if from < 0 {
			continue
		}
		n := int64(len(bad)) + e[0] + e[1]
		want := r.want(from, n)
		got := append(append(append(make([]byte, 0, n), want[:e[0]]...), bad...), want[n-e[1]:]...)
		for k := 1; k < len(want); k++ {
			if fits(want[k], got[0]) && knows(want) >= len(want)/4 && fitsAll(want[k:], got) && fitsAll(want[:k], got[len(want)-k:]) {
				return from, n, true
			}
		}
	}
	return 0, 0, false
}

// fewer judges bad when it is shorter than expected.
func (r *reader) fewer(bad []byte, to int64) {
	n := r.lost + int64(len(bad))
	e := to - r.pos
	if r.lost == 0 && e <= 64<<10 {
		if i := int64(bytes.Index(r.want(r.pos, e), bad)); i >= 0 { // a piece between two holes
			r.addHole(r.pos, r.pos+i)
			r.addHole(r.pos+i+n, to)
			r.c.st.Checked += n
			return
		}
	}
	r.found(Altered, r.pos, n, r.want(r.pos, min(n, 64)), bad, r.c.whose(r, bad))
	r.addHole(r.pos+n, to)
}

// more judges bad when it is longer than expected.
func (r *reader) more(bad []byte, to int64) {
	e := to - r.pos
	if r.lost == 0 {
		if i := int64(bytes.Index(bad, r.want(r.pos, e))); i >= 0 {
			if i > 0 {
				r.extra(bad[:i], r.pos)
			}
			if rest := bad[i+e:]; len(rest) > 0 {
				r.extra(rest, to)
			}
			return
		}
	}
	r.found(Altered, r.pos, e, r.want(r.pos, min(e, 64)), bad, r.c.whose(r, bad))
	rest := bad[min(int64(len(bad)), e):]
	r.found(Foreign, to, r.lost+int64(len(bad))-e, nil, rest, r.c.whose(r, rest))
}
