package feed

import "time"

// ownership is how far the owner is. An ownership outlives the owner's connections: the log keeps
// the output after acked for the next owner.
//
// An owner who resumes after the last entry gets the output after liveFrom without a request. The
// owner must read the missed output, between acked and liveFrom.
type ownership[K comparable] struct {
	// acked: the owner has had every entry up to acked. acked only moves on.
	acked uint64
	// liveFrom is where the live output of the owner begins. Only a new subscription moves it.
	liveFrom uint64
	// liveAcked: the owner has had every entry after liveFrom up to liveAcked. liveAcked is never
	// before liveFrom, and only moves on until the next subscription.
	liveAcked uint64
	// sorted: the owner has put every entry up to sorted in order. While sorted is before liveFrom, the owner holds the live
	// output until it has the missed output, and the log keeps the output after sorted.
	sorted uint64
	// by is the attached owner. Zero: there is none.
	by K `lost:"viewers end with the server"`
	// since is when the last owner subscribed.
	since time.Time
}

// resume has the live output of a new owner begin after seq.
func (o *ownership[K]) resume(seq uint64) { o.liveFrom, o.liveAcked, o.sorted = seq, seq, seq }

// unsorted reports whether the owner may have yet to put the output before the live output in order.
func (o *ownership[K]) unsorted() bool { return o.sorted < o.liveFrom }

// missed reports whether the owner has yet to read output before the live output.
func (o *ownership[K]) missed() bool { return o.acked < o.liveFrom }

// ack records that the owner has all entries after from up to to. After a hole, an ack of live
// output counts once the hole is closed. Any other ack after a hole never counts.
func (o *ownership[K]) ack(from, to uint64) {
	switch {
	case from <= o.acked:
		o.acked = max(o.acked, to)
	case from <= o.liveAcked:
		o.liveAcked = max(o.liveAcked, to)
	}
	if !o.missed() {
		o.acked = max(o.acked, o.liveAcked)
	}
}

// had reports whether the owner has had everything up to last, or has had the live output and the
// chance to read the rest: the owner has been attached for chance.
func (o *ownership[K]) had(now time.Time, last uint64, chance time.Duration) bool {
	var nobody K
	return o.acked >= last || o.by != nobody && o.liveAcked >= last && now.Sub(o.since) >= chance
}
