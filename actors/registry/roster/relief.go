package roster

import "time"

const (
	// Spared is how long a session without an owner is not ended: its owner may be on the way back.
	Spared = 10 * time.Second
	// Worth is how much a session must hold to be ended for it, in bytes.
	Worth = 256 << 10
	// Refund is how long after its end a session's memory may still be counted: goroutines of
	// their own give it back.
	Refund = time.Second
)

// A Holder says how much memory a session holds, in bytes.
type Holder interface{ Held() int64 }

// A Relief chooses the session that ends when the server holds too much output: of those that hold
// at least Worth, the one that has been without an owner the longest, and for Spared at least. It
// chooses the next one only when the last one has ended and its memory was given back, or
// has got an owner.
type Relief struct {
	// away holds the sessions without an owner, by id. A session that has an owner, or that has
	// ended, is not among them.
	away map[string]away
	// ending is the session that was chosen; "": none. It is away, or it has ended.
	ending string
	// refund is when the memory of the session that was chosen has been given back. Zero until
	// that session has ended.
	refund time.Time
}

// away is a session without an owner.
type away struct {
	since time.Time
	holds Holder
}

// NewRelief returns a Relief that knows no session.
func NewRelief() *Relief { return &Relief{away: make(map[string]away)} }

// Away says that a session has had no owner since then.
func (r *Relief) Away(id string, since time.Time, holds Holder) { r.away[id] = away{since, holds} }

// Back says that a session has an owner, and reports whether that session was chosen: then another
// may be.
func (r *Relief) Back(id string) (chosen bool) {
	delete(r.away, id)
	chosen = id == r.ending && r.refund.IsZero()
	if chosen {
		r.ending = ""
	}
	return chosen
}

// Ended says that a session has ended, and reports whether that session was chosen: then another
// may be, after Refund.
func (r *Relief) Ended(now time.Time, id string) (chosen bool) {
	delete(r.away, id)
	chosen = id == r.ending && r.refund.IsZero()
	if chosen {
		r.refund = now.Add(Refund)
	}
	return chosen
}

// Choose returns the session to end now. If there is none, it returns when to ask again; a zero
// time means after the next Away, Back or Ended.
func (r *Relief) Choose(now time.Time) (id string, again time.Time) {
	if r.ending != "" {
		if now.Before(r.refund) || r.refund.IsZero() {
			return "", r.refund
		}
		r.ending, r.refund = "", time.Time{}
	}
	if len(r.away) == 0 {
		return "", time.Time{}
	}
	var since time.Time
	for k, a := range r.away {
		if a.holds.Held() >= Worth && (id == "" || a.since.Before(since)) {
			id, since = k, a.since
		}
	}
	if id == "" {
		return "", now.Add(Spared) // one may hold more by then
	}
	if spared := since.Add(Spared); now.Before(spared) {
		return "", spared
	}
	r.ending = id
	return id, time.Time{}
}
