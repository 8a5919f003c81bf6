// Package supervision decides when what failed is started again, after how
// long, and when it is given up. Policies are plain values without a clock;
// Strategy puts them to work on actors.
package supervision

import (
	"math"
	"time"
)

// Backoff says how long to wait before a restart. The zero Backoff does not wait.
type Backoff struct {
	Initial time.Duration // before the first restart; 0 or less: at once
	Max     time.Duration // no delay is longer; 0 or less: no cap
	Factor  float64       // from one delay to the next; below 1 means 2
	Jitter  float64       // part of the delay that is left to chance, 0 to 1: 0.2 means 80 to 100 %
}

// Delay is the wait before restart n, counted from 1 (less means 1). chance is
// in [0, 1): the caller's random number, so that a decision can be repeated.
func (b Backoff) Delay(n int, chance float64) time.Duration {
	if b.Initial <= 0 {
		return 0
	}
	factor := b.Factor
	if factor < 1 {
		factor = 2
	}
	longest := float64(b.Max)
	if b.Max <= 0 {
		longest = math.MaxInt64
	}
	d := min(float64(b.Initial)*math.Pow(factor, float64(max(n, 1)-1)), longest)
	d -= d * min(max(b.Jitter, 0), 1) * chance
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

// Intensity is how many restarts are too many, as in OTP: more than Restarts
// within Period. With no Restarts the first failure is the last; a Period of 0
// or less counts every failure there ever was.
type Intensity struct {
	Restarts int
	Period   time.Duration
}

// Tally remembers the failures that still count against an Intensity. The zero
// Tally is empty. It never holds more than Restarts+1 of them.
type Tally struct{ failures []time.Time }

// Failed adds a failure at now. It returns how many count, this one included,
// and whether they are too many.
func (t *Tally) Failed(now time.Time, in Intensity) (n int, exceeded bool) {
	if in.Period > 0 {
		old := 0
		for old < len(t.failures) && now.Sub(t.failures[old]) >= in.Period {
			old++
		}
		t.failures = t.failures[old:]
	}
	if len(t.failures) > in.Restarts {
		t.failures = t.failures[1:]
	}
	t.failures = append(t.failures, now)
	n = len(t.failures)
	return n, n > in.Restarts
}
