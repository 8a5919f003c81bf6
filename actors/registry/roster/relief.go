package roster

import "time"

const (
	// Spared is how long a session without an owner does not give way: its owner may come back.
	Spared = 10 * time.Second
	// leastHeld is the least that the chosen session holds, in bytes.
	leastHeld = 256 << 10
	// refundTime is how long the memory of a session may still count after its end, until other
	// goroutines have given it back.
	refundTime = time.Second
)

// A Holder says how much memory a session holds, in bytes.
type Holder interface{ Held() int64 }

// A Relief chooses the session that gives way when the server holds too much output: of the sessions that hold at
// least leastHeld, the session that has been without an owner the longest, and for Spared at least. A Relief
// chooses again when the chosen session has ended and its memory was given back, or when the chosen
// session has an owner.
type Relief struct {
	// away holds exactly the sessions without an owner, by id.
	away map[string]away
	// ending is the chosen session; "": none. It is in away, or it has ended.
	ending string
	// refund is when the memory of the chosen session has been given back. Zero until the session
	// has ended.
	refund time.Time
}

// away is a session without an owner.
type away struct {
	since time.Time
	holds Holder
}

// NewRelief returns a Relief without sessions.
func NewRelief() *Relief { return &Relief{away: make(map[string]away)} }

// Away records that a session has had no owner since then.
func (r *Relief) Away(id string, since time.Time, holds Holder) { r.away[id] = away{since, holds} }

// Back records that a session has an owner, and reports whether the session was chosen. If so, Choose may
// choose another.
func (r *Relief) Back(id string) (chosen bool) {
	delete(r.away, id)
	chosen = id == r.ending && r.refund.IsZero()
	if chosen {
		r.ending = ""
	}
	return chosen
}

// Ended records that a session has ended, and reports whether the session was chosen. If so, Choose may
// choose another after refundTime.
func (r *Relief) Ended(now time.Time, id string) (chosen bool) {
	delete(r.away, id)
	chosen = id == r.ending && r.refund.IsZero()
	if chosen {
		r.refund = now.Add(refundTime)
	}
	return chosen
}

// Choose returns the session that gives way now. If there is none, again is when to call Choose again; a zero
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
		if a.holds.Held() >= leastHeld && (id == "" || a.since.Before(since)) {
			id, since = k, a.since
		}
	}
	if id == "" {
		return "", now.Add(Spared) // a session may hold more by then
	}
	if spared := since.Add(Spared); now.Before(spared) {
		return "", spared
	}
	r.ending = id
	return id, time.Time{}
}
