// Package supervision decides when a failed process or actor starts again, after how long, and when to give up.
// Policies are plain values without a clock. Package protocol has the same words as they are sent; actors/internal/policy translates.
//
// # Where to look
//
//   - restart.go: the restart policy of one process: after which ends, how often, after how long
//   - group.go: a group of processes: who starts and stops with whom (GroupStrategy). Whether a member
//     runs again, Group asks the History (restart.go) of the member. Group is a pure machine
//   - strategy.go: the same policy for actors: protoactor's supervisor strategy
//   - supervision.go: backoff and intensity, for all of them
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
	Jitter  float64       // random part of the delay, 0 to 1: 0.2 means 80 to 100 %
}

// Delay returns the wait before restart n, counted from 1. Less than 1 means 1. chance is a random number in [0,
// 1) of the caller, so a test can repeat a decision.
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

// Intensity says how many restarts are too many, as in OTP: more than Restarts within Period. If Restarts is 0,
// the first failure is the last. If Period is 0 or less, every failure so far counts.
type Intensity struct {
	Restarts int
	Period   time.Duration
}

// Tally remembers the failures within the Period of an Intensity. The zero Tally is empty. A Tally never holds
// more than Restarts+1 failures.
type Tally struct{ failures []time.Time }

// Failed adds a failure at now. Failed returns how many failures count, the new failure included, and whether
// there are too many.
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
