// Package meters counts the work of a server, for its operators. To count allocates nothing, waits for nobody and cannot fail. The zero value of
// each type is ready, and any goroutine may use it. The names of the metrics are in actors/metrics.go.
package meters

import (
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Meters are the counts of a troupe.
type Meters struct {
	Connections Counter // accepted since the beginning
	Refused     Family  // connections, by why
	Requests    Family  // by method
	Failures    Family  // errors in answers, by their kind
	Limits      Family  // errors of limits in answers, by the name of the limit

	Received, Sent Traffic

	Output  [4]Counter // bytes of programs, by protocol.Stream
	Stdin   Counter    // bytes that programs were given
	Gaps    Counter    // holes in the output of viewers
	Missing Counter    // bytes in them
	Waits   [3]Wait    // of programs, because their output was held back: by child.Cause

	Opened    Counter // sessions, since the beginning
	Evictions Family  // sessions in whose place others came, by the shortage: memory or places
	Sessions  States  // by the kind of the last event: attached, detached or closing
	Processes States  // by protocol.State
	Events    Family  // by protocol.ServerEventKind
	Finished  Family  // runs, by result: success, failed or terminated
	OOM       Counter

	Start Times // from the request to start a program until its answer is written
	Write Times // from a process/write until its answer is written: the kernel, or the queue of the program, has the bytes
	Files Times // from a call about files until its answer is written
	Pong  Times // from a Ping until its Pong
	// Delivery is from the news of output until the socket has the output, for a client that keeps up.
	Delivery Times

	Letters Counter // messages to stopped actors
	Mailbox Depths  // messages in the mailbox of an actor that takes a message, of each DepthEach messages
}

// Cluster is the counts of a node of a cluster.
type Cluster struct {
	Relays   atomic.Int64 // connections of clients to other nodes, now
	Relayed  Counter      // such connections, since the beginning
	Refused  Counter      // sessions for which no node had room
	Failed   Counter      // attempts to reach another node
	Up, Down Counter      // bytes from clients to other nodes, and back
}

// Traffic counts messages of connections.
type Traffic struct{ Messages, Bytes Counter }

// Add counts a message.
func (t *Traffic) Add(bytes int) {
	t.Messages.Add(1)
	t.Bytes.Add(bytes)
}

// A Counter only rises.
type Counter struct{ n atomic.Uint64 }

// Add adds n, a positive number or 0.
func (c *Counter) Add(n int) { c.n.Add(uint64(n)) }

// Load returns the sum.
func (c *Counter) Load() uint64 { return c.n.Load() }

// A Family has a Counter for each label. Labels are words of the code, never of clients: else nothing would bound a Family.
type Family struct{ all sync.Map } // string → *Counter

// Add adds n to the counter of a label.
func (f *Family) Add(label string, n int) {
	c, ok := f.all.Load(label)
	if !ok {
		c, _ = f.all.LoadOrStore(label, new(Counter))
	}
	c.(*Counter).Add(n)
}

// All yields all labels with their sums.
func (f *Family) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		f.all.Range(func(label, c any) bool { return yield(label.(string), c.(*Counter).Load()) })
	}
}

// A Wait has how often something has waited, and how long in all.
type Wait struct {
	Times Counter
	Time  atomic.Int64 // nanoseconds
}

// Add counts a wait at its end.
func (w *Wait) Add(d time.Duration) {
	w.Times.Add(1)
	w.Time.Add(int64(d))
}

// States has how many things are in each state now.
type States struct{ all sync.Map } // string → *atomic.Int64

// Move moves a thing from a state to another. "": the thing comes, or goes.
func (s *States) Move(from, to string) {
	if from == to {
		return
	}
	s.add(from, -1)
	s.add(to, 1)
}

func (s *States) add(state string, n int64) {
	if state != "" {
		s.of(state).Add(n)
	}
}

func (s *States) of(state string) *atomic.Int64 {
	c, ok := s.all.Load(state)
	if !ok {
		c, _ = s.all.LoadOrStore(state, new(atomic.Int64))
	}
	return c.(*atomic.Int64)
}

// In returns how many things are in a state.
func (s *States) In(state string) int64 { return s.of(state).Load() }

// All yields the states in which there was a thing at some time.
func (s *States) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		s.all.Range(func(state, n any) bool { return yield(state.(string), n.(*atomic.Int64).Load()) })
	}
}

// buckets is how many bounds a distribution has, each twice as large as its neighbor.
const buckets = 21

// distribution counts values by their size: up to 1 unit, up to 2, 4 and so on, and larger ones.
type distribution [buckets + 1]atomic.Uint64

// add counts a value in units, rounded up.
func (d *distribution) add(units uint64) {
	k := 0
	if units > 1 {
		k = bits.Len64(units - 1)
	}
	d[min(k, buckets)].Add(1)
}

// upTo returns the number of values by their bound, in units times unit, and the number of all values.
func (d *distribution) upTo(unit float64) (all map[float64]uint64, count uint64) {
	all = make(map[float64]uint64, buckets)
	for k := range buckets {
		count += d[k].Load()
		all[unit*float64(uint64(1)<<k)] = count
	}
	return all, count + d[buckets].Load()
}

// timeUnit is the smallest bound of Times: 16 µs, the largest is 16.8 s.
const timeUnit = 16 * time.Microsecond

// Times is a distribution of times.
type Times struct {
	sizes distribution
	sum   atomic.Int64 // nanoseconds
}

// Add counts a time. A negative one counts as 0: the clock was set.
func (t *Times) Add(d time.Duration) {
	d = max(d, 0)
	t.sizes.add(uint64((d + timeUnit - 1) / timeUnit))
	t.sum.Add(int64(d))
}

// Read returns the number of times by their bound in seconds, the number of all times, and their sum in seconds.
func (t *Times) Read() (upTo map[float64]uint64, count uint64, sum float64) {
	sum = time.Duration(t.sum.Load()).Seconds()
	upTo, count = t.sizes.upTo(timeUnit.Seconds())
	return upTo, count, sum
}

// A Span is the beginning of a time. The zero Span counts for nothing.
type Span struct {
	of    *Times
	began time.Time
}

// Begin begins a Span now.
func (t *Times) Begin() Span { return Span{t, time.Now()} }

// Since begins a Span at a time; a zero one at no time.
func (t *Times) Since(began time.Time) Span {
	if began.IsZero() {
		return Span{}
	}
	return Span{t, began}
}

// Begun reports whether the Span counts.
func (s Span) Begun() bool { return s.of != nil }

// End counts the time until now.
func (s Span) End() {
	if s.of != nil {
		s.of.Add(time.Since(s.began))
	}
}

// DepthEach: the depth counts at each so many messages.
const DepthEach = 16

// Depths is a distribution of lengths of queues.
type Depths struct {
	sizes distribution
	sum   atomic.Uint64
}

// Add counts a length, 0 or more.
func (d *Depths) Add(n int) {
	d.sizes.add(uint64(n))
	d.sum.Add(uint64(n))
}

// Read returns the number of lengths by their bound, the number of all lengths, and their sum.
func (d *Depths) Read() (upTo map[float64]uint64, count uint64, sum float64) {
	sum = float64(d.sum.Load())
	upTo, count = d.sizes.upTo(1)
	return upTo, count, sum
}
