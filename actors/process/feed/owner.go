package feed

import "time"

// ownership is how far the owner is. It outlives the owner's connections: the output that
// the owner has not had is kept for the next one.
//
// An owner that resumes after everything gets what comes after liveFrom by itself, and must
// read the output between acked and liveFrom, which it missed.
type ownership[K comparable] struct {
	// acked: the owner has had every entry up to here. It only moves on.
	acked uint64
	// liveFrom is where the live output of the owner begins. Only a new subscription moves it.
	liveFrom uint64
	// liveAcked: of the entries after liveFrom, the owner has had all up to here. It is never
	// before liveFrom, and only moves on until the next subscription.
	liveAcked uint64
	// by is the owner that is attached. Zero: there is none.
	by K
	// since is when the last owner subscribed.
	since time.Time
}

// resume records that the live output of a new owner begins after seq.
func (o *ownership[K]) resume(seq uint64) { o.liveFrom, o.liveAcked = seq, seq }

// missed reports whether there is output before the live output that the owner has not had.
func (o *ownership[K]) missed() bool { return o.acked < o.liveFrom }

// ack records that the owner has all after from up to to. An ack after a hole counts once the
// hole is closed, if it was of live output, and else not at all.
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

// had reports whether the owner has had everything up to last; or has had the live output, and
// has been attached for chance, in which it could have read the rest.
func (o *ownership[K]) had(now time.Time, last uint64, chance time.Duration) bool {
	var nobody K
	return o.acked >= last || o.by != nobody && o.liveAcked >= last && now.Sub(o.since) >= chance
}
