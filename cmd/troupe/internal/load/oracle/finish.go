package oracle

import (
	"slices"
	"strconv"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// finish ends the stream of the run. A killed run may stop anywhere.
func (r *reader) finish(killed bool) {
	t := &r.text
	if r.bad != nil {
		r.search(true)
	}
	if r.bad != nil && !r.fresh {
		r.finishBad(killed)
	} else if n := r.lost + int64(len(r.bad)); r.fresh && t.keyed && n > int64(4*t.window()) { // fewer right bytes may have no certain place
		r.found(Foreign, r.front, n, nil, r.bad, "after a gap")
	}
	r.bad = nil
	r.flush()
	for _, h := range r.holes {
		r.missing(h)
	}
	r.holes = nil
	if r.owed() {
		r.finishGap(killed)
	}
	if killed || r.fresh || t.content.Form == Nothing && t.hello == 0 {
		return
	}
	r.seenNow()
	switch {
	case t.endAt >= 0 && r.front < t.endAt+int64(stream.EndSize):
		r.since.note = r.c.replay(r, r.pos, nil)
		r.found(Missing, r.front, t.endAt+int64(stream.EndSize)-r.front, nil, nil, "the end of the stream")
	case t.endAt < 0 && !r.over:
		r.since.note = r.c.replay(r, r.pos, nil)
		r.found(Missing, r.front, 0, nil, nil, "the end of the stream: the program would have said how long it is")
	}
}

// finishGap reports the bytes lost in a gap without output after it: all bytes up to the known end of the stream, or as many as the gap tells.
func (r *reader) finishGap(killed bool) {
	to := r.after
	if r.text.endAt >= 0 && !killed {
		to = r.text.endAt + int64(stream.EndSize)
	}
	if to > r.front {
		r.since = r.gap
		r.found(Missing, r.front, to-r.front, nil, nil, "in the gap at the end of the stream")
	}
}

// finishBad judges the unplaced bytes at the end of the stream: the end, a part of the end, or other bytes.
func (r *reader) finishBad(killed bool) {
	t := &r.text
	if !t.keyed || !t.known && r.pos < t.hello {
		r.found(Altered, r.pos, r.lost+int64(len(r.bad)), nil, r.bad, "the run cannot be told, so nothing of this stream could be compared")
		return
	}
	guessed := t.endAt < 0
	if guessed && r.pos >= t.hello {
		t.endAt = r.pos
	}
	if guessed && r.pos >= t.hello && r.lost == 0 && r.bad[0] != '\n' {
		// Perhaps the end is incomplete, and other bytes come before the end.
		if n, ok := endOf(r.bad); ok && t.hello+n >= r.pos-near {
			t.endAt = t.hello + n
		}
	}
	if kind, begin, size := t.region(r.pos); kind == end && r.lost == 0 {
		all := r.bad
		if r.pos > begin && r.begun == 0 {
			all = slices.Concat(r.cur, all)
		} else if r.pos > begin {
			all = nil
		}
		want := make([]byte, size)
		t.fill(want, begin)
		if len(all) < len(want) && fitsAll(want[:len(all)], all) { // a part of the end
			r.pos = begin + int64(len(all))
			r.front = max(r.front, r.pos)
			return
		}
		if f, ok := t.repair(all, want, end, true); ok {
			r.found(f.kind, begin+int64(f.at), int64(f.bytes), f.line[min(f.at, len(f.line)):], all[min(f.at, len(all)):], "in the end of the stream")
			r.bad = nil
			r.pos, r.front, r.over = begin+size, max(r.front, begin+size), true
			if rest := all[f.used:]; len(rest) > 0 {
				r.extra(rest, r.pos)
			}
			return
		}
	}
	to := t.endAt + int64(stream.EndSize)
	if back := t.matchBack(r.bad, to); t.endAt >= 0 && r.pos < to && r.lost == 0 && (!guessed || r.bad[0] == '\n' || back >= 30) {
		// The rest of the stream is known: compare its begin and its end with the begin and the end of the received bytes.
		all := r.bad
		r.bad = nil
		n := r.match(all)
		all = all[n:]
		if len(all) == 0 {
			return
		}
		back = t.matchBack(all, to)
		r.settle(all[:len(all)-back], to-int64(back))
		if rest := all[len(all)-back:]; r.match(rest) < len(rest) || r.pos < to {
			r.pos, r.front = to, max(r.front, to)
		}
		return
	}
	if guessed {
		t.endAt = -1
	}
	if killed || t.endAt >= 0 && r.pos >= t.endAt+int64(stream.EndSize) {
		r.extra(r.bad, r.pos)
		return
	}
	// Nobody knows how many bytes should be here.
	r.found(Altered, r.pos, r.lost+int64(len(r.bad)), r.want(r.pos, min(64, int64(len(r.bad)))), r.bad, r.c.whose(r, r.bad))
}

// endOf returns the number in the end record at the end of p. The begin of the record may be missing.
func endOf(p []byte) (n int64, ok bool) {
	const tail = 1 + 20 + 1 + 8 + 1
	if len(p) < tail || p[len(p)-1] != '\n' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(p[len(p)-tail+1:len(p)-tail+21]), 10, 64)
	return n, err == nil && p[len(p)-tail] == ' ' && p[len(p)-10] == ' '
}

func (r *reader) missing(h hole) {
	since := r.since
	r.since = h.seen
	r.found(Missing, h.from, h.to-h.from, r.want(h.from, min(64, h.to-h.from)), nil, "")
	r.since = since
}
