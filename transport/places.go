package transport

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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

// places bounds the connections of a server. A connection has its place from the handshake to the
// Close frame.
//
// A client whose network fails resumes on new connections, while the server still holds the old ones. So
// beyond a limit, a connection without an answer to a Ping counts as free. The new connection is then
// only for a client that resumes. No limit is ever exceeded twofold.
//
// Any goroutine may call the methods of places.
type places struct {
	limits [bounds]int // 0: no limit

	mu      sync.Mutex
	tallies map[holder]*tally // each has a place
}

// A holder is whose connections a bound counts.
type holder struct {
	bound bound
	name  string
}

// A tally has the places of a holder.
type tally struct {
	places map[*place]struct{}
	looked time.Time // when silent was counted
	silent int       // how many places had not answered a Ping
}

// A place is the place of one connection. A nil place counts for nothing.
type place struct {
	of    *places
	names [bounds]string
	// spare says which limit is used up: only a client that resumes may use the connection. Nil: none.
	spare *fullError
	heard atomic.Int64 // when bytes came last, in nanoseconds since 1970

	// Guarded by places.mu.
	left  bool
	asked time.Time   // when the server asked last
	ask   func()      // sends a Ping and does not block; nil: the connection has no Pings
	waits func() bool // reports whether bytes wait to be read
}

// A fullError reports that a limit on connections is used up.
type fullError struct {
	limit, holder string
	value, used   int
}

func (e *fullError) Error() string {
	return fmt.Sprintf("%s is %d here, and %s has %d connections: close one, or try again later", e.limit, e.value, e.holder, e.used)
}

func newPlaces(all, each, eachAddress int) *places {
	return &places{limits: [bounds]int{max(all, 0), max(each, 0), max(eachAddress, 0)}, tallies: make(map[holder]*tally)}
}

// enter gives a connection a place at the time now. identity is empty without credentials. The error is a
// *fullError.
func (s *places) enter(identity, address string, now time.Time) (*place, error) {
	p := &place{of: s, names: [bounds]string{"the server", cmp.Or(identity, address), address}}
	p.heard.Store(now.UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range bounds {
		t := s.tallies[holder{b, p.names[b]}]
		if t == nil || s.limits[b] == 0 || len(t.places) < s.limits[b] {
			continue
		}
		full := &fullError{boundNames[b], p.names[b], s.limits[b], len(t.places)}
		t.look(now)
		if len(t.places)-t.silent >= s.limits[b] || len(t.places) >= 2*s.limits[b] {
			return nil, full
		}
		p.spare = full
	}
	s.count(p, ofClient)
	s.count(p, ofAddress)
	return p, nil
}

// count adds p to the tally of a bound. The caller holds mu.
func (s *places) count(p *place, b bound) {
	if s.limits[b] == 0 {
		return
	}
	h := holder{b, p.names[b]}
	t := s.tallies[h]
	if t == nil {
		t = &tally{places: make(map[*place]struct{})}
		s.tallies[h] = t
	}
	t.places[p] = struct{}{}
}

// look asks the connections from which nothing comes, and counts those without an answer.
func (t *tally) look(now time.Time) {
	if now.Sub(t.looked) < lookEvery {
		return
	}
	t.looked, t.silent = now, 0
	for p := range t.places {
		heard := time.Unix(0, p.heard.Load())
		switch {
		case p.ask == nil:
		case heard.After(p.asked): // the last Ping was answered
			if now.Sub(heard) >= askAfter {
				p.asked = now
				p.ask()
			}
		case now.Sub(p.asked) >= answerWithin && !p.waits():
			t.silent++
		}
	}
}

// opens records how to ask the connection. ask and waits do not block.
func (p *place) opens(ask func(), waits func() bool) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.ask, p.waits = ask, waits
}

// hears records that bytes came.
func (p *place) hears() {
	if p != nil {
		p.heard.Store(time.Now().UnixNano())
	}
}

// admit records that the connection is no stranger.
func (p *place) admit() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if !p.left {
		p.of.count(p, inAll)
	}
}

// leave frees the place. leave may be called repeatedly.
func (p *place) leave() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.left = true
	for b := range bounds {
		h := holder{b, p.names[b]}
		if t := p.of.tallies[h]; t != nil {
			if delete(t.places, p); len(t.places) == 0 {
				delete(p.of.tallies, h)
			}
		}
	}
}

// onlyResumes returns why only a client that resumes may use the connection; "": any client may.
func (p *place) onlyResumes() string {
	if p == nil || p.spare == nil {
		return ""
	}
	return p.spare.Error()
}
