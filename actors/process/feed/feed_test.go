package feed

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

// model knows the output of a process and the deliveries to each viewer, and checks a Feed.
type model struct {
	*rapid.T
	feed    Feed[string, string]
	now     time.Time
	file    *spool.File
	written []byte
	ends    []int           // by seq: how much was written up to there
	disk    []int64         // by seq: how much of it is on disk
	had     map[uint64]bool // acknowledged by the owner
	live    uint64          // where the owner's live output begins
	sorted  uint64          // before live: the owner has output in order up to here, and gets only so much of its live output
	viewers map[string]*watcher
	owner   string // "": none
	acked   uint64 // of the feed, before the last action
	first   uint64 // of the log, when it began to await a viewer
}

type watcher struct {
	owner, explicit bool
	holdFrom        uint64 // with Hold: the viewer misses no entry from here on; 0: without
	seq             uint64 // the viewer has every entry up to seq, or a gap
	acked           uint64 // of its live output
	pull            int
}

func newModel(t *rapid.T, dir string) *model {
	m := &model{
		T: t, now: time.Unix(1e9, 0), file: spool.NewDisk(dir, 1<<40, nil).New(1 << 40), ends: []int{0}, disk: []int64{0}, had: make(map[uint64]bool), viewers: make(map[string]*watcher),
		feed: Feed[string, string]{
			Retention: rapid.Int64Range(0, 100<<10).Draw(t, "retention"),
			Evicts:    rapid.IntRange(0, 3).Draw(t, "evicts") == 0,
			Ephemeral: rapid.IntRange(0, 7).Draw(t, "ephemeral") == 0,
		},
	}
	if err := m.file.Open(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *model) some(what string) (string, *watcher) {
	if len(m.viewers) == 0 {
		m.Skip("no viewer")
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(m.viewers))).Draw(m.T, what)
	return key, m.viewers[key]
}

func (m *model) write(*rapid.T) {
	size := rapid.SampledFrom([]int{1, 10, 5 << 10, 40 << 10}).Draw(m.T, "size")
	spools := rapid.Bool().Draw(m.T, "spools")
	for i := range rapid.IntRange(1, 60).Draw(m.T, "entries") {
		if i == 6 && size > 10 {
			break
		}
		data := make([]byte, size)
		for j := range data {
			data[j] = byte((len(m.written) + j) * 251 >> 3)
		}
		m.written = append(m.written, data...)
		stream := protocol.Stream(1 + i%2)
		if spools {
			m.file.Reserve(int64(size))
			at, err := m.file.Write(data)
			if err != nil {
				m.Fatal(err)
			}
			m.feed.Log.AppendSpooled(stream, m.file, at, size)
		} else {
			m.feed.Log.Append(stream, data, nil)
		}
		m.logged()
	}
}

func (m *model) mark(*rapid.T) {
	m.feed.Log.AppendReady(1)
	m.logged()
}

func (m *model) logged() {
	last := m.feed.Log.Last()
	for uint64(len(m.ends)) <= last {
		m.ends, m.disk = append(m.ends, 0), append(m.disk, 0)
	}
	m.ends[last] = len(m.written)
	m.disk[last] = m.disk[m.feed.Log.First()-1] + m.feed.Log.Spooled()
}

// holds returns how many bytes the log holds after a seq, in memory and on disk.
func (m *model) holds(after uint64) int64 {
	after = min(max(after, m.feed.Log.First()-1), m.feed.Log.Last())
	return m.feed.Log.Cost(after) + m.disk[m.feed.Log.Last()] - m.disk[after]
}

func (m *model) trim(*rapid.T) {
	most := rapid.SampledFrom([]int64{math.MaxInt64, 10 << 10}).Draw(m.T, "most")
	before := m.holds(0)
	m.feed.Trim(most)
	least := min(m.feed.Retention, most)
	if m.feed.Ephemeral {
		least, most = 0, 0
	}
	if on := m.disk[m.feed.Log.Last()] - m.disk[m.feed.Log.First()-1]; on != m.feed.Log.Spooled() {
		m.Errorf("%d bytes are on disk, want %d", m.feed.Log.Spooled(), on)
	}
	retained, pinned := m.holds(0), m.holds(m.feed.pin())
	if m.feed.Evicts && !m.feed.Holding() && pinned != 0 {
		m.Errorf("%d bytes are pinned in a log that evicts, and nobody holds", pinned)
	}
	if m.sorted < m.live {
		pinned = max(pinned, m.holds(m.sorted))
	}
	if most == math.MaxInt64 && retained < min(before, least) {
		m.Errorf("%d bytes are kept of %d, want the newest %d", retained, before, least)
	}
	if rest := m.holds(m.feed.Log.First()); retained > pinned && (retained > most || rest >= least && retained > 0) {
		m.Errorf("%d bytes are kept, %d of them for the owner, and without the oldest %d: want at least %d, at most %d", retained, pinned, rest, least, most)
	}
}

func (m *model) tick(*rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, 30 * time.Second}).Draw(m.T, "time"))
}

// got marks the entries of an acknowledgement.
func (m *model) got(from, to uint64) {
	for seq := from + 1; seq <= to; seq++ {
		m.had[seq] = true
	}
}

// limited reports whether a viewer may get only so much.
func (m *model) limited(w *watcher) bool { return w.owner && m.sorted < m.live }

func (m *model) subscribe(*rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(m.T, "who")
	s := Subscription{
		After:    rapid.Uint64Range(0, m.feed.Log.Last()).Draw(m.T, "after"),
		Now:      rapid.Bool().Draw(m.T, "now"),
		Owner:    rapid.Bool().Draw(m.T, "owner"),
		Hold:     rapid.IntRange(0, 3).Draw(m.T, "hold") == 0,
		Explicit: rapid.Bool().Draw(m.T, "explicit"),
	}
	if s.Owner && m.owner != "" && m.owner != key {
		m.Skip("there is an owner") // two at once are tested apart
	}
	m.join(key, s)
}

func (m *model) join(key string, s Subscription) {
	v := m.feed.Subscribe(m.now, key, key, s)
	after := s.After
	if s.Now {
		after = m.feed.Log.Last()
	}
	if v.Seq() != after {
		m.Fatalf("a viewer after %d begins after %d", after, v.Seq())
	}
	old := m.viewers[key]
	m.viewers[key] = &watcher{owner: s.Owner, explicit: s.Explicit, seq: after, acked: after}
	if s.Hold {
		m.viewers[key].holdFrom = m.feed.Log.First()
	}
	switch {
	case !s.Owner && m.owner == key:
		// The owner has no cursor any more, and may acknowledge as before.
	case !s.Owner:
	case s.Resumed:
		m.viewers[key].acked = old.acked
		m.owner = key
	default:
		m.owner, m.live, m.sorted = key, after, after
		if !s.Explicit && !s.Now {
			m.got(0, after)
		}
		if !s.Explicit && s.Now && !m.feed.Evicts {
			m.sorted = min(m.feed.owner.acked, after)
		}
	}
}

func (m *model) pull(*rapid.T) {
	key, w := m.some("who")
	w.pull = rapid.SampledFrom([]int{1, 1000, 128 << 10}).Draw(m.T, "pull")
	m.feed.Pull(key, w.pull)
}

func (m *model) deliver(*rapid.T) {
	key, _ := m.some("who")
	if !m.next(key, rapid.IntRange(0, 9).Draw(m.T, "fails") == 0) {
		m.failed()
	}
}

// next gives a viewer its delivery, if there is one; false: the actor failed on the way.
func (m *model) next(key string, fails bool) bool {
	w, v := m.viewers[key], m.feed.viewers[key]
	limited := m.limited(w)
	d, ok := m.feed.Next(m.now, v)
	switch {
	case !ok:
		if w.pull > 0 && w.seq < m.feed.Log.Last() {
			m.Fatalf("%s is after %d of %d, waits for %d bytes, and gets nothing", key, w.seq, m.feed.Log.Last(), w.pull)
		}
		return true
	case w.pull == 0:
		m.Fatalf("%s gets what it has not asked for", key)
	case fails && w.seq%2 == 0:
		return false // before sending
	}
	if d.Again {
		if !limited || w.seq < m.live+aheadEvents && m.ends[w.seq]-m.ends[m.live] < aheadBytes {
			m.Fatalf("%s begins again after seq %d, and live output after %d: limited %v", key, w.seq, m.live, limited)
		}
		w.seq, limited = m.sorted, false
	}
	if d.Gap.From != 0 {
		m.gap(w, d.Gap)
	}
	bytes := 0
	for _, e := range d.Entries {
		if e.Seq != w.seq+1 {
			m.Fatalf("%s gets seq %d after %d", key, e.Seq, w.seq)
		}
		if limited && (e.Seq > m.live+aheadEvents || m.ends[w.seq]-m.ends[m.live] >= aheadBytes) {
			m.Errorf("the owner gets seq %d, %d bytes ahead, and has not read the output up to %d", e.Seq, m.ends[w.seq]-m.ends[m.live], m.live)
		}
		if bytes += e.Len(); bytes > w.pull && bytes > e.Len() && e.Len() > 0 { // the first comes whatever its size
			m.Errorf("%s gets %d bytes in %d entries, and asked for %d", key, bytes, len(d.Entries), w.pull)
		}
		m.same(e)
		w.seq = e.Seq
	}
	if fails {
		return false // between sending and Sent
	}
	m.feed.Sent(m.now, v, &d)
	if d.Again {
		m.sorted = m.live
	}
	if w.pull = 0; v.Seq() != w.seq {
		m.Errorf("the cursor of %s is after %d, it has got %d", key, v.Seq(), w.seq)
	}
	return true
}

func (m *model) gap(w *watcher, g outlog.Gap) {
	if g.From != w.seq+1 || g.To < g.From || g.To >= m.feed.Log.First() {
		m.Fatalf("a gap from %d to %d after %d, the log has %d to %d", g.From, g.To, w.seq, m.feed.Log.First(), m.feed.Log.Last())
	}
	if n := m.ends[g.To] - m.ends[w.seq]; g.Bytes != 0 && g.Bytes != uint64(n) {
		m.Errorf("a gap of %d bytes, missing are %d", g.Bytes, n)
	}
	if w.holdFrom > 0 && g.To >= w.holdFrom {
		m.Fatalf("a viewer with Hold since %d misses %d to %d", w.holdFrom, g.From, g.To)
	}
	for seq := g.From; w.owner && !m.feed.Evicts && seq <= g.To; seq++ {
		if !m.had[seq] {
			m.Fatalf("the owner misses seq %d, which it never had", seq)
		}
	}
	w.seq = g.To
}

// same checks that an entry has the written bytes.
func (m *model) same(e outlog.Entry) {
	want, data := m.written[m.ends[e.Seq-1]:m.ends[e.Seq]], e.Data
	if e.Spooled != nil {
		data, _ = e.Spooled.Read(nil)
	}
	if !bytes.Equal(data, want) {
		m.Fatalf("seq %d has %d bytes that are not the %d that were written", e.Seq, len(data), len(want))
	}
	e.Release()
}

// failed has all viewers resubscribe after the last entry they got.
func (m *model) failed() {
	m.feed.Each(func(v *Viewer[string]) {
		if w := m.viewers[v.To]; v.Seq() > w.seq && !m.limited(w) { // else the first output of the new beginning was sent
			m.Errorf("%s is to go on after %d, and has got %d", v.To, v.Seq(), w.seq)
		}
	})
	m.feed.Dismiss()
	for _, key := range slices.Sorted(maps.Keys(m.viewers)) {
		w := m.viewers[key]
		m.join(key, Subscription{After: w.seq, Owner: w.owner, Hold: w.holdFrom > 0, Explicit: w.explicit, Resumed: true})
	}
}

func (m *model) ack(*rapid.T) {
	key, w := m.some("who")
	to := rapid.Uint64Range(w.acked, max(w.acked, w.seq)).Draw(m.T, "to")
	counts := w.owner || m.owner == key || w.holdFrom > 0
	if m.feed.Ack(key, w.acked, to) != counts {
		m.Fatalf("an ack of %s counts: %t", key, !counts)
	}
	if counts && (w.owner || m.owner == key) {
		m.got(w.acked, to)
	}
	if counts {
		w.acked = to
	}
}

func (m *model) read(*rapid.T) {
	key, w := m.some("who")
	after := rapid.Uint64Range(0, m.feed.Log.Last()).Draw(m.T, "after")
	counts := w.owner && !w.explicit
	if m.feed.AckRead(key, after) != counts {
		m.Fatalf("a read of %s acknowledges: %t", key, !counts)
	}
	if counts {
		m.got(0, after)
		m.sorted = max(m.sorted, after)
	}
	limit := rapid.Uint64Range(1, 100<<10).Draw(m.T, "limit")
	r := m.feed.Read(after, &limit, "")
	seq := max(r.From, m.feed.Log.First()-1) // FirstSeq tells of the dropped entries
	for _, e := range r.Entries {
		if seq++; e.Seq != seq {
			m.Fatalf("a read after %d has seq %d, want %d", after, e.Seq, seq)
		}
		m.same(e)
	}
	if r.To > seq {
		m.Fatalf("a read after %d accounts for up to %d, and has entries up to %d", after, r.To, seq)
	}
	if w.owner && rapid.Bool().Draw(m.T, "acknowledged") {
		m.feed.Ack(key, r.From, r.To)
		m.got(r.From, r.To)
	}
}

func (m *model) remove(*rapid.T) {
	key, _ := m.some("who")
	m.feed.Remove(key)
	delete(m.viewers, key)
	if m.owner == key {
		m.owner, m.sorted = "", m.live
	}
}

// await has the log await a viewer with Hold, or no longer.
func (m *model) await(*rapid.T) {
	if m.feed.until = (time.Time{}); rapid.Bool().Draw(m.T, "awaits") {
		m.feed.Await(start, time.Hour)
	}
	m.first = m.feed.Log.First()
}

// check tests the invariants.
func (m *model) check(*rapid.T) {
	if m.feed.Awaits() && m.feed.Log.First() > m.first {
		m.Fatalf("the log awaits a viewer, and has dropped the entries from %d to %d", m.first, m.feed.Log.First()-1)
	}
	if m.feed.owner.acked < m.acked {
		m.Fatalf("the owner had all up to %d, and now only up to %d", m.acked, m.feed.owner.acked)
	}
	m.acked = m.feed.owner.acked
	for seq := uint64(1); seq < m.feed.Log.First() && !m.feed.Evicts; seq++ {
		if !m.had[seq] {
			m.Fatalf("seq %d was dropped, and the owner never had it", seq)
		}
	}
	if m.sorted < min(m.live, m.feed.Log.First()-1) {
		m.Fatalf("the log has nothing before %d, and the live output may begin again after %d", m.feed.Log.First(), m.sorted)
	}
	for key, v := range m.feed.viewers {
		if w := m.viewers[key]; w.owner && !m.feed.Evicts && m.feed.pin() > v.Seq() {
			m.Fatalf("the log keeps what is after %d, the owner has yet to be sent what is after %d", m.feed.pin(), v.Seq())
		}
	}
	if m.feed.Attached() != (m.owner != "") {
		m.Fatalf("an owner is attached: %t", m.feed.Attached())
	}
}

// After any events in any order, each viewer has each entry once, in order and as written, or a
// gap in its place. The owner has no gap.
func TestEachEntryOnce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, dir)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "write": m.write, "mark": m.mark, "trim": m.trim, "tick": m.tick, "subscribe": m.subscribe, "pull": m.pull,
			"deliver": m.deliver, "ack": m.ack, "read": m.read, "remove": m.remove, "await": m.await,
		})
		for key, w := range m.viewers {
			for w.seq < m.feed.Log.Last() {
				w.pull = 64 << 10
				m.feed.Pull(key, w.pull)
				m.next(key, false)
			}
		}
		if m.feed.Watched() {
			t.Error("a viewer has all, and is yet to be sent the last entry")
		}
	})
}
