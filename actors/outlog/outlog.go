// Package outlog is the sequenced log of one process's output: what the
// process did, numbered from 1 without a hole, and cursors that read it. It is
// a plain data structure: no goroutine, no lock, no clock. One goroutine at a
// time may use a Log.
package outlog

import (
	"math"
	"time"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An Entry is one numbered fact. Entries are shared by all who read them and
// are never changed once read.
type Entry struct {
	Seq     uint64
	Kind    Kind
	Stream  protocol.Stream      // of Output
	Data    []byte               // of Output, never empty; unless it is Spooled
	Slab    *slab.Slab           // that Data lies in
	Spooled *spool.Extent        // where on disk it lies; nil: it does not
	Status  *protocol.ExitStatus // of Exited
	Restart *Restart             // of Restarted; of Ready its Run, of Evicted its Reason
}

// Len is the length of an Output, in bytes.
func (e *Entry) Len() int { return len(e.Data) + e.Spooled.Len() }

// Hold adds a holder of the memory or the disk that e lies in.
func (e *Entry) Hold() {
	e.Slab.Hold()
	e.Spooled.Hold()
}

// Release takes a holder away.
func (e *Entry) Release() {
	e.Slab.Release()
	e.Spooled.Release()
}

// Restart is what stands between two runs.
type Restart struct {
	Run       int // the one that follows
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
	Evicted        // none follows, although its policy asks for one
	Closed         // nothing more will come
)

const (
	// entryCost is what an entry costs beside its data, in bytes: itself, and what
	// the array and the allocator round up. It is counted: else a child that writes
	// single bytes would hold a hundred times its retention.
	entryCost = 128
	// growMax is how long a chunk may become by later output, in bytes.
	growMax = 32 << 10
	// spooledMax is the same for what is on disk, and spooledCost what it costs in
	// memory beside its entry.
	spooledMax  = 128 << 10
	spooledCost = 256
)

type item struct {
	Entry
	cost  int64  // of all entries up to and with this one, since the log began
	bytes uint64 // of output up to and with this one, since the log began
}

// Log holds the entries from First to Last. The zero Log is empty and ready.
type Log struct {
	items   []item // items[i] has seq first+i
	first   uint64 // seq of items[0], less one: how many were dropped
	seen    uint64 // highest seq that was read or passed by: what comes after may still grow
	spooled int64  // bytes that lie on disk
	closed  bool   // Closed was added
	// Of what was dropped, in total.
	droppedCost  int64
	droppedBytes uint64
}

// First is the oldest seq that is still held, or Last+1 when none is.
func (l *Log) First() uint64 { return l.first + 1 }

// Last is the newest seq; 0 when nothing has happened yet.
func (l *Log) Last() uint64 { return l.first + uint64(len(l.items)) }

// Append adds output, which the log owns from now on; of the slab that it lies in, nil
// for none, it becomes one more holder. Output that nobody has
// read yet is made longer, so that a child that writes byte by byte does not
// cost an entry, and its viewers a message, for each.
func (l *Log) Append(s protocol.Stream, data []byte, lent *slab.Slab) {
	if n := len(l.items); n > 0 {
		it := &l.items[n-1]
		if it.Kind == Output && it.Spooled == nil && it.Stream == s && it.Seq > l.seen && len(it.Data)+len(data) <= growMax {
			it.Data = append(it.Data, data...)
			it.cost += int64(len(data))
			it.bytes += uint64(len(data))
			return
		}
	}
	lent.Hold()
	l.push(Entry{Kind: Output, Stream: s, Data: data, Slab: lent})
}

// AppendSpooled adds output that lies on disk, n bytes at a place of a file.
func (l *Log) AppendSpooled(s protocol.Stream, f *spool.File, at int64, n int) {
	l.spooled += int64(n)
	if k := len(l.items); k > 0 {
		it := &l.items[k-1]
		if it.Spooled != nil && it.Stream == s && it.Seq > l.seen && it.Len()+n <= spooledMax && it.Spooled.Grow(at, n) {
			it.bytes += uint64(n)
			return
		}
	}
	l.push(Entry{Kind: Output, Stream: s, Spooled: f.Extent(at, n)})
}

// Spooled is how many bytes of what is held lie on disk.
func (l *Log) Spooled() int64 { return l.spooled }

// AppendExited adds the end of a run.
func (l *Log) AppendExited(st protocol.ExitStatus) { l.push(Entry{Kind: Exited, Status: &st}) }

// AppendRestarted adds the beginning of a run other than the first.
func (l *Log) AppendRestarted(r Restart) { l.push(Entry{Kind: Restarted, Restart: &r}) }

// AppendReady adds that a run is ready.
func (l *Log) AppendReady(run int) { l.push(Entry{Kind: Ready, Restart: &Restart{Run: run}}) }

// AppendEvicted adds that there will be no other run.
func (l *Log) AppendEvicted(reason string) {
	l.push(Entry{Kind: Evicted, Restart: &Restart{Reason: reason}})
}

// AppendClosed adds the end of all. Again it does nothing.
func (l *Log) AppendClosed() {
	if !l.closed {
		l.push(Entry{Kind: Closed})
		l.closed = true
	}
}

func (l *Log) push(e Entry) {
	e.Seq = l.Last() + 1
	cost, bytes := l.upTo(l.Last())
	cost += entryCost + int64(len(e.Data))
	if e.Spooled != nil {
		cost += spooledCost
	}
	l.items = append(l.items, item{e, cost, bytes + uint64(e.Len())})
}

// upTo returns the cost and the output bytes of all up to and with seq, of
// which those dropped count as a whole.
func (l *Log) upTo(seq uint64) (cost int64, bytes uint64) {
	seq = min(seq, l.Last())
	if seq <= l.first {
		return l.droppedCost, l.droppedBytes
	}
	it := &l.items[seq-l.first-1]
	return it.cost, it.bytes
}

// Cost is what the entries after seq cost, in bytes: their data and a fixed
// overhead for each. Cost(0) is what the log holds.
func (l *Log) Cost(after uint64) int64 {
	all, _ := l.upTo(l.Last())
	had, _ := l.upTo(after)
	return all - had
}

// Dropped is how many bytes of output were dropped since the log began.
func (l *Log) Dropped() uint64 { return l.droppedBytes }

// Drop lets go of the oldest entries while the log costs more than limit, but
// of none after keep.
func (l *Log) Drop(limit int64, keep uint64) {
	n := 0
	for n < len(l.items) && l.items[n].Seq <= keep && l.Cost(0) > limit {
		it := &l.items[n]
		l.droppedCost, l.droppedBytes = it.cost, it.bytes
		if it.Spooled != nil {
			l.spooled -= int64(it.Len())
		}
		it.Release()
		l.first++
		n++
	}
	if n == 0 {
		return
	}
	clear(l.items[:n]) // their data may go, even while the array stays
	l.items = l.items[n:]
	if len(l.items) == 0 {
		l.items = nil
	}
}

// Close lets go of all entries. The log is not used any more.
func (l *Log) Close() { l.Drop(-1, l.Last()) }

// A Cursor is a place in a log: all up to and with Seq was read.
type Cursor struct {
	Seq   uint64
	bytes uint64 // of output up to there; unknown if it came from outside and was dropped
}

const unknown = math.MaxUint64

// At returns a cursor after seq, or after Last if seq is beyond it. What lies before it
// grows no more: the cursor would not see that.
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

// A Gap is a range of entries that a cursor wanted and the log has dropped.
type Gap struct {
	From, To uint64 // From is 0 when there is no gap
	Bytes    uint64 // of output in it; 0 if that is not known
}

// Read appends to dst the entries after the cursor, and moves it behind them:
// the first output whatever its size, and then as many as fit into limit bytes of
// it. If the log has dropped what came next, the cursor first steps over
// it, and gap says what was missed. Who reads holds the entries.
func (l *Log) Read(c *Cursor, limit int, dst []Entry) (entries []Entry, gap Gap) {
	return l.ReadTo(c, l.Last(), limit, dst)
}

// ReadTo is Read up to seq to, which is Last at most.
func (l *Log) ReadTo(c *Cursor, to uint64, limit int, dst []Entry) (entries []Entry, gap Gap) {
	if c.Seq < l.first {
		gap = Gap{From: c.Seq + 1, To: l.first}
		if c.bytes != unknown {
			gap.Bytes = l.droppedBytes - c.bytes
		}
		c.Seq = l.first
	}
	n := 0
	for c.Seq < to {
		e := &l.items[c.Seq-l.first].Entry
		if n > 0 && n+e.Len() > limit {
			break
		}
		n += e.Len()
		e.Hold()
		dst = append(dst, *e)
		c.Seq++
	}
	_, c.bytes = l.upTo(c.Seq)
	l.seen = max(l.seen, c.Seq)
	return dst, gap
}
