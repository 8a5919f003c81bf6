package transport

import (
	"cmp"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

const (
	// lookEvery is the time between two looks at the connections that use up a limit.
	lookEvery = time.Second
	// askAfter is how long nothing came from a connection before the server asks it with a Ping.
	askAfter = 3 * time.Second
	// answerWithin is how long a connection may take to answer before its place counts as free for
	// clients that resume.
	answerWithin = time.Second
)

// A bound is a limit on connections.
type bound int

const (
	inAll     bound = iota // connections that are no strangers
	ofClient               // connections of an identity, or of an address without credentials
	ofAddress              // connections of an address
	bounds
)

// boundNames are the names of the limits for clients and the log.
var boundNames = [bounds]string{"max-connections", "max-connections-each", "max-connections-each-address"}

// The limits bound the connections of a server. A connection has its place from the handshake to the
// Close frame.
//
// A client whose network fails resumes on new connections, while the server still holds the old ones. So
// beyond a limit, a connection without an answer to a Ping counts as free. The new connection is then
// only for a client that resumes. No limit is ever exceeded twofold.

// A holder is whose connections a bound counts.
type holder struct {
	bound bound
	name  string
}

// holder returns whose connection v is for a bound.
func (v *visitor) holder(b bound) holder {
	switch b {
	case inAll:
		return holder{b, "the server"}
	case ofClient:
		return holder{b, cmp.Or(v.identity.Account(), v.peer())}
	}
	return holder{b, v.peer()}
}

// A tally has the places of a holder.
type tally struct {
	places map[*visitor]struct{}
	looked time.Time // when silent was counted
	silent int       // how many places had not answered a Ping
}

// A fullError reports that a limit on connections is used up.
type fullError struct {
	limit, holder string
	value, used   int
	elsewhere     int  // of used
	cluster       bool // the limit holds in all of a cluster
}

func (e *fullError) Error() string {
	if e.cluster {
		return fmt.Sprintf("%s is %d in this cluster, and %s has %d connections: %d here and %d on other nodes: close one, or try again later", e.limit, e.value, e.holder, e.used, e.used-e.elsewhere, e.elsewhere)
	}
	return fmt.Sprintf("%s is %d here, and %s has %d connections: close one, or try again later", e.limit, e.value, e.holder, e.used)
}

// seat gives v a place below each limit at the time now. The error is a *fullError.
func (v *visitor) seat(id auth.Identity, now time.Time) error {
	s := v.of
	v.heard.Store(now.UnixNano())
	v.identity, v.spare = id, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range bounds {
		h := v.holder(b)
		if s.limits[b] == 0 {
			continue
		}
		full := &fullError{limit: boundNames[b], holder: h.name, value: s.limits[b]}
		if full.cluster = b == ofClient && s.elsewhere != nil; full.cluster {
			full.elsewhere = s.elsewhere(h.name)
		}
		here, silent := 0, 0
		t := s.tallies[h]
		if t != nil {
			here = len(t.places)
		}
		if full.used = here + full.elsewhere; full.used < s.limits[b] {
			continue
		}
		if t != nil {
			t.look(now)
			silent = t.silent
		}
		if here-silent >= s.limits[b] || full.used >= 2*s.limits[b] {
			return full
		}
		v.spare = full
	}
	if !v.gone {
		s.count(v, ofClient)
		s.count(v, ofAddress)
	}
	return nil
}

// accounts returns how many connections each client has, by identity.Account or address; nil: nobody counts them.
func (s *visitors) accounts() map[string]int {
	if s.limits[ofClient] == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int)
	for h, t := range s.tallies {
		if h.bound == ofClient {
			all[h.name] = len(t.places)
		}
	}
	return all
}

// unseat frees the place of a connection whose handshake has failed.
func (v *visitor) unseat() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.leavePlaces()
}

// The caller of the functions below holds mu.

// count adds v to the tally of a bound.
func (s *visitors) count(v *visitor, b bound) {
	if s.limits[b] == 0 {
		return
	}
	h := v.holder(b)
	t := s.tallies[h]
	if t == nil {
		t = &tally{places: make(map[*visitor]struct{})}
		s.tallies[h] = t
	}
	t.places[v] = struct{}{}
}

// look asks the connections from which nothing comes, and counts those without an answer.
func (t *tally) look(now time.Time) {
	if now.Sub(t.looked) < lookEvery {
		return
	}
	t.looked, t.silent = now, 0
	for v := range t.places {
		heard := time.Unix(0, v.heard.Load())
		switch {
		case v.handed && now.Sub(heard) > DefaultPingEvery+askAfter && !v.waits():
			t.silent++
		case v.ask == nil:
		case heard.After(v.asked): // the last Ping was answered
			if now.Sub(heard) >= askAfter {
				v.asked = now
				v.ask()
			}
		case now.Sub(v.asked) >= answerWithin && !v.waits():
			t.silent++
		}
	}
}

// leavePlaces removes v from each tally.
func (v *visitor) leavePlaces() {
	for b := range bounds {
		h := v.holder(b)
		if t := v.of.tallies[h]; t != nil {
			if delete(t.places, v); len(t.places) == 0 {
				delete(v.of.tallies, h)
			}
		}
	}
}
