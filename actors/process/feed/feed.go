// Package feed is the output log of one process together with its viewers: how far
// each viewer is, how far the owner is, and which entries the log may drop. It is a
// pure machine: the caller passes the time and sends the deliveries. One goroutine
// at a time may use a Feed.
package feed

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/outlog"
)

// The peer's client buffers at most 256 events or 1 MiB of live output of a process until it
// has read the output it missed; with more, it ends the process. After 45 s it gives up by
// itself. The client reads in one task and sorts in another: hence joinTime.
const (
	aheadEvents = 128
	aheadBytes  = 512 << 10
	aheadTime   = 45 * time.Second
	joinTime    = 100 * time.Millisecond // after the client acknowledged the output it missed
)

// Feed is the log of one process and its viewers. K tells viewers apart, and its zero value
// is nobody; A is a viewer's address, which a Feed keeps and never looks at.
//
// The owner is the viewer for whom output is kept. An owner may resubscribe before its
// predecessor was removed: then two viewers are marked as owners.
type Feed[K comparable, A any] struct {
	// Fixed before the first use.

	// Retention is how many bytes stay in the log after the owner has had them.
	Retention int64
	// Evicts is onFull evict: the log drops the oldest output, had or not.
	Evicts bool
	// Ephemeral means that nobody reads output again: the log drops all that the owner has had.
	Ephemeral bool

	// Log is for appending. Only Trim and Close drop entries, and Trim none after the pin.
	Log outlog.Log

	// viewers are all who subscribed and were not removed. Nil until the first.
	viewers map[K]*Viewer[A]
	// barred are viewers that were evicted and have not ended yet: nothing they send counts.
	barred map[K]bool
	owner  ownership[K]
	// ahead is when the limit for an owner that has yet to read the output it missed ends.
	// Zero: there is no limit.
	ahead time.Time
	// last is the last seq of a log that was closed. Zero before.
	last uint64
}

// Viewer is one who subscribed.
type Viewer[A any] struct {
	// Fixed when it subscribes.
	To    A
	Owner bool
	// explicit means that only an Ack acknowledges: neither the place where the owner begins
	// nor its reads do.
	explicit bool

	// cursor is after the last entry that was sent to the viewer. It only moves on.
	cursor outlog.Cursor
	// pull is how many bytes the viewer has asked for. Zero: it waits for nothing.
	pull int
	// behind is since when the log has entries that the viewer has not asked for. Zero: the
	// viewer has been sent all, or waits for more.
	behind time.Time
}

// Seq is the last entry that was sent to v.
func (v *Viewer[A]) Seq() uint64 { return v.cursor.Seq }

// Subscription is how a viewer begins.
type Subscription struct {
	After    uint64 // the cursor starts after this seq, or after the last if there is none such yet
	Now      bool   // the cursor starts after the last entry; After does not count
	Owner    bool
	Explicit bool // of an owner: only an Ack acknowledges
	Resumed  bool // of an owner: its acknowledgements go on where they were
}

// Subscribe adds a viewer, or moves the one of the same key. The new viewer has asked for nothing.
func (f *Feed[K, A]) Subscribe(now time.Time, key K, to A, s Subscription) *Viewer[A] {
	v := &Viewer[A]{To: to, Owner: s.Owner, explicit: s.Explicit}
	if s.Now {
		s.After = f.Log.Last()
	}
	v.cursor = f.Log.At(s.After)
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
	f.ahead = time.Time{}
	switch {
	case s.Explicit:
	case !s.Now:
		f.owner.ack(0, v.cursor.Seq) // a client that asks for later output has the earlier
	case f.owner.acked < v.cursor.Seq && !f.Evicts:
		f.ahead = now.Add(aheadTime)
	}
	return v
}

// Remove takes a viewer away. What its owner has not had stays.
func (f *Feed[K, A]) Remove(key K) {
	delete(f.viewers, key)
	if key == f.owner.by {
		var nobody K
		f.owner.by = nobody
	}
}

// Dismiss removes all viewers, and leaves the owner the right to acknowledge.
func (f *Feed[K, A]) Dismiss() { clear(f.viewers) }

// Bar has Barred report a viewer until Unbar.
func (f *Feed[K, A]) Bar(key K) {
	if f.barred == nil {
		f.barred = make(map[K]bool)
	}
	f.barred[key] = true
}

// Unbar ends Bar.
func (f *Feed[K, A]) Unbar(key K) { delete(f.barred, key) }

// Barred reports whether a viewer was evicted, and may not have heard of that.
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

// Pull records that a viewer waits for up to n bytes, in place of what it waited for before.
// Nil: there is no such viewer.
func (f *Feed[K, A]) Pull(key K, n int) *Viewer[A] {
	v := f.viewers[key]
	if v != nil {
		v.pull = n
	}
	return v
}

// Delivery is what a viewer gets at once. Entries continue after the last delivery, or after
// Gap. Each entry is held once more, for whoever releases it.
type Delivery struct {
	Gap     outlog.Gap
	Entries []outlog.Entry
	end     outlog.Cursor
}

// Next is the delivery that v waits for; ok is false if there is none now. The cursor stays
// where it is until Sent: a viewer that a delivery did not reach subscribes again from there.
// With hurry there is no limit for an owner that has yet to read the output it missed.
func (f *Feed[K, A]) Next(now time.Time, v *Viewer[A], hurry bool) (d Delivery, ok bool) {
	if v.cursor.Seq >= f.Log.Last() {
		return d, false
	}
	limit, to := f.limit(now, v, hurry)
	if v.pull == 0 || v.cursor.Seq >= to {
		if v.behind.IsZero() {
			v.behind = now
		}
		return d, false
	}
	d.end = v.cursor
	d.Entries, d.Gap = f.Log.ReadTo(&d.end, to, limit, nil)
	return d, true
}

// Sent records that d was sent to v. It reports whether the log may now hold less for the
// owner: an owner that is sent again the entries it acknowledged owes no Ack for them.
func (f *Feed[K, A]) Sent(now time.Time, v *Viewer[A], d *Delivery) (freed bool) {
	freed = v.Owner && v.cursor.Seq < f.owner.acked
	v.cursor, v.pull = d.end, 0
	if v.behind = (time.Time{}); v.cursor.Seq < f.Log.Last() {
		v.behind = now
	}
	return freed
}

// limit is how many bytes v may get, and up to which seq.
func (f *Feed[K, A]) limit(now time.Time, v *Viewer[A], hurry bool) (bytes int, to uint64) {
	if !v.Owner || hurry || !now.Before(f.ahead) {
		return v.pull, f.Log.Last()
	}
	had := f.Log.Cost(f.owner.liveFrom) - f.Log.Cost(v.cursor.Seq)
	if had >= aheadBytes {
		return 0, v.cursor.Seq
	}
	return min(v.pull, int(aheadBytes-had)), min(f.Log.Last(), f.owner.liveFrom+aheadEvents)
}

// Ahead is when all viewers are to be looked at again, because a limit ends. Zero: never.
func (f *Feed[K, A]) Ahead() time.Time { return f.ahead }

// Lag is what the log has for v and v has not asked for, in bytes, and since when. Zero
// since: v has been sent all, or waits for more.
func (f *Feed[K, A]) Lag(v *Viewer[A]) (bytes int64, since time.Time) {
	if v.behind.IsZero() {
		return 0, since
	}
	return f.Log.Cost(v.cursor.Seq), v.behind
}

// Ack records that the owner has all after from up to to. It does nothing and reports false
// if key is no owner. An owner that has to resubscribe may acknowledge.
func (f *Feed[K, A]) Ack(now time.Time, key K, from, to uint64) bool {
	if v := f.viewers[key]; (v == nil || !v.Owner) && key != f.owner.by {
		return false
	}
	f.ack(now, from, to)
	return true
}

// AckRead records that a viewer reads after seq: an owner that does has all up to there. It
// does nothing and reports false if key is no owner, or acknowledges explicitly.
func (f *Feed[K, A]) AckRead(now time.Time, key K, after uint64) bool {
	v := f.viewers[key]
	if v == nil || !v.Owner || v.explicit {
		return false
	}
	f.ack(now, 0, after)
	return true
}

func (f *Feed[K, A]) ack(now time.Time, from, to uint64) {
	o := &f.owner
	missed := o.missed()
	o.ack(from, min(to, f.Log.Last()))
	if missed && !o.missed() && f.ahead.Sub(now) > joinTime {
		f.ahead = now.Add(joinTime)
	}
}

// Done reports whether the log of a closed process may go at now, over being when its
// retention ended. The owner must have had all of it, or have been attached for chance.
// Viewers that are not at the end have as long as extra after over.
func (f *Feed[K, A]) Done(now, over time.Time, chance, extra time.Duration) bool {
	if !f.owner.had(now, f.Log.Last(), chance) {
		return false
	}
	return !f.Watched() || now.Sub(over) >= extra
}

// Watched reports whether a viewer has yet to be sent the last entry.
func (f *Feed[K, A]) Watched() bool {
	for _, v := range f.viewers {
		if v.cursor.Seq < f.Log.Last() {
			return true
		}
	}
	return false
}

// Last is the newest seq there ever was, also once the log is closed.
func (f *Feed[K, A]) Last() uint64 { return max(f.last, f.Log.Last()) }

// Close lets go of the log. Nobody reads it any more. May be repeated.
func (f *Feed[K, A]) Close() {
	f.last = f.Last()
	f.Log.Close()
	f.Log = outlog.Log{}
}
