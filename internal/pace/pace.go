// Package pace holds bytes to a rate, and shares the rate among all who want to move bytes: the output of the programs of an identity, and what they
// read from stdin (actors/internal/quota, actors/child). Viewers have no rate: a connection asks for
// output when its last delivery is sent (actors/connection/output.go).
package pace

import (
	"sync"
	"time"
)

// A Rate is how many tokens come in a second, and how many there may be at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (r Rate) time(n int) time.Duration {
	return time.Duration(float64(n) / r.PerSecond * float64(time.Second))
}

// A Bucket is a token bucket. The zero Bucket is full.
type Bucket struct{ full time.Time } // when all tokens of a burst are there again

// Take takes n tokens at the time now. If there are fewer, Take takes none, and returns how long it takes
// until there are n. More tokens than a burst never come.
func (b *Bucket) Take(r Rate, n int, now time.Time) (wait time.Duration) {
	if wait = b.Wait(r, n, now); wait == 0 {
		b.Spend(r, n, now)
	}
	return wait
}

// Wait returns how long it takes from the time now until there are n tokens; 0: there are n.
func (b *Bucket) Wait(r Rate, n int, now time.Time) time.Duration {
	return max(0, b.after(r, n, now).Sub(now)-r.time(r.Burst))
}

// Spend takes n tokens at the time now, even if there are fewer.
func (b *Bucket) Spend(r Rate, n int, now time.Time) { b.full = b.after(r, n, now) }

// after returns when the bucket would be full if n tokens were taken at the time now.
func (b *Bucket) after(r Rate, n int, now time.Time) time.Time {
	full := b.full
	if full.Before(now) {
		full = now
	}
	return full.Add(r.time(n))
}

// Give gives n tokens back.
func (b *Bucket) Give(r Rate, n int) { b.full = b.full.Add(-r.time(n)) }

// Change has the bucket go on with another rate at the time now. The tokens that are there stay, up to a burst of the new rate: changes there and
// back make no tokens.
func (b *Bucket) Change(from, to Rate, now time.Time) {
	tokens := float64(from.Burst) - b.after(from, 0, now).Sub(now).Seconds()*from.PerSecond
	b.full = now.Add(time.Duration((float64(to.Burst) - tokens) / to.PerSecond * float64(time.Second)))
}

// Full reports whether all tokens of a burst are there.
func (b *Bucket) Full(now time.Time) bool { return !b.full.After(now) }

// A turn moves at most the bytes that come in a 64th of a second, within these bounds.
const (
	turnsPerSecond = 64
	minTurn        = 1 << 10
	maxTurn        = 128 << 10
)

// MinRate is the smallest rate of a Meter, in bytes per second.
const MinRate = minTurn

// A Meter holds bytes to a rate. As many bytes as come in a second may move at once. Whoever finds no bytes
// waits in a queue, and each Flow in the queue has a turn before another Flow has a second. A Meter has no
// goroutine, and a timer only while a Flow waits.
//
// Any goroutine may call the methods of Meter and Flow. They do not wait. A nil Meter and a nil Flow have no
// limit.
type Meter struct {
	mu     sync.Mutex
	rate   Rate
	turn   int // the bytes of a turn
	bucket Bucket
	queue  []*Flow     // each once
	due    *time.Timer // calls serve while queue is not empty; nil: no Flow has waited yet
}

// A Flow is one of those who share a Meter.
type Flow struct {
	meter *Meter
	wake  func()

	// Guarded by Meter.mu.
	waits   bool // in the queue
	granted int  // bytes of its turn, not yet taken
	gone    bool // Leave was called
}

// NewMeter returns a Meter for a number of bytes per second, at least MinRate; nil for 0 or less.
func NewMeter(perSecond int64) *Meter {
	if perSecond <= 0 {
		return nil
	}
	m := &Meter{}
	m.rate, m.turn = rateOf(perSecond)
	return m
}

// rateOf returns the rate of a Meter, and the bytes of a turn.
func rateOf(perSecond int64) (Rate, int) {
	perSecond = max(perSecond, MinRate)
	return Rate{PerSecond: float64(perSecond), Burst: int(perSecond)}, int(min(max(perSecond/turnsPerSecond, minTurn), maxTurn))
}

// Change has the meter go on with another number of bytes per second, at least MinRate.
func (m *Meter) Change(perSecond int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.rate
	m.rate, m.turn = rateOf(perSecond)
	m.bucket.Change(last, m.rate, time.Now())
	if len(m.queue) > 0 {
		m.arm(m.lacks())
	}
}

// Drain takes the bytes that there are: at the time full, and not before, as many bytes as come in a second may move at once.
func (m *Meter) Drain(full time.Time) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bucket.full = full
	}
}

// Flow returns a new Flow. The meter calls wake, without holding a lock, when a turn has come after a Take that
// returned 0. wake must not block.
func (m *Meter) Flow(wake func()) *Flow {
	if m == nil {
		return nil
	}
	return &Flow{meter: m, wake: wake}
}

// Idle reports whether a new Meter would be as good as m.
func (m *Meter) Idle(now time.Time) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0 && m.bucket.Full(now)
}

// Take returns how many bytes may move, at most most. Take returns 0 if f has to wait: then the meter calls
// wake. The caller moves the bytes, or gives them back.
func (f *Flow) Take(most int) int {
	if f == nil || most <= 0 {
		return most
	}
	m := f.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(most, m.turn)
	switch {
	case f.granted > 0:
		n = min(n, f.granted)
		m.give(f.granted - n)
		f.granted = 0
		return n
	case f.waits || f.gone:
		return 0
	case len(m.queue) == 0 && m.bucket.Take(m.rate, n, time.Now()) == 0:
		return n
	}
	f.waits = true
	if m.queue = append(m.queue, f); len(m.queue) == 1 {
		m.arm(m.lacks())
	}
	return 0
}

// Give gives n bytes back that did not move.
func (f *Flow) Give(n int) {
	if f == nil || n <= 0 {
		return
	}
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	f.meter.give(n)
}

// Waits reports whether f waits for its turn.
func (f *Flow) Waits() bool {
	if f == nil {
		return false
	}
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	return f.waits
}

// Leave ends f, which wants no more turns.
func (f *Flow) Leave() {
	if f == nil {
		return
	}
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	f.gone = true // serve removes f from the queue
	f.meter.give(f.granted)
	f.granted = 0
}

// The caller of the methods below holds mu.

func (m *Meter) give(n int) {
	if n == 0 {
		return
	}
	m.bucket.Give(m.rate, n)
	if len(m.queue) > 0 {
		m.arm(m.lacks())
	}
}

// lacks is how long it takes until there are the bytes of a turn; 0: they are there.
func (m *Meter) lacks() time.Duration {
	peek := m.bucket
	return peek.Take(m.rate, m.turn, time.Now())
}

func (m *Meter) arm(wait time.Duration) {
	if m.due == nil {
		m.due = time.AfterFunc(wait, m.serve)
	} else {
		m.due.Reset(wait)
	}
}

// serve gives turns as long as there are bytes. The timer calls serve: callers of Take and Give may hold locks
// that wake needs.
func (m *Meter) serve() {
	var woken []*Flow
	m.mu.Lock()
	for len(m.queue) > 0 {
		f := m.queue[0]
		if !f.gone {
			if wait := m.bucket.Take(m.rate, m.turn, time.Now()); wait > 0 {
				m.arm(wait)
				break
			}
			f.granted = m.turn
			woken = append(woken, f)
		}
		f.waits = false
		m.queue[0] = nil
		m.queue = m.queue[1:]
	}
	if len(m.queue) == 0 {
		m.queue = nil
	}
	m.mu.Unlock()
	for _, f := range woken {
		f.wake()
	}
}
