package proxy

import (
	"cmp"
	"sort"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
)

// stream holds the newest entries of a process between the reader of the connection and the actor of the process. A new entry pushes out the oldest
// entries if the stream is full: viewers behind read dropped entries again. Any goroutine may call any method.
type stream struct {
	most int // bytes

	mu      sync.Mutex
	watched bool   // there are viewers: otherwise nothing is held
	live    bool   // the next push continues after last
	items   []item // without a hole
	bytes   int
	last    uint64 // seq of the last push since begin, or else the seq of begin
	known   uint64 // the process has had entries up to this seq
	closed  bool   // known is the seq of closed
	acked   uint64 // an owner here has acknowledged all entries up to this seq
	evicted string // why the node has given the process up; "": the node has not
	woken   bool   // the actor is about to look
}

// An item is an entry, or a gap: then From of the gap is not 0.
type item struct {
	gap   outlog.Gap
	entry outlog.Entry
}

const itemBytes = 128 // of an item beside its output

func (i *item) first() uint64 {
	if i.gap.From != 0 {
		return i.gap.From
	}
	return i.entry.Seq
}

func (i *item) end() uint64 {
	if i.gap.From != 0 {
		return i.gap.To
	}
	return i.entry.Seq
}

// begin says: the next push follows seq after, and the process has had entries up to known.
func (s *stream) begin(after, known uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.items
	s.items, s.bytes = nil, 0
	if len(kept) > 0 && kept[0].first() <= after+1 && after <= s.last {
		for i := 0; i < len(kept) && kept[i].end() <= after; i++ {
			s.hold(kept[i])
		}
	}
	s.live, s.last = true, after
	s.known = max(s.known, known)
}

// cut says: pushes until begin do not count.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = false
}

// knows says: the process has had entries up to seq.
func (s *stream) knows(seq uint64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq >= s.known {
		s.known, s.closed = seq, closed
	}
}

// watch says whether there are viewers.
func (s *stream) watch(watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched = watched; !watched {
		s.live, s.items, s.bytes = false, nil, 0
	}
}

// push takes an item from the connection, and reports whether to wake the actor.
func (s *stream) push(i item) (wake bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.end() >= s.known {
		s.known, s.closed = i.end(), i.entry.Kind == outlog.Closed
	}
	if i.entry.Kind == outlog.Evicted {
		s.evicted = i.entry.Restart.Reason
	}
	if !s.watched || !s.live || i.end() <= s.last {
		return false
	}
	if i.first() != s.last+1 { // viewers read the missing entries
		s.items, s.bytes = nil, 0
	}
	s.last = i.end()
	s.hold(i)
	for len(s.items) > 1 && s.bytes > s.most {
		s.drop()
	}
	wake, s.woken = !s.woken, true
	return wake
}

func (s *stream) hold(i item) {
	s.items = append(s.items, i)
	s.bytes += itemBytes + len(i.entry.Data)
}

// drop forgets the oldest item.
func (s *stream) drop() {
	s.bytes -= itemBytes + len(s.items[0].entry.Data)
	s.items[0] = item{}
	s.items = s.items[1:]
}

// looks says: the actor looks now, and the next push wakes the actor again.
func (s *stream) looks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = false
}

// take returns the next entries after a seq: a gap, and then entries with up to most bytes of output, but at least an entry or a gap. behind: the
// stream has nothing, and the process has more.
func (s *stream) take(after uint64, most int) (gap outlog.Gap, entries []outlog.Entry, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) == 0 || s.items[0].first() > after+1 || s.last <= after {
		return gap, nil, s.known > after
	}
	return collect(s.items, after, most)
}

// comes reports whether the entry after a seq will be pushed, now or when the connection is back.
func (s *stream) comes(after uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.live || s.last <= after
}

// rest is take for a stream without further pushes. If the process is gone, a gap stands for missing entries.
func (s *stream) rest(after uint64, most int, gone bool) (gap outlog.Gap, entries []outlog.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held := len(s.items) > 0 && s.last > after; {
	case held && s.items[0].first() <= after+1:
		gap, entries, _ = collect(s.items, after, most)
	case !gone || s.known <= after:
	case held:
		gap = outlog.Gap{From: after + 1, To: s.items[0].first() - 1}
	case !s.closed:
		gap = outlog.Gap{From: after + 1, To: s.known}
	default:
		if s.known > after+1 {
			gap = outlog.Gap{From: after + 1, To: s.known - 1}
		}
		entries = []outlog.Entry{{Seq: s.known, Kind: outlog.Closed}}
	}
	return gap, entries
}

// collect is take of items without a hole after seq after.
func collect(items []item, after uint64, most int) (gap outlog.Gap, entries []outlog.Entry, behind bool) {
	n := 0
	items = items[sort.Search(len(items), func(i int) bool { return items[i].end() > after }):]
	for i := range items {
		it := &items[i]
		switch {
		case it.gap.From != 0 && (gap.From != 0 || len(entries) > 0):
			return gap, entries, false
		case it.gap.From != 0:
			gap = it.gap
			gap.From = max(gap.From, after+1)
		case n+len(it.entry.Data) > most && len(entries) > 0:
			return gap, entries, false
		default:
			n += len(it.entry.Data)
			entries = append(entries, it.entry)
		}
	}
	return gap, entries, false
}

// trim drops the items up to a seq: all viewers have these.
func (s *stream) trim(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.items) > 0 && s.items[0].end() <= seq {
		s.drop()
	}
}

// from returns after which seq the stream begins again for a viewer at a seq: items in the stream need not come again.
func (s *stream) from(at uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) == 0 || s.items[0].first() > at+1 {
		return at
	}
	return s.last
}

// end returns the last known seq.
func (s *stream) end() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// ack records an Ack of all entries up to a seq, and returns the highest so far.
func (s *stream) ack(to uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = max(s.acked, to)
	return s.acked
}

// removed describes the process after the node has forgotten the process.
func (s *stream) removed(id string) message.ProcessRemoved {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := message.ProcessRemoved{ID: id, Last: s.known, Acked: s.acked, Closed: s.closed}
	if !s.closed || s.evicted != "" {
		m.Reason = cmp.Or(s.evicted, "the node that had the process does not have it any more")
	}
	return m
}
