// Package quota bounds the processes of each owner key (message.Attach.From), over all its sessions.
package quota

import (
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Limits are the limits of each owner key. 0 means no limit.
type Limits struct {
	Processes int     // that run
	Starts    float64 // in a second
	Burst     int     // how many starts may come at once; at least 1
}

// Quotas has what owner keys use. A key that uses nothing is forgotten. Nil Quotas have no limits. Any
// goroutine may call the methods of Quotas and Place; they do not wait.
type Quotas struct {
	limits Limits
	each   time.Duration // how long a start takes from the rate; 0: no limit

	mu     sync.Mutex
	shares map[string]*share
	sweep  int // the number of shares at which Start looks for shares to forget
}

// share is what an owner key uses.
type share struct {
	running int
	// full is when all starts of a burst are possible again: each start moves full by Quotas.each. So
	// full is the whole state of a token bucket.
	full time.Time
}

// A Place is the place of a process that runs. A nil Place counts for nothing.
type Place struct {
	of   *Quotas
	key  string
	left bool // guarded by Quotas.mu
}

// minSweep is the smallest value of Quotas.sweep.
const minSweep = 64

// New returns Quotas with limits; nil if there is no limit.
func New(l Limits) *Quotas {
	if l.Processes <= 0 && l.Starts <= 0 {
		return nil
	}
	q := &Quotas{limits: l, shares: make(map[string]*share), sweep: minSweep}
	if q.limits.Burst = max(l.Burst, 1); l.Starts > 0 {
		q.each = max(time.Duration(float64(time.Second)/l.Starts), 1)
	}
	return q
}

// Start takes n places and n starts for an owner key at the time now, or nothing. So that a group of more
// than a burst can start at all, n processes cost a burst of starts at most.
func (q *Quotas) Start(key string, n int, now time.Time) ([]*Place, *protocol.Error) {
	places := make([]*Place, n)
	if q == nil {
		return places, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.shares[key]
	if s == nil {
		s = new(share)
	}
	if most := q.limits.Processes; most > 0 && n > most-s.running {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "max-processes-each is %d here, %s runs %d, and this start needs %d more", most, wireerr.Clip(key), s.running, n).
			Advise("end a process, or wait until one has ended")
	}
	full := s.full
	if full.Before(now) {
		full = now
	}
	full = full.Add(time.Duration(min(n, q.limits.Burst)) * q.each)
	if wait := full.Sub(now) - time.Duration(q.limits.Burst)*q.each; wait > 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "max-starts-each is %v a second here, %d at once, and %s has used them", q.limits.Starts, q.limits.Burst, wireerr.Clip(key)).
			Advise("try again in %d ms", wait.Milliseconds()+1)
	}
	s.full = full
	s.running += n
	q.shares[key] = s
	for i := range places {
		places[i] = &Place{of: q, key: key}
	}
	if len(q.shares) >= q.sweep {
		for key, s := range q.shares {
			if s.running == 0 && !s.full.After(now) {
				delete(q.shares, key)
			}
		}
		q.sweep = max(minSweep, 2*len(q.shares))
	}
	return places, nil
}

// Leave frees the place. Leave may be called repeatedly.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	s := p.of.shares[p.key]
	if s.running--; s.running == 0 && p.of.each == 0 {
		delete(p.of.shares, p.key) // else the next sweep looks at the starts
	}
}

// Return takes the place again after Leave, even beyond the limit.
func (p *Place) Return() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if !p.left {
		return
	}
	p.left = false
	s := p.of.shares[p.key]
	if s == nil {
		s = new(share)
		p.of.shares[p.key] = s
	}
	s.running++
}
