// Package lifetime decides when a session ends, and why. The package is a machine without a clock: an input is a method that says what
// happened, and when. Next says what to do, and Wake when to Tick.
package lifetime

import (
	"slices"
	"time"
)

// Limits say how long a session lives. Update changes TTL and KeepRunning.
type Limits struct {
	TTL  time.Duration // how long the session lives without an owner; negative: no limit
	Idle time.Duration // how long the session lives with nobody attached and no output; 0 or less: no limit
	Age  time.Duration // how long the session lives in all; 0 or less: no limit
	// KeepRunning: TTL does not count while a program runs, and begins anew at the end of the last program.
	KeepRunning bool
	// Ephemeral sessions end as soon as they have no owner; TTL does not count.
	Ephemeral bool
}

// Kind is the kind of an Action.
type Kind int

const (
	// Warn: tell everybody attached that the session ends after In, for Reason.
	Warn Kind = iota
	// Abandon: an ephemeral session has lost its owner. The session closes after every earlier
	// message of the registry. Abandon may come more than once.
	Abandon
	// Record: write into the log that the server ends the session, for Reason. End follows.
	Record
	// End: the session is closing. End its processes, with Grace. End may come more than once.
	End
)

// Action is something for the session's actor to do at once.
type Action struct {
	Kind   Kind
	In     time.Duration // of Warn
	Reason string        // of Warn and Record; clients are told
}

// ageWarning is how long before its maximum age a session warns; a tenth of the age if that is less.
const ageWarning = time.Minute

// OwnGrace, as a grace, leaves each process its own time between SIGTERM and SIGKILL.
const OwnGrace time.Duration = -1

// Life is the lifetime of a session. The session's actor owns it.
type Life struct {
	limits  Limits
	created time.Time

	// owned: the session has an owner.
	owned bool
	// detached is when the session lost its owner. Zero with an owner, before the first owner, and
	// in ephemeral sessions.
	detached time.Time
	// runs: a program of the session runs. rested is when the last program ended; zero: none has.
	runs   bool
	rested time.Time
	// expires is when the session ends for want of an owner: TTL after detached, or after rested if
	// that is later and KeepRunning is set. Zero with an owner, without a TTL, while a program keeps the
	// session, and if the session was closing already when the owner left.
	expires time.Time
	// quiet is the last known time at which somebody was attached or a process wrote. Zero while
	// somebody is attached, and if there is no idle limit. It only
	// grows until somebody attaches.
	quiet time.Time
	// warned: the end for age was announced. warned never becomes false again.
	warned bool

	// by is when the session ends because the server leaves, for byReason; zero: the server stays.
	by       time.Time
	byReason string

	// closing: the session ends, for reason. closing never becomes false again, and reason
	// never changes.
	closing bool
	reason  string
	// grace is the most time between SIGTERM and SIGKILL, or OwnGrace. Only Drain changes it
	// once the session is closing.
	grace time.Duration
	// drained: the session closes because of Drain, and clients may attach for the end.
	drained bool

	pending []Action
}

// New returns the lifetime of a session without an owner or observers.
func New(created time.Time, limits Limits) *Life {
	return &Life{limits: limits, created: created}
}

// Next returns the oldest action that is not done. Done follows. After a failure the session does the action again.
func (l *Life) Next() (a Action, ok bool) {
	if len(l.pending) == 0 {
		return Action{}, false
	}
	return l.pending[0], true
}

// Done removes the action that Next returned.
func (l *Life) Done() { l.pending = slices.Delete(l.pending, 0, 1) }

func (l *Life) do(a Action) { l.pending = append(l.pending, a) }

// Created returns the time at which the session began.
func (l *Life) Created() time.Time { return l.created }

// Limits returns the limits that count now.
func (l *Life) Limits() Limits { return l.limits }

// Detached returns when the session lost its owner. The time is zero with an owner, before the first
// owner, and for ephemeral sessions.
func (l *Life) Detached() time.Time { return l.detached }

// Expires returns when the session ends if nobody attaches. The time is zero with an owner, and if there is no such time.
func (l *Life) Expires() time.Time { return l.expires }

// Closing reports whether the session ends, and why.
func (l *Life) Closing() (reason string, closing bool) { return l.reason, l.closing }

// Grace returns the most time that the processes of a closing session have between SIGTERM and
// SIGKILL. OwnGrace: only each process's own limit counts.
func (l *Life) Grace() time.Duration { return l.grace }

// Admits reports whether somebody may attach: always, unless the session is closing for another
// reason than Drain.
func (l *Life) Admits() bool { return !l.closing || l.drained }

// Attached records who is attached now: an owner, and observers. A repeated call asks for nothing but Abandon.
func (l *Life) Attached(now time.Time, owned bool, observers int) {
	l.owned = owned
	switch {
	case owned || observers > 0:
		l.quiet = time.Time{}
	case l.quiet.IsZero() && l.limits.Idle > 0:
		l.quiet = now
	}
	switch {
	case owned:
		l.detached, l.expires = time.Time{}, time.Time{}
	case l.limits.Ephemeral:
		l.do(Action{Kind: Abandon})
	default:
		if l.detached.IsZero() {
			l.detached = now
		}
		l.expire(now)
	}
}

// Running records whether a program runs.
func (l *Life) Running(now time.Time, runs bool) {
	if l.runs == runs {
		return
	}
	l.runs = runs
	if !runs {
		l.rested = now
	}
	if l.limits.KeepRunning {
		l.expire(now)
	}
}

// Update sets the TTL and KeepRunning. An ephemeral session has neither.
func (l *Life) Update(now time.Time, ttl time.Duration, keepRunning bool) {
	l.limits.TTL, l.limits.KeepRunning = ttl, keepRunning
	l.expire(now)
}

// expire sets when a session without an owner ends, and warns if that has changed.
func (l *Life) expire(now time.Time) {
	switch {
	case l.owned || l.closing || l.detached.IsZero():
		return
	case l.limits.TTL < 0 || l.limits.KeepRunning && l.runs:
		l.expires = time.Time{}
		return
	}
	since, why := l.detached, "it has no owner"
	if l.limits.KeepRunning && l.rested.After(since) {
		since, why = l.rested, "it has neither an owner nor a program"
	}
	if at := since.Add(l.limits.TTL); !at.Equal(l.expires) {
		l.expires = at
		l.do(Action{Warn, max(at.Sub(now), 0), why})
	}
}

// Tick does what is due now. wrote is when a process of the session last wrote something.
func (l *Life) Tick(now, wrote time.Time) {
	if l.limits.Age > 0 && !l.closing {
		reason := "session reached its maximum age of " + l.limits.Age.String()
		left := l.created.Add(l.limits.Age).Sub(now)
		if left <= l.warning() && !l.warned { // also on a busy machine, which is late for the warning
			l.warned = true
			l.do(Action{Warn, max(left, 0), reason})
		}
		if left <= 0 {
			l.end(reason)
		}
	}
	if !l.by.IsZero() && !now.Before(l.by) {
		l.end(l.byReason)
	}
	if !l.expires.IsZero() && !now.Before(l.expires) {
		if l.limits.KeepRunning {
			l.end("session expired: no owner and no program for " + l.limits.TTL.String())
		} else {
			l.end("session expired: no owner for " + l.limits.TTL.String())
		}
	}
	if !l.quiet.IsZero() {
		if wrote.After(l.quiet) {
			l.quiet = wrote
		}
		if now.Sub(l.quiet) >= l.limits.Idle {
			l.end("session idle: nobody attached and no output for " + l.limits.Idle.String())
		}
	}
}

// EndBy has the session end at a time because its server leaves, and warns everybody attached. A zero time takes an earlier EndBy back, without a word. A
// repeated EndBy does nothing.
func (l *Life) EndBy(now, at time.Time, reason string) {
	if l.closing || at.Equal(l.by) {
		return
	}
	if l.by, l.byReason = at, reason; !at.IsZero() {
		l.do(l.leaves(now))
	}
}

// leaves returns the warning of EndBy.
func (l *Life) leaves(now time.Time) Action { return Action{Warn, max(l.by.Sub(now), 0), l.byReason} }

// Leaving returns the warning for somebody who attaches after EndBy; ok is false if there was none.
func (l *Life) Leaving(now time.Time) (a Action, ok bool) {
	if l.closing || l.by.IsZero() {
		return Action{}, false
	}
	return l.leaves(now), true
}

// Wake returns when Tick has something to do, if nothing happens before. Zero: never.
func (l *Life) Wake() (next time.Time) {
	if l.closing {
		return time.Time{}
	}
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if l.limits.Age > 0 {
		end := l.created.Add(l.limits.Age)
		if !l.warned {
			end = end.Add(-l.warning())
		}
		sooner(end)
	}
	if !l.expires.IsZero() {
		sooner(l.expires)
	}
	if !l.by.IsZero() {
		sooner(l.by)
	}
	if !l.quiet.IsZero() {
		sooner(l.quiet.Add(l.limits.Idle))
	}
	return next
}

func (l *Life) warning() time.Duration { return min(ageWarning, l.limits.Age/10) }

// Evict ends the session for a policy of the server's. A session with an owner never gives way.
func (l *Life) Evict(reason string) {
	if !l.owned {
		l.end(reason)
	}
}

// end begins the end of the session for a reason of the server's.
func (l *Life) end(reason string) {
	if !l.closing {
		l.do(Action{Kind: Record, Reason: reason})
		l.Close(reason)
	}
}

// Close begins the end of the session for a reason of its clients, unless the end has begun for another reason. Processes have
// their OwnGrace.
func (l *Life) Close(reason string) {
	if !l.closing {
		l.closing, l.reason, l.grace = true, reason, OwnGrace
	}
	l.do(Action{Kind: End})
}

// Drain begins the end of the session because the server shuts down: grace is 0 or more. A session
// that was closing before keeps its reason, and gets the grace of the server.
func (l *Life) Drain(reason string, grace time.Duration) {
	if !l.closing {
		l.drained = true
		l.do(Action{Warn, grace, reason})
	}
	l.Close(reason)
	l.grace = grace
}
