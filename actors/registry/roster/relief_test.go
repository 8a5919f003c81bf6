package roster

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Unix(1_000_000, 0)

type holds int64

func (h holds) Held() int64 { return int64(h) }

func wantChoice(t *testing.T, r *Relief, now time.Duration, id string, again time.Duration) {
	t.Helper()
	want := time.Time{}
	if again > 0 {
		want = begin.Add(again)
	}
	if got, at := r.Choose(begin.Add(now)); got != id || !at.Equal(want) {
		t.Errorf("after %v: %q and again after %v, want %q and %v", now, got, at.Sub(begin), id, again)
	}
}

// The session whose owner left first is evicted first, and the next session after the memory has come back.
func TestOldestEndsFirst(t *testing.T) {
	r := NewRelief()
	wantChoice(t, r, 0, "", 0)
	r.Away("small", begin, holds(leastHeld-1))
	wantChoice(t, r, time.Minute, "", time.Minute+Spared)
	r.Away("newest", begin.Add(3*time.Second), holds(leastHeld))
	r.Away("oldest", begin.Add(1*time.Second), holds(leastHeld))
	r.Away("middle", begin.Add(2*time.Second), holds(leastHeld))
	wantChoice(t, r, 3*time.Second, "", 11*time.Second)
	wantChoice(t, r, 11*time.Second-1, "", 11*time.Second)
	wantChoice(t, r, 11*time.Second, "oldest", 0)
	wantChoice(t, r, 12*time.Second, "", 0)
	r.Ended(begin.Add(13*time.Second), "oldest")
	wantChoice(t, r, 14*time.Second-1, "", 14*time.Second)
	wantChoice(t, r, 14*time.Second, "middle", 0)
	r.Back("middle") // an owner came before the end
	wantChoice(t, r, 14*time.Second, "newest", 0)
}

// After any events, Choose agrees with a plain list of the sessions.
func TestRelief(t *testing.T) {
	type session struct {
		since time.Time // zero: the session has an owner
		held  int64
	}
	rapid.Check(t, func(t *rapid.T) {
		r, now, model := NewRelief(), begin, make(map[string]session)
		chosen, refund := "", time.Time{}
		id := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")) }
		back := func(id string) {
			if id == chosen && refund.IsZero() {
				chosen = ""
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"away": func(t *rapid.T) {
				id := id(t)
				if model[id].since.IsZero() {
					now = now.Add(1) // no two sessions at the same time
					model[id] = session{since: now, held: rapid.Int64Range(leastHeld-1, leastHeld).Draw(t, "held")}
					r.Away(id, now, holds(model[id].held))
				}
			},
			"back": func(t *rapid.T) {
				id := id(t)
				model[id] = session{}
				back(id)
				r.Back(id)
			},
			"ended": func(t *rapid.T) {
				id := id(t)
				delete(model, id)
				if id == chosen && refund.IsZero() {
					refund = now.Add(refundTime)
				}
				r.Ended(now, id)
			},
			"choose": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 12_000).Draw(t, "ms")) * time.Millisecond)
				if !refund.IsZero() && !now.Before(refund) {
					chosen, refund = "", time.Time{}
				}
				want := ""
				for id, s := range model {
					if chosen == "" && !s.since.IsZero() && s.held >= leastHeld && (want == "" || s.since.Before(model[want].since)) {
						want = id
					}
				}
				if want != "" && now.Sub(model[want].since) < Spared {
					want = ""
				}
				got, again := r.Choose(now)
				if got != want {
					t.Fatalf("%q, want %q of %v", got, want, model)
				}
				if got != "" {
					chosen = got
				} else if !again.IsZero() && !again.After(now) {
					t.Fatalf("asked at %v, and is to be asked again at %v", now, again)
				} else if again.IsZero() && chosen == "" && len(r.away) > 0 {
					t.Fatal("never asks again")
				}
			},
		})
	})
}
