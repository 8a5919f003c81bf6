// Package outlog is the log of the output and events of a process. Entries are numbered from 1 without a hole,
// and cursors read them. The package is a plain data structure: no goroutine, no lock, no clock. A single
// goroutine at a time may use a Log.
package outlog

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An Entry is a numbered fact. All readers share an Entry. Once read, an Entry never changes.
type Entry struct {
	Seq     uint64
	AtMs    int64 // when the entry was added, since the Unix epoch: for Output, when its first byte came
	Kind    Kind
	Stream  protocol.Stream      // of Output
	Denied  bool                 // of Exited: a sandbox has probably denied something to the run
	Data    []byte               // of Output: empty only if Spooled is set, for AppendLost, and after Reopen
	Slab    slab.Memory          // the memory of Data
	Spooled *spool.Extent        // of Output that was read from a log: its place on disk; nil: in memory
	Status  *protocol.ExitStatus // of Exited
	Restart *Restart             // of Restarted; of Ready its Run, of Evicted its Reason
}

// Len is the length of an Output, in bytes.
func (e *Entry) Len() int { return len(e.Data) + e.Spooled.Len() }

// Release says that a reader looks at e no more.
func (e *Entry) Release() {
	slab.Release(e.Slab)
	e.Spooled.Release()
}

// Restart describes the change between two runs.
type Restart struct {
	Run       int // the number of the next run
	Reason    string
	Delay     time.Duration
	StdinLost int64 // bytes
}

// Kind says what an Entry is.
type Kind uint8

const (
	Output    Kind = iota + 1
	Exited         // the run has ended; descendants may still write
	Restarted      // another run follows
	Ready          // the run is ready
	Evicted        // no run follows, although the policy asks for another run
	Closed         // the last entry, until Reopen
)

var kindNames = [...]string{Output: "output", Exited: "exited", Restarted: "restarted", Ready: "ready", Evicted: "evicted", Closed: "closed"}

// String returns the name of k, as in the notification of the wire: "output" for process/output.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

const (
	// entryCost is the cost of an entry without its data, in bytes: the entry, and the rounding of the array and
	// the allocator. If this cost were not counted, a child that writes single bytes would hold a hundred times
	// its retention.
	entryCost = 128
	// growMax is the largest length, in bytes, to which later output extends a chunk in memory.
	growMax = 32 << 10
	// growMs is how long an entry may be extended, so that its time tells when its output came. On disk this time doubles with each
	// coarser bytes in the rests of the stretches. Otherwise a program that writes a line now and then would use up the memory for places
	// before the disk.
	growMs  = 100
	coarser = 64 << 10
	// spooledMax is the largest length, in bytes, to which later output extends a chunk on disk. spooledCost is
	// the memory of a stretch, in bytes, in addition to entryCost and to its rest.
	spooledMax  = 128 << 10
	spooledCost = 128
	// restMax bounds the rest of a stretch, in bytes: whoever looks for an entry in the rest decodes all before.
	restMax = 1 << 10
)

// An item is an entry, or several entries on disk: the Entry is the first of them, and the stretch has the others.
type item struct {
	Entry
	on    *stretch // nil: in memory
	cost  int64    // of all entries since the log began, those of this item included
	bytes uint64   // of output since the log began, that of this item included
}

// A stretch is a piece of a file that has entries one after the other. So a program that writes small pieces to stdout and stderr in
// turn costs 2 to 4 bytes of memory for each.
type stretch struct {
	file  *spool.File
	at    int64 // of the first entry
	n     int   // the length of the first entry
	end   int64 // of the last entry
	endMs int64 // when the last entry was added
	// rest has the entries after the first. Each is coded as two numbers: its length and stream, and how many milliseconds after the
	// entry before it was added. A clock that was set back makes a large number, and the sum is right again.
	rest []byte
}

const streamBits = 2

// add adds an entry to the rest, and returns by how much the rest grows. added is false if the entry does not fit.
func (s *stretch) add(e *Entry, on *stretch) (more int, added bool) {
	if on.file != s.file || on.at != s.end || len(s.rest) > restMax-2*binary.MaxVarintLen64 {
		return 0, false
	}
	had := len(s.rest)
	s.rest = binary.AppendUvarint(s.rest, uint64(on.n)<<streamBits|uint64(e.Stream))
	s.rest = binary.AppendUvarint(s.rest, uint64(e.AtMs-s.endMs))
	s.end, s.endMs = on.end, e.AtMs
	return len(s.rest) - had, true
}

// next takes the next entry out of the rest: from now on e and s begin with it. There may be none.
func (s *stretch) next(e *Entry) (ok bool) {
	if len(s.rest) == 0 {
		return false
	}
	length, k := binary.Uvarint(s.rest)
	ms, j := binary.Uvarint(s.rest[k:])
	s.at, s.n, s.rest = s.at+int64(s.n), int(length>>streamBits), s.rest[k+j:]
	e.Seq++
	e.AtMs += int64(ms)
	e.Stream = protocol.Stream(length & (1<<streamBits - 1))
	return true
}

// Log holds the entries from First to Last. The zero Log is empty and ready.
type Log struct {
	// NowMs is the time of the entries added next, in milliseconds since the Unix epoch. The owner sets NowMs.
	NowMs int64
	// MaxChunk bounds the output of an entry to which later output is added, in bytes; 0: growMax and spooledMax alone bound it.
	// Fixed before the first entry.
	MaxChunk int

	items   []item        // in the order of their seqs; the last has a single entry
	first   uint64        // seq of items[0], less 1: the number of dropped entries
	seen    uint64        // highest seq read or passed by a cursor: only later output may still grow
	spooled int64         // bytes on disk
	coded   int64         // bytes in the rests of all stretches
	closed  bool          // Closed was added, and no Reopen followed
	newest  [Closed]int32 // of each kind of event but Closed: 1 and the run of the newest; 0: there was none
	// Totals of all dropped entries.
	droppedCost  int64
	droppedBytes uint64
}

// First returns the oldest seq in the log, or Last+1 if the log holds no entry.
func (l *Log) First() uint64 { return l.first + 1 }

// Last returns the newest seq, or 0 before the first entry.
func (l *Log) Last() uint64 {
	if n := len(l.items); n > 0 {
		return l.items[n-1].Seq
	}
	return l.first
}

// Written returns how many bytes of output the log has got, the dropped ones included.
func (l *Log) Written() uint64 {
	_, bytes := l.before(len(l.items))
	return bytes
}

// Append adds output. From now on the log owns data, and holds slab, the memory of data; nil means no slab.
// Output unread so far is extended instead. So a child that writes byte by byte does not cost an entry, and a
// message to each viewer, for each byte.
func (l *Log) Append(s protocol.Stream, data []byte, lent slab.Memory) {
	if n := len(l.items); n > 0 {
		it := &l.items[n-1]
		if it.Kind == Output && it.on == nil && it.Stream == s && it.Seq > l.seen && l.young(it, growMs) && len(it.Data)+len(data) <= l.atMost(growMax) {
			it.Data = append(it.Data, data...)
			it.cost += int64(len(data))
			it.bytes += uint64(len(data))
			return
		}
	}
	slab.Hold(lent)
	l.push(Entry{Kind: Output, Stream: s, Data: data, Slab: lent})
}

// A Restored is an entry of a log of an earlier server.
type Restored struct {
	Entry
	File  *spool.File // has the output; nil: Data is the output
	Piece spool.Piece // in File
}

// Restore has an empty log hold the entries from the seq first to the seq last. Entries has them sorted, without output that nobody can
// read. written is as Written. The log takes over a hold of the memory of each entry. Nothing grows that was in the log.
func (l *Log) Restore(first, last, written uint64, entries []Restored) {
	l.first = first - 1
	l.items = slices.Grow(l.items, len(entries))
	for seq := first; seq <= last; seq++ {
		e := Restored{Entry: Entry{AtMs: l.NowMs, Kind: Output, Stream: protocol.Stdout}}
		if len(entries) > 0 && entries[0].Seq == seq {
			e, entries = entries[0], entries[1:]
		}
		l.NowMs = e.AtMs
		switch e.Kind {
		case Output:
		case Closed:
			l.closed = true
		default:
			l.newest[e.Kind] = int32(e.run()) + 1
		}
		l.push(e.Entry)
		if e.File != nil {
			l.spool(e.File, e.Piece)
		}
	}
	_, live := l.before(len(l.items))
	l.droppedBytes = written - min(written, live)
	for i := range l.items {
		l.items[i].bytes += l.droppedBytes
	}
	l.seen = last // some may have read the newest
}

// atMost returns n, or MaxChunk if that is less.
func (l *Log) atMost(n int) int {
	if l.MaxChunk > 0 {
		return min(n, l.MaxChunk)
	}
	return n
}

// young reports whether it began less than ms ago. A clock that was set back makes it old.
func (l *Log) young(it *item, ms uint64) bool { return uint64(l.NowMs-it.AtMs) < ms }

// AppendSpooled adds n bytes of output at a place of a file on disk.
func (l *Log) AppendSpooled(s protocol.Stream, f *spool.File, at int64, n int) {
	if k := len(l.items); k > 0 {
		it := &l.items[k-1]
		if it.on != nil && it.Stream == s && it.Seq > l.seen && l.young(it, growMs<<min(l.coded/coarser, 32)) && it.on.n+n <= l.atMost(spooledMax) && it.on.file == f && it.on.end == at {
			it.on.n += n
			it.on.end += int64(n)
			it.bytes += uint64(n)
			l.spooled += int64(n)
			return
		}
	}
	l.push(Entry{Kind: Output, Stream: s})
	l.spool(f, spool.Piece{At: at, N: int64(n)})
}

// spool says that the output of the newest entry is on disk.
func (l *Log) spool(f *spool.File, p spool.Piece) {
	it := &l.items[len(l.items)-1]
	it.on = &stretch{file: f, at: p.At, n: int(p.N), end: p.At + p.N, endMs: it.AtMs}
	it.cost += spooledCost
	it.bytes += uint64(p.N)
	l.spooled += p.N
}

// AppendLost adds n bytes of output that nobody can read. Only ReadEvents tells of them, as a gap.
func (l *Log) AppendLost(s protocol.Stream, n int) {
	l.push(Entry{Kind: Output, Stream: s})
	l.items[len(l.items)-1].bytes += uint64(n)
}

// Spooled returns how many bytes of the log are on disk.
func (l *Log) Spooled() int64 { return l.spooled }

// AppendExited adds the end of a run. denied is Entry.Denied. As all that append an event, AppendExited reports whether it has
// added an entry: the newest event of its kind is not added again, whatever came in between.
func (l *Log) AppendExited(st protocol.ExitStatus, denied bool) bool {
	return l.pushEvent(Entry{Kind: Exited, Status: &st, Denied: denied})
}

// AppendRestarted adds the beginning of a run other than the first.
func (l *Log) AppendRestarted(r Restart) bool {
	return l.pushEvent(Entry{Kind: Restarted, Restart: &r})
}

// AppendReady adds the fact: a run is ready.
func (l *Log) AppendReady(run int) bool {
	return l.pushEvent(Entry{Kind: Ready, Restart: &Restart{Run: run}})
}

// AppendEvicted adds the fact: no other run follows.
func (l *Log) AppendEvicted(reason string) bool {
	return l.pushEvent(Entry{Kind: Evicted, Restart: &Restart{Reason: reason}})
}

// AppendClosed adds the last entry, unless the log is closed.
func (l *Log) AppendClosed() bool {
	if l.closed {
		return false
	}
	l.closed = true
	l.push(Entry{Kind: Closed})
	return true
}

// pushEvent adds an event, unless the newest of its kind is about the same run.
func (l *Log) pushEvent(e Entry) bool {
	run := int32(e.run()) + 1
	if l.newest[e.Kind] == run {
		return false
	}
	l.newest[e.Kind] = run
	l.push(e)
	return true
}

// run returns the run of an event; 0 for the end of all runs.
func (e *Entry) run() int {
	if e.Kind == Exited {
		return e.Status.Run
	}
	return e.Restart.Run
}

// Reopen lets entries follow Closed. In the log an empty output takes the place of Closed, so that later readers
// find one log without an end in its midst. A log that is not closed stays as it is.
func (l *Log) Reopen() {
	if !l.closed {
		return
	}
	l.closed, l.newest[Evicted] = false, 0
	if n := len(l.items); n > 0 {
		it := &l.items[n-1]
		it.Kind, it.Stream, it.Data = Output, protocol.Stdout, []byte{}
		l.seen = max(l.seen, it.Seq) // the output does not grow: some may have read Closed
	}
}

func (l *Log) push(e Entry) {
	e.Seq, e.AtMs = l.Last()+1, l.NowMs
	l.fold()
	cost, bytes := l.before(len(l.items))
	l.items = append(l.items, item{Entry: e, cost: cost + entryCost + int64(len(e.Data)), bytes: bytes + uint64(len(e.Data))})
}

// fold adds the newest entry to the stretch before it, if both lie next to each other on disk. The newest entry grows no more.
func (l *Log) fold() {
	i := len(l.items) - 1
	if i < 1 || l.items[i].on == nil || l.items[i-1].on == nil {
		return
	}
	it, last := &l.items[i-1], &l.items[i]
	if more, ok := it.on.add(&last.Entry, last.on); ok {
		l.coded += int64(more)
		it.cost += int64(more)
		it.bytes = last.bytes
		*last = item{}
		l.items = l.items[:i]
	}
}

// index returns the item that has seq, which is in the log or follows Last.
func (l *Log) index(seq uint64) int {
	if len(l.items) == 0 {
		return 0
	}
	i := min(int(seq-l.items[0].Seq), len(l.items)) // if each item before has a single entry
	if i < len(l.items) && l.items[i].Seq == seq {
		return i
	}
	if i = sort.Search(i, func(i int) bool { return l.items[i].Seq > seq }); seq > l.Last() {
		return i
	}
	return i - 1
}

// before returns the cost and the output bytes of all entries before an item. Dropped entries count as a whole.
func (l *Log) before(i int) (cost int64, bytes uint64) {
	if i == 0 {
		return l.droppedCost, l.droppedBytes
	}
	return l.items[i-1].cost, l.items[i-1].bytes
}

// upTo returns the cost and the output bytes of all entries up to seq, seq included. Dropped entries count as a
// whole.
func (l *Log) upTo(seq uint64) (cost int64, bytes uint64) {
	i := len(l.items) - 1
	if seq <= l.first || i < 0 {
		return l.droppedCost, l.droppedBytes
	}
	if seq < l.items[i].Seq {
		i = l.index(seq)
	}
	it := &l.items[i]
	if it.on == nil || len(it.on.rest) == 0 {
		return it.cost, it.bytes
	}
	// Whoever drops the first entry of a stretch frees the code of the second, which becomes the first. So an entry counts as much as the code
	// of its successor, and the last entry counts as the rest of the stretch.
	cost, bytes = l.before(i)
	for e, on := it.Entry, *it.on; e.Seq <= seq; {
		bytes += uint64(on.n)
		if !on.next(&e) {
			return it.cost, it.bytes
		}
		if e.Seq > seq {
			cost += int64(len(it.on.rest) - len(on.rest))
		}
	}
	return cost, bytes
}

// after visits the entries after seq, which is not dropped. on is the place of output on disk, or nil.
func (l *Log) after(seq uint64) iter.Seq2[*Entry, *stretch] {
	return func(visit func(*Entry, *stretch) bool) {
		for i := l.index(seq + 1); i < len(l.items); i++ {
			it := &l.items[i]
			if it.on == nil {
				if !visit(&it.Entry, nil) {
					return
				}
				continue
			}
			e, on := it.Entry, *it.on
			for more := true; more; more = on.next(&e) {
				if e.Seq > seq && !visit(&e, &on) {
					return
				}
			}
		}
	}
}

// Cost returns the cost of the entries after seq, in bytes: their data, and a fixed overhead for each. Cost(0)
// is the cost of the whole log.
func (l *Log) Cost(after uint64) int64 {
	cost, _ := l.After(after)
	return cost
}

// Bytes returns how many bytes of output the entries after seq have.
func (l *Log) Bytes(after uint64) uint64 {
	_, bytes := l.After(after)
	return bytes
}

// After returns the cost of the entries after seq, as Cost does, and how many bytes of output they have.
func (l *Log) After(seq uint64) (cost int64, bytes uint64) {
	all, written := l.before(len(l.items))
	had, read := l.upTo(seq)
	return all - had, written - read
}

// Dropped returns how many bytes of output were dropped since the log began.
func (l *Log) Dropped() uint64 { return l.droppedBytes }

// Drop drops the oldest entries, but no entry after keep: while the entries after them have at least least bytes, or
// while the log has more than most. Bytes on disk count, too.
func (l *Log) Drop(least, most int64, keep uint64) {
	var file *spool.File
	var at, end int64 // dropped and not freed yet: half a million entries may go at once
	for len(l.items) > 0 && l.items[0].Seq <= keep {
		it := &l.items[0]
		cost, bytes, disk := it.cost, it.bytes, int64(0)
		if it.on != nil {
			cost, bytes = l.upTo(it.Seq)
			disk = int64(it.on.n)
		}
		all := l.Cost(0) + l.spooled
		if rest := all - disk - (cost - l.droppedCost); rest < least && all <= most {
			break
		}
		l.droppedCost, l.droppedBytes = cost, bytes
		l.spooled -= disk
		l.first++
		slab.Release(it.Slab)
		if on := it.on; on != nil {
			if on.file != file || on.at != end {
				file.Free(at, end-at)
				file, at = on.file, on.at
			}
			end = on.at + int64(on.n)
			l.coded -= int64(len(on.rest))
			if on.next(&it.Entry) {
				l.coded += int64(len(on.rest))
				continue
			}
		}
		*it = item{} // frees the data, even while the array stays
		l.items = l.items[1:]
	}
	file.Free(at, end-at)
	if len(l.items) == 0 {
		l.items = nil
	}
}

// Close drops all entries. After Close nobody uses the log.
func (l *Log) Close() { l.Drop(0, 0, l.Last()) }

// Events returns the entries after seq that are no output, most at most, and the seq up to which they are all.
func (l *Log) Events(after uint64, most int) (events []Entry, to uint64) {
	for i := l.index(max(after, l.first) + 1); i < len(l.items); i++ {
		e := &l.items[i].Entry
		if e.Kind == Output {
			continue
		}
		if events = append(events, *e); len(events) == most {
			return events, e.Seq
		}
	}
	return events, l.Last()
}

// A Cursor is a place in a log: the reader has read all entries up to Seq, Seq included.
type Cursor struct {
	Seq   uint64
	bytes uint64 // of output up to Seq; unknown if Seq came from outside and is dropped
}

const unknown = math.MaxUint64

// At returns a cursor after seq, or after Last if seq is beyond Last. Output before the cursor grows no more,
// because the cursor would miss the growth.
func (l *Log) At(seq uint64) Cursor {
	seq = min(seq, l.Last())
	l.seen = max(l.seen, seq)
	_, bytes := l.upTo(seq)
	switch {
	case seq == 0:
		bytes = 0
	case seq < l.first:
		bytes = unknown
	}
	return Cursor{seq, bytes}
}

// A Gap is the range of entries that the log dropped before a cursor read them.
type Gap struct {
	From, To uint64 // From is 0 when there is no gap
	Bytes    uint64 // of output in the gap; 0: unknown
}

// Read appends the entries after the cursor to dst, and moves the cursor after them. Read returns the first
// output whatever its size, and then as much as fits into limit bytes. If the next entries are dropped, the
// cursor first steps over them, and gap gives their range. The caller becomes a holder of the entries.
func (l *Log) Read(c *Cursor, limit int, dst []Entry) (entries []Entry, gap Gap) {
	return l.ReadTo(c, l.Last(), limit, dst)
}

// ReadTo does the same as Read, but returns no entry after seq to. The caller passes Last at most.
func (l *Log) ReadTo(c *Cursor, to uint64, limit int, dst []Entry) (entries []Entry, gap Gap) {
	if c.Seq < l.first {
		gap = Gap{From: c.Seq + 1, To: l.first}
		if c.bytes != unknown {
			gap.Bytes = l.droppedBytes - c.bytes
		}
		c.Seq = l.first
	}
	n := 0
	for e, on := range l.after(c.Seq) {
		size := len(e.Data)
		if on != nil {
			size = on.n
		}
		if c.Seq >= to || n > 0 && n+size > limit {
			break
		}
		n += size
		slab.Hold(e.Slab)
		dst = append(dst, *e)
		if on != nil {
			dst[len(dst)-1].Spooled = on.file.Extent(on.at, on.n)
		}
		c.Seq++
	}
	_, c.bytes = l.upTo(c.Seq)
	l.seen = max(l.seen, c.Seq)
	return dst, gap
}

// ReadEvents moves the cursor over the output before the next events, which gap tells, and then over these events, which
// ReadEvents returns. Repeated calls thus return all events of the log, and a gap in place of output.
func (l *Log) ReadEvents(c *Cursor) (events []Entry, gap Gap) {
	i := l.index(max(c.Seq, l.first) + 1)
	for ; i < len(l.items) && l.items[i].Kind == Output; i++ {
	}
	seq := func() uint64 { // the last before items[i]
		if i < len(l.items) {
			return l.items[i].Seq - 1
		}
		return l.Last()
	}
	if to := seq(); to > c.Seq {
		gap = Gap{From: c.Seq + 1, To: to}
		if _, bytes := l.upTo(to); c.bytes != unknown {
			gap.Bytes = bytes - c.bytes
		}
	}
	for ; i < len(l.items) && l.items[i].Kind != Output; i++ {
		events = append(events, l.items[i].Entry)
	}
	*c = l.At(seq())
	return events, gap
}
