// Package feed has the output log of a process together with its viewers: how far
// each viewer is, how far the owner is, and the entries that the log may drop. The
// package is a pure machine: the caller passes the time and sends the deliveries. A
// single goroutine at a time may use a Feed.
//
// # Where to look
//
//   - feed.go: viewers, their cursors and deliveries
//   - owner.go: how far the owner is
//   - read.go: process/read
//   - trim.go: which entries the log may drop
package feed

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/outlog"
)

// After a resume, the peer's client reads the missed output. Until the client has put the missed output in order, the client
// buffers at most 256 events or 1 MiB of live output of a process; with more, the client ends the process. The client reads
// and sorts in separate tasks, and nothing that the client sends says that the client has sorted. So after aheadEvents or
// aheadBytes, the live output begins again with the missed output. The task that takes live output drops the
// repeated events by their seq, and need not buffer any other.
const (
	aheadEvents = 128
	aheadBytes  = 512 << 10
)

// maxDelivered is how many entries a Delivery has at most, and a Read while part of the log is on disk: the log may have half a
// million small entries there.
const maxDelivered = 2048

// Feed is the log of one process and its viewers. K tells viewers apart, and its zero value
// is nobody; A is a viewer's address, for the caller only.
//
// The owner is the viewer for whom output is kept. An owner may resubscribe before its
// predecessor was removed: then two viewers are marked as owners.
type Feed[K comparable, A any] struct {
	// Fixed before the first use.

	// Retention is how many of the newest bytes stay in the log, whoever has had them.
	Retention int64
	// Evicts is onFull evict: the log drops the oldest output, had or not.
	Evicts bool
	// Ephemeral means: nobody reads output again, and the log drops all output up to the pin.
	Ephemeral bool

	// until is how long the log holds everything, for a viewer with Hold that is to come. Zero: none is awaited.
	until time.Time
	// cut means: Cut was called.
	cut bool
	// Log is for appending. Only Trim and Close drop entries, and Trim none after the pin.
	Log outlog.Log `lost:"the arena has the entries"`

	// viewers are all who subscribed and were not removed. Nil until the first.
	viewers map[K]*Viewer[A] `lost:"clients subscribe again"`
	// barred are viewers that have lost the session and have not ended yet: the process ignores their messages.
	barred map[K]bool `lost:"viewers end with the server"`
	owner  ownership[K]
	// last is the last seq of the log when Close was called. Zero before.
	last uint64
}

// Viewer is a subscriber.
type Viewer[A any] struct {
	// Fixed by Subscribe.
	To    A
	Owner bool
	Hold  bool   // the log drops no entry that the viewer has not acknowledged
	Role  string // as in Subscription
	// Beside: the viewer is the server's own. Nobody waits for it, and it counts neither in Watched nor in Alone.
	Beside bool
	// explicit means: only an Ack acknowledges. Neither the place where the owner begins nor the
	// reads of the owner acknowledge.
	explicit bool

	// acked: with Hold, the viewer has had every entry up to acked since its subscription.
	acked uint64
	// cursor is after the last entry sent to the viewer. A cursor only moves on.
	cursor outlog.Cursor
	// pull is how many bytes the viewer has asked for. Zero: the viewer waits for nothing.
	pull int
	// behind is when the log first had entries beyond the requests of the viewer. Zero: the
	// viewer has been sent all, or waits for more.
	behind time.Time
}

// Seq is the last entry sent to v.
func (v *Viewer[A]) Seq() uint64 { return v.cursor.Seq }

// Subscription is how a viewer begins.
type Subscription struct {
	After    uint64 // the cursor starts after this seq, or after the last if there is none such yet
	Now      bool   // the cursor starts after the last entry; After does not count
	Acked    bool   // of an owner: the cursor starts after the last acknowledged entry; After does not count
	Owner    bool
	Hold     bool   // the log drops nothing that the viewer has not acknowledged, whatever Evicts says
	Role     string // told to people; "": not told
	Explicit bool   // of an owner: only an Ack acknowledges
	Resumed  bool   // of an owner: its acknowledgements go on where they were
	Beside   bool   // as in Viewer
}

// Subscribe adds a viewer, or replaces the viewer of the same key. The new viewer has asked for nothing.
func (f *Feed[K, A]) Subscribe(now time.Time, key K, to A, s Subscription) *Viewer[A] {
	v := &Viewer[A]{To: to, Owner: s.Owner, Hold: s.Hold, Role: s.Role, Beside: s.Beside, explicit: s.Explicit}
	switch {
	case s.Now:
		s.After = f.Log.Last()
	case s.Acked:
		s.After = f.owner.acked
	}
	v.cursor = f.Log.At(s.After)
	v.acked = v.cursor.Seq
	if s.Hold {
		f.until = time.Time{} // it has come
	}
	if f.viewers == nil {
		f.viewers = make(map[K]*Viewer[A])
	}
	f.viewers[key] = v
	if !s.Owner {
		return v
	}
	f.owner.by, f.owner.since = key, now
	if s.Resumed {
		return v
	}
	f.owner.resume(v.cursor.Seq)
	switch {
	case s.Explicit:
	case !s.Now:
		f.owner.ack(0, v.cursor.Seq) // a client that asks for later output has the earlier
	case !f.Evicts:
		f.owner.sorted = min(f.owner.acked, v.cursor.Seq)
	}
	return v
}

// Remove takes a viewer away. The log keeps the output for the next owner.
func (f *Feed[K, A]) Remove(key K) {
	delete(f.viewers, key)
	if key == f.owner.by {
		var nobody K
		f.owner.by = nobody
		f.owner.sorted = f.owner.liveFrom // the next owner begins anew
	}
}

// Dismiss forgets what the viewers wait for: each is about to subscribe again. Until then a viewer counts as one that has not been sent
// the rest.
func (f *Feed[K, A]) Dismiss() {
	for _, v := range f.viewers {
		v.pull = 0
	}
}

// Bar has Barred report a viewer until Unbar.
func (f *Feed[K, A]) Bar(key K) {
	if f.barred == nil {
		f.barred = make(map[K]bool)
	}
	f.barred[key] = true
}

// Unbar ends Bar.
func (f *Feed[K, A]) Unbar(key K) { delete(f.barred, key) }

// Barred reports whether Bar was called for a viewer, and Unbar was not.
func (f *Feed[K, A]) Barred(key K) bool { return f.barred[key] }

// Each calls do with each viewer.
func (f *Feed[K, A]) Each(do func(*Viewer[A])) {
	for _, v := range f.viewers {
		do(v)
	}
}

// Attached reports whether there is an owner.
func (f *Feed[K, A]) Attached() bool {
	var nobody K
	return f.owner.by != nobody
}

// Pull records that a viewer waits for up to n bytes. An earlier Pull no longer counts. Nil: there
// is no such viewer.
func (f *Feed[K, A]) Pull(key K, n int) *Viewer[A] {
	v := f.viewers[key]
	if v != nil {
		v.pull = n
	}
	return v
}

// Delivery is the answer to a Pull. Entries continue after the last delivery, or after Gap. The
// receiver becomes a holder of the entries.
type Delivery struct {
	Gap     outlog.Gap
	Entries []outlog.Entry
	// Again means: Entries begin with the output that the owner has missed, before the last delivery.
	Again bool
	end   outlog.Cursor
}

// Next returns the delivery for v; ok is false if there is none now. After Cut, another delivery may follow at once. Only Sent
// moves the cursor: if a delivery is lost, the viewer subscribes again from the cursor.
func (f *Feed[K, A]) Next(now time.Time, v *Viewer[A]) (d Delivery, ok bool) {
	if v.cursor.Seq >= f.Log.Last() {
		return d, false
	}
	if d.end = v.cursor; f.cut {
		d.Entries, d.Gap = f.Log.ReadEvents(&d.end)
		return d, true
	}
	if v.pull == 0 {
		if v.behind.IsZero() {
			v.behind = now
		}
		return d, false
	}
	bytes, to := v.pull, f.Log.Last()
	if v.Owner && f.owner.unsorted() {
		from := f.owner.liveFrom
		ahead := int(f.Log.Bytes(from) - f.Log.Bytes(v.cursor.Seq))
		if ahead >= aheadBytes || v.cursor.Seq >= from+aheadEvents {
			d.end, d.Again = f.Log.At(f.owner.sorted), true
		} else {
			bytes, to = min(bytes, aheadBytes-ahead), min(to, from+aheadEvents)
		}
	}
	to = min(to, max(d.end.Seq, f.Log.First()-1)+maxDelivered)
	d.Entries, d.Gap = f.Log.ReadTo(&d.end, to, bytes, nil)
	return d, true
}

// Sent records that d was sent to v. Sent reports whether the log may now hold less for v: no Ack follows when
// entries are sent after their Ack.
func (f *Feed[K, A]) Sent(now time.Time, v *Viewer[A], d *Delivery) (freed bool) {
	freed = v.Owner && v.cursor.Seq < f.owner.acked || v.Hold && v.cursor.Seq < v.acked
	if d.Again {
		f.owner.sorted = f.owner.liveFrom // the cursor is the pin now
	}
	v.cursor, v.pull = d.end, 0
	if v.behind = (time.Time{}); v.cursor.Seq < f.Log.Last() {
		v.behind = now
	}
	return freed
}

// Cut has each viewer be sent no more output, but a gap in its place, and all events, whether the viewer waits for them or not.
func (f *Feed[K, A]) Cut() { f.cut = true }

// IsCut reports whether Cut was called.
func (f *Feed[K, A]) IsCut() bool { return f.cut }

// Lag returns how many bytes the log has beyond the requests of v, and since when. Zero since: v
// has been sent all, or waits for more.
func (f *Feed[K, A]) Lag(v *Viewer[A]) (bytes int64, since time.Time) {
	if v.behind.IsZero() {
		return 0, since
	}
	return f.After(v.cursor.Seq), v.behind
}

// After returns how many bytes of output the log has after seq: on disk, or with what they take in memory.
func (f *Feed[K, A]) After(seq uint64) int64 {
	cost, bytes := f.Log.After(seq)
	return max(cost, int64(bytes))
}

// Ack records that the owner, or a viewer with Hold, has all entries after from up to to. For any other key, Ack does
// nothing and returns false. An owner who has to resubscribe may acknowledge.
func (f *Feed[K, A]) Ack(key K, from, to uint64) bool {
	v, to := f.viewers[key], min(to, f.Log.Last())
	holds := v != nil && v.Hold
	if holds && from <= v.acked {
		v.acked = max(v.acked, to)
	}
	if owns := v != nil && v.Owner || key == f.owner.by; owns {
		f.owner.ack(from, to)
		return true
	}
	return holds
}

// AckRead records that an owner reads after seq, and so has all entries up to seq. If key is no
// owner, or acknowledges explicitly, AckRead does nothing and returns false.
func (f *Feed[K, A]) AckRead(key K, after uint64) bool {
	v := f.viewers[key]
	if v == nil || !v.Owner || v.explicit {
		return false
	}
	after = min(after, f.Log.Last())
	f.owner.ack(0, after)
	f.owner.sorted = max(f.owner.sorted, after)
	return true
}

// Done reports whether the log of a closed process may go at now, over being when its
// retention ended. The owner must have had the whole log, or have been attached for chance.
// Viewers before the end of the log have as long as extra after over.
func (f *Feed[K, A]) Done(now, over time.Time, chance, extra time.Duration) bool {
	if !f.owner.had(now, f.Log.Last(), chance) {
		return false
	}
	return !f.Watched() || now.Sub(over) >= extra
}

// Watched reports whether a viewer has yet to be sent the last entry.
func (f *Feed[K, A]) Watched() bool {
	for _, v := range f.viewers {
		if v.cursor.Seq < f.Log.Last() && !v.Beside {
			return true
		}
	}
	return false
}

// Alone reports whether there is no viewer.
func (f *Feed[K, A]) Alone() bool {
	for _, v := range f.viewers {
		if !v.Beside {
			return false
		}
	}
	return true
}

// Last returns the newest seq of the log, also after Close.
func (f *Feed[K, A]) Last() uint64 { return max(f.last, f.Log.Last()) }

// Acked returns the seq up to which the owner has acknowledged all entries.
func (f *Feed[K, A]) Acked() uint64 { return f.owner.acked }

// Close frees the log. Nobody reads the log any more. Close may be repeated.
func (f *Feed[K, A]) Close() {
	f.last = f.Last()
	f.Log.Close()
	f.Log = outlog.Log{}
}
