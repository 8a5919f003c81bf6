package lifetime

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Unix(1_000_000, 0)

// life is a Life with inputs that return the actions which follow, except the End that follows each Record.
type life struct{ *Life }

func newLife(limits Limits) life { return life{New(begin, limits)} }

func (l life) actions() (all []Action) {
	for a, ok := l.Life.Next(); ok; a, ok = l.Life.Next() {
		if a.Kind == End && len(all) > 0 && all[len(all)-1].Kind == Record {
			all[len(all)-1].Kind = End
		} else if a.Kind != End {
			all = append(all, a)
		}
		l.Done()
	}
	return all
}

func (l life) Attached(now time.Time, owned bool, observers int) []Action {
	l.Life.Attached(now, owned, observers)
	return l.actions()
}

func (l life) Running(now time.Time, runs bool) []Action {
	l.Life.Running(now, runs)
	return l.actions()
}

func (l life) Update(now time.Time, ttl time.Duration, keepRunning bool) []Action {
	l.Life.Update(now, ttl, keepRunning)
	return l.actions()
}

func (l life) Tick(now, wrote time.Time) []Action {
	l.Life.Tick(now, wrote)
	return l.actions()
}

func (l life) Evict(reason string) []Action {
	l.Life.Evict(reason)
	return l.actions()
}

func (l life) Drain(reason string, grace time.Duration) []Action {
	l.Life.Drain(reason, grace)
	return l.actions()
}

func (l life) EndBy(now, at time.Time) []Action {
	l.Life.EndBy(now, at, "leaves")
	return l.actions()
}

func at(d time.Duration) time.Time { return begin.Add(d) }

// never is the last write of a session without output.
var never = time.Unix(0, 0)

func want(t *testing.T, what string, got []Action, want ...Action) {
	t.Helper()
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func wantNext(t *testing.T, l life, d time.Duration) {
	t.Helper()
	if got := l.Wake(); !got.Equal(at(d)) {
		t.Errorf("the next tick is after %v, want %v", got.Sub(begin), d)
	}
}

func TestExpiry(t *testing.T) {
	l := newLife(Limits{TTL: time.Minute})
	want(t, "an owner", l.Attached(at(0), true, 0))
	if !l.Wake().IsZero() {
		t.Errorf("a session with an owner waits for %v", l.Wake())
	}
	want(t, "its end", l.Attached(at(time.Second), false, 0), Action{Warn, time.Minute, "it has no owner"})
	want(t, "its end once more", l.Attached(at(30*time.Second), false, 1))
	wantNext(t, l, 61*time.Second)
	want(t, "too early", l.Tick(at(61*time.Second-1), never))
	want(t, "the owner is back", l.Attached(at(61*time.Second-1), true, 0))
	want(t, "a late tick", l.Tick(at(time.Hour), never))
	want(t, "the owner leaves again", l.Attached(at(time.Hour), false, 0), Action{Warn, time.Minute, "it has no owner"})
	want(t, "expired", l.Tick(at(time.Hour+time.Minute), never), Action{End, 0, "session expired: no owner for 1m0s"})
	want(t, "another tick", l.Tick(at(2*time.Hour), never))
	if reason, closing := l.Closing(); !closing || reason != "session expired: no owner for 1m0s" || l.Grace() != OwnGrace || l.Admits() {
		t.Errorf("closing %v for %q with %v, admits %v", closing, reason, l.Grace(), l.Admits())
	}
}

// While a program runs, the TTL of a session with KeepRunning stands still. It begins anew with the end of the
// last program.
func TestKeepRunning(t *testing.T) {
	const why = "it has neither an owner nor a program"
	l := newLife(Limits{TTL: time.Minute, KeepRunning: true})
	l.Attached(at(0), true, 0)
	want(t, "a program", l.Running(at(0), true))
	want(t, "the owner leaves", l.Attached(at(time.Second), false, 0))
	want(t, "much later", l.Tick(at(24*time.Hour), never))
	if !l.Wake().IsZero() {
		t.Errorf("waits for %v", l.Wake())
	}
	want(t, "the program ends", l.Running(at(24*time.Hour), false), Action{Warn, time.Minute, why})
	want(t, "another begins", l.Running(at(24*time.Hour+time.Second), true))
	want(t, "and ends", l.Running(at(25*time.Hour), false), Action{Warn, time.Minute, why})
	want(t, "too early", l.Tick(at(25*time.Hour+time.Minute-1), never))
	want(t, "expired", l.Tick(at(25*time.Hour+time.Minute), never), Action{End, 0, "session expired: no owner and no program for 1m0s"})

	l = newLife(Limits{TTL: time.Minute, KeepRunning: true})
	l.Running(at(0), true)
	l.Running(at(time.Second), false)
	want(t, "the owner leaves later", l.Attached(at(time.Hour), false, 0), Action{Warn, time.Minute, "it has no owner"})
}

// A change of the limits counts from when the owner left.
func TestUpdate(t *testing.T) {
	l := newLife(Limits{TTL: time.Minute})
	l.Running(at(0), true)
	l.Attached(at(0), false, 0)
	want(t, "longer", l.Update(at(time.Second), time.Hour, false), Action{Warn, time.Hour - time.Second, "it has no owner"})
	want(t, "the same", l.Update(at(time.Second), time.Hour, false))
	want(t, "after the old TTL", l.Tick(at(time.Minute), never))
	want(t, "for ever", l.Update(at(time.Minute), -1, false))
	want(t, "after the new TTL", l.Tick(at(time.Hour), never))
	want(t, "kept by its program", l.Update(at(time.Hour), time.Minute, true))
	want(t, "with the program", l.Tick(at(2*time.Hour), never))
	want(t, "not kept any more", l.Update(at(2*time.Hour), time.Minute, false), Action{Warn, 0, "it has no owner"})
	want(t, "at once", l.Tick(at(2*time.Hour), never), Action{End, 0, "session expired: no owner for 1m0s"})
	if limits := l.Limits(); limits.TTL != time.Minute || limits.KeepRunning {
		t.Errorf("%+v", limits)
	}
}

func TestNoTTL(t *testing.T) {
	l := newLife(Limits{TTL: -1})
	want(t, "no owner", l.Attached(at(0), false, 0))
	want(t, "much later", l.Tick(at(1e6*time.Hour), never))
	if !l.Wake().IsZero() || !l.Detached().Equal(begin) {
		t.Errorf("waits for %v, detached since %v", l.Wake(), l.Detached())
	}
}

func TestIdle(t *testing.T) {
	const reason = "session idle: nobody attached and no output for 1m0s"
	l := newLife(Limits{TTL: -1, Idle: time.Minute})
	l.Attached(at(0), false, 1)
	if !l.Wake().IsZero() {
		t.Errorf("with an observer it waits for %v", l.Wake())
	}
	l.Attached(at(0), false, 0)
	wantNext(t, l, time.Minute)
	want(t, "output meanwhile", l.Tick(at(time.Minute), at(20*time.Second)))
	wantNext(t, l, 80*time.Second)
	want(t, "somebody looks", l.Attached(at(79*time.Second), false, 1))
	want(t, "while somebody looks", l.Tick(at(time.Hour), never))
	want(t, "it leaves", l.Attached(at(time.Hour), false, 0))
	want(t, "too early", l.Tick(at(time.Hour+time.Minute-1), at(0)))
	want(t, "idle", l.Tick(at(time.Hour+time.Minute), at(0)), Action{End, 0, reason})
}

func TestAge(t *testing.T) {
	for _, test := range []struct{ age, warning time.Duration }{
		{time.Hour, time.Minute},
		{100 * time.Second, 10 * time.Second},
	} {
		reason := "session reached its maximum age of " + test.age.String()
		l := newLife(Limits{TTL: -1, Age: test.age})
		l.Attached(at(0), true, 0)
		wantNext(t, l, test.age-test.warning)
		want(t, "before the warning", l.Tick(at(test.age-test.warning-1), never))
		want(t, "the warning", l.Tick(at(test.age-test.warning), never), Action{Warn, test.warning, reason})
		want(t, "no second warning", l.Tick(at(test.age-1), never))
		wantNext(t, l, test.age)
		want(t, "the end, with an owner", l.Tick(at(test.age), never), Action{End, 0, reason})

		late := newLife(Limits{TTL: -1, Age: test.age})
		late.Attached(at(0), true, 0)
		want(t, "the end, long after the time of the warning", late.Tick(at(test.age+time.Second), never), Action{Warn, 0, reason}, Action{End, 0, reason})
	}
}

func TestEphemeral(t *testing.T) {
	l := newLife(Limits{TTL: time.Minute, Ephemeral: true})
	l.Attached(at(0), true, 0)
	for range 2 {
		want(t, "the owner leaves", l.Attached(at(1), false, 0), Action{Kind: Abandon})
	}
	if !l.Detached().IsZero() || !l.Wake().IsZero() {
		t.Errorf("detached since %v, waits for %v", l.Detached(), l.Wake())
	}
}

func TestEvict(t *testing.T) {
	l := newLife(Limits{TTL: time.Minute})
	l.Attached(at(0), true, 0)
	want(t, "with an owner", l.Evict("memory"))
	l.Attached(at(0), false, 3)
	want(t, "with observers", l.Evict("memory"), Action{End, 0, "memory"})
	want(t, "again", l.Evict("place"))
}

func TestDrain(t *testing.T) {
	l := newLife(Limits{TTL: time.Minute})
	want(t, "it lives", l.Drain("shutdown", 0), Action{Warn, 0, "shutdown"})
	if !l.Admits() || l.Grace() != 0 {
		t.Errorf("admits %v, grace %v", l.Admits(), l.Grace())
	}
	l.Close("by request")
	if reason, _ := l.Closing(); reason != "shutdown" {
		t.Errorf("the reason has become %q", reason)
	}
	want(t, "no owner while it is closing", l.Attached(at(0), false, 0))

	l = newLife(Limits{TTL: time.Minute})
	l.Close("by request")
	want(t, "it was closing", l.Drain("shutdown", time.Second))
	if reason, _ := l.Closing(); reason != "by request" || l.Admits() || l.Grace() != time.Second {
		t.Errorf("closing for %q, admits %v, grace %v", reason, l.Admits(), l.Grace())
	}
}

// After any events, a session ends once, never before its time, and at the first tick after its time.
// A session whose server leaves warns at once, and ends at its time; a session without a server that leaves goes on.
func TestEndBy(t *testing.T) {
	l := newLife(Limits{TTL: -1})
	want(t, "an owner", l.Attached(at(0), true, 0))
	want(t, "leaves", l.EndBy(at(time.Second), at(time.Minute)), Action{Warn, 59 * time.Second, "leaves"})
	want(t, "repeated", l.EndBy(at(2*time.Second), at(time.Minute)))
	if a, ok := l.Leaving(at(10 * time.Second)); !ok || a != (Action{Warn, 50 * time.Second, "leaves"}) {
		t.Errorf("who attaches later is told %+v, %v", a, ok)
	}
	wantNext(t, l, time.Minute)
	want(t, "taken back", l.EndBy(at(3*time.Second), time.Time{}))
	if a, ok := l.Leaving(at(4 * time.Second)); ok {
		t.Errorf("who attaches after that is told %+v", a)
	}
	want(t, "no end", l.Tick(at(time.Hour), never))
	want(t, "leaves again, late", l.EndBy(at(time.Hour), at(time.Minute)), Action{Warn, 0, "leaves"})
	want(t, "its end", l.Tick(at(time.Hour), never), Action{Kind: End, Reason: "leaves"})
	want(t, "over", l.EndBy(at(time.Hour), at(2*time.Hour)))
	if _, ok := l.Leaving(at(time.Hour)); ok {
		t.Error("a session that closes warns")
	}
}

func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string) time.Duration {
			return time.Duration(rapid.SampledFrom([]int{-1, 7, 20, 100}).Draw(t, name)) * time.Second
		}
		limits := Limits{TTL: limit("ttl"), Idle: limit("idle"), Age: limit("age"), Ephemeral: rapid.Bool().Draw(t, "ephemeral"), KeepRunning: rapid.Bool().Draw(t, "keepRunning")}
		l, now, wrote := newLife(limits), begin, never
		var lost, alone time.Time // when the last owner, and everybody, left
		var rested time.Time      // when the last program ended
		runs := false
		owned, observers, ends := false, 0, 0
		expired := func() bool {
			since := lost
			if limits.KeepRunning && rested.After(lost) {
				since = rested
			}
			return limits.TTL > 0 && !limits.Ephemeral && !lost.IsZero() && now.Sub(since) >= limits.TTL && !(limits.KeepRunning && runs)
		}
		take := func(t *rapid.T, actions []Action) {
			for _, a := range actions {
				reason, closing := l.Closing()
				if a.Kind != End {
					continue
				}
				if ends++; ends > 1 || !closing || reason != a.Reason {
					t.Fatalf("end %d for %q: closing %v for %q", ends, a.Reason, closing, reason)
				}
			}
		}
		attached := func(t *rapid.T) {
			switch {
			case owned:
				lost = time.Time{}
			case lost.IsZero():
				lost = now
			}
			switch {
			case owned || observers > 0:
				alone = time.Time{}
			case alone.IsZero():
				alone = now
			}
			take(t, l.Attached(now, owned, observers))
		}
		past := func(limit time.Duration, since time.Time) bool {
			return limit > 0 && !since.IsZero() && now.Sub(since) >= limit
		}
		t.Repeat(map[string]func(*rapid.T){
			"owner":     func(t *rapid.T) { owned = rapid.Bool().Draw(t, "owned"); attached(t) },
			"observers": func(t *rapid.T) { observers = rapid.IntRange(0, 2).Draw(t, "observers"); attached(t) },
			"write":     func(t *rapid.T) { wrote = now },
			"tick": func(t *rapid.T) {
				next := l.Wake()
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
				_, was := l.Closing()
				quiet := alone
				if !alone.IsZero() && wrote.After(alone) {
					quiet = wrote
				}
				due := !was && (past(limits.Age, begin) || expired() || past(limits.Idle, quiet))
				actions := l.Tick(now, wrote)
				if len(actions) > 0 && (next.IsZero() || now.Before(next)) {
					t.Fatalf("%+v at %v, which Next did not foresee: %v", actions, now, next)
				}
				if ended := len(actions) > 0 && actions[len(actions)-1].Kind == End; ended != due {
					t.Fatalf("%+v at %v, due: %v", actions, now, due)
				}
				if next := l.Wake(); !next.IsZero() && !next.After(now) {
					t.Fatalf("ticked at %v, and is to be ticked at %v", now, next)
				}
				take(t, actions)
			},
			"running": func(t *rapid.T) {
				was := runs
				if runs = rapid.Bool().Draw(t, "runs"); was && !runs {
					rested = now
				}
				take(t, l.Running(now, runs))
			},
			"update": func(t *rapid.T) {
				limits.TTL, limits.KeepRunning = limit("ttl"), rapid.Bool().Draw(t, "keepRunning")
				take(t, l.Update(now, limits.TTL, limits.KeepRunning))
			},
			"evict": func(t *rapid.T) {
				_, was := l.Closing()
				actions := l.Evict("evicted")
				if (len(actions) > 0) != (!owned && !was) {
					t.Fatalf("%+v, owned %v, closing %v", actions, owned, was)
				}
				take(t, actions)
			},
			"drain": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					take(t, l.Drain("drain", time.Second))
				}
			},
			"": func(t *rapid.T) {
				_, closing := l.Closing()
				if closing && !l.Wake().IsZero() {
					t.Fatal("a closing session waits")
				}
				if l.owned != owned || !l.Detached().IsZero() && (owned || limits.Ephemeral) {
					t.Fatalf("owned %v, want %v; detached since %v", l.owned, owned, l.Detached())
				}
				if !limits.Ephemeral && !l.Detached().Equal(lost) {
					t.Fatalf("detached since %v, want %v", l.Detached(), lost)
				}
			},
		})
	})
}
