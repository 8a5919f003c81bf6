package roster

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// After any events, the roster agrees with a plain list of the sessions.
func TestRoster(t *testing.T) {
	type session struct {
		from string
		idle time.Time // zero: the session is not idle
	}
	rapid.Check(t, func(t *rapid.T) {
		most, each := rapid.IntRange(1, 6).Draw(t, "most"), rapid.IntRange(0, 3).Draw(t, "each")
		told := make(map[string]int)
		r, model := New(most, each, func(from string, sessions int) { told[from] = sessions }), make(map[string]session)
		clock, next := time.Unix(0, 0), 0
		any := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, max(next, 1)).Draw(t, "id")) }
		from := rapid.SampledFrom([]string{"a", "b", ""})
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				id, f := any(t), from.Draw(t, "from")
				if rapid.Bool().Draw(t, "new") {
					next++
					id = fmt.Sprint(next)
				}
				r.Take(id, f)
				if s, ok := model[id]; !ok || s.from != f {
					model[id] = session{from: f}
				}
			},
			"leave": func(t *rapid.T) {
				id := any(t)
				r.Leave(id)
				delete(model, id)
			},
			"idle": func(t *rapid.T) {
				id := any(t)
				clock = clock.Add(time.Second)
				since := clock
				r.Idle(id, since)
				if s, ok := model[id]; ok {
					s.idle = since
					model[id] = s
				}
			},
			"busy": func(t *rapid.T) {
				id := any(t)
				r.Busy(id)
				if s, ok := model[id]; ok {
					s.idle = time.Time{}
					model[id] = s
				}
			},
			"": func(t *rapid.T) {
				for _, from := range []string{"a", "b", "", "nobody"} {
					mine := 0
					for _, s := range model {
						if s.from == from {
							mine++
						}
					}
					elsewhere := rapid.IntRange(0, 2).Draw(t, "elsewhere")
					if r.Sessions(from) != mine || told[from] != mine {
						t.Fatalf("%q has %d sessions, told %d, want %d", from, r.Sessions(from), told[from], mine)
					}
					full := each > 0 && mine+elsewhere >= each
					want, ok := "", !full && len(model) < most
					for id, s := range model {
						if !ok && !s.idle.IsZero() && (!full || s.from == from) && (want == "" || s.idle.Before(model[want].idle)) {
							want = id
						}
					}
					if got, room := r.Room(from, elsewhere); got != want || room != ok {
						t.Fatalf("room for %q: %q, %v, want %q, %v; %v", from, got, room, want, ok, model)
					}
				}
				keys := make(map[string]bool)
				for _, s := range model {
					keys[s.from] = true
				}
				if len(r.seats) != len(model) || len(r.owners) != len(keys) {
					t.Fatalf("%d seats of %d owner keys, want %d of %d", len(r.seats), len(r.owners), len(model), len(keys))
				}
			},
		})
	})
}
