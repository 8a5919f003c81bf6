package oracle

import (
	"fmt"
	"hash/maphash"
)

// A mark has the places of a run's streams after the event seq, and what a repeat of that event must be.
type mark struct {
	seq uint64
	at  [2]int64 // -1: unknown
	sum uint64   // of the event, by sumOf; 0: it was a gap
}

// maxSummed bounds the hashed bytes of an event: repeatOutput compares all bytes of longer outputs, but those of earlier runs.
const maxSummed = 1 << 10

var seed = maphash.MakeSeed()

// sumOf returns a hash of what must be the same when an event comes again.
func sumOf(e *Event) uint64 {
	if e.Kind == "gap" { // the server may still have what a gap stands for
		return 0
	}
	sum := maphash.Bytes(seed, e.Data[:min(len(e.Data), maxSummed)])
	for _, n := range [...]uint64{uint64(len(e.Data)), maphash.String(seed, e.Kind), maphash.String(seed, e.Signal), maphash.String(seed, e.Reason), uint64(e.Stream), uint64(e.Code), uint64(e.Run)} {
		sum = sum*31 + n
	}
	return max(sum, 1)
}

// resume begins the repeats after seq.
func (c *Checker) resume(seq uint64) {
	if seq >= c.st.Seq { // the next event must be new, even if repeats of an earlier resume were cut off
		c.again, c.next = false, max(c.next, c.st.Seq+1)
		return
	}
	c.again = true
	c.next = seq + 1
	c.repeats = c.placesAfter(seq)
}

// placesAfter returns the places of the present run's streams after an event.
func (c *Checker) placesAfter(seq uint64) [2]int64 {
	m := c.marks[seq%uint64(len(c.marks))]
	switch {
	case seq+1 == c.first:
		return [2]int64{}
	case m.seq == seq && seq >= c.first: // otherwise m is of the run before
		return m.at
	}
	return [2]int64{-1, -1}
}

// repeat checks a repeated event.
func (c *Checker) repeat(e *Event) {
	from := e.first()
	if from > c.next {
		c.seqFinding(SeqHole, e, fmt.Sprintf("seq %d came after %d, in what comes again after a resume", from, c.next-1))
	} else if from < c.next {
		c.seqFinding(SeqAgain, e, fmt.Sprintf("seq %d came after %d, in what comes again after a resume", from, c.next-1))
	}
	hole := from != c.next
	c.next = max(c.next, e.Seq+1)
	if e.Kind == "gap" { // after a takeover, the server has dropped events acknowledged by the old connection
		c.repeats = c.placesAfter(e.Seq)
		return
	}
	wrong := c.st.Wrong
	if r := c.reader(e.Stream); r != nil && e.Kind == "output" && e.Seq >= c.first {
		c.repeatOutput(r, e, hole)
	}
	m := &c.marks[e.Seq%uint64(len(c.marks))]
	if m.seq == e.Seq && m.sum != 0 && m.sum != sumOf(e) && c.st.Wrong == wrong {
		c.order(e, fmt.Sprintf("an event came again after a resume as another event: %s, %d bytes", e.Kind, len(e.Data)))
	}
	if e.Seq < c.first || c.st.Wrong > wrong {
		c.repeats = c.placesAfter(e.Seq)
	}
}

// repeatOutput compares a repeated output of the present run, with places as long as they are known. hole: events before e are missing.
func (c *Checker) repeatOutput(r *reader, e *Event, hole bool) {
	i := 0
	if r == c.err {
		i = 1
	}
	at := &c.repeats[i]
	if hole {
		*at = -1
	}
	data := e.Data
	if *at < 0 {
		k, place, _, ok := r.text.find(data, 0)
		if !ok {
			return // too short to find its place; the bytes were checked before
		}
		back := r.text.matchBack(data[:k], place)
		if k > back {
			r.seenNow()
			r.since = c.eventSeen(e)
			r.found(Foreign, place-int64(k), int64(k-back), nil, data[:k-back], "in an event that came again after a resume")
		}
		data, *at = data[k-back:], place-int64(back)
	}
	n := r.text.match(data, *at)
	c.st.Checked += int64(n)
	if n < len(data) {
		r.since = c.eventSeen(e)
		want := r.want(*at+int64(n), int64(min(64, len(data)-n)))
		r.found(Altered, *at+int64(n), int64(len(data)-n), want, data[n:], "an event came again after a resume with other bytes, from here on")
		return
	}
	*at += int64(n)
	if *at > r.front && r.bad == nil && !r.fresh {
		r.since = c.eventSeen(e)
		r.found(Altered, r.front, *at-r.front, nil, nil, "an event came again after a resume with more bytes than before")
	}
}
