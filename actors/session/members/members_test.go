package members

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"pgregory.net/rapid"
)

var begin = time.Unix(1_000_000, 0)

func pidOf(name string) *actor.PID { return actor.NewPID("here", "session/"+name) }

// When an actor announces itself, the table says whether it waits for the actor, knows the actor, or has never
// heard of the actor.
func TestAnnounced(t *testing.T) {
	var table Table
	want := func(name string, waits, orphan bool) {
		t.Helper()
		if p, o := table.Announced(name); (p != nil) != waits || o != orphan {
			t.Errorf("%s: %v, orphan %v; want waiting %v, orphan %v", name, p, o, waits, orphan)
		}
	}
	want("p-1", false, true)
	p := &Process{ID: "a", Name: "p-1"}
	table.Add(p)
	want("p-1", true, false)
	want("a", false, true)
	p.PID = pidOf("p-1")
	want("p-1", false, false)
	table.Retire(p)
	want("p-1", false, false)
	table.Add(&Process{ID: "a", Name: "p-2"}) // the id is used again
	want("p-2", true, false)
	table.Gone("p-1")
	want("p-1", false, true)
	table.Forget(table.Get("a"))
	want("p-2", false, true)
}

func TestRemoved(t *testing.T) {
	var table Table
	want := func(ids ...string) {
		t.Helper()
		var got []string
		for _, r := range table.Removed() {
			got = append(got, r.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			t.Errorf("remembers %v, want %v", got, ids)
		}
	}
	remember := func(after time.Duration, id string) {
		table.Remember(begin.Add(after), time.Minute, message.ProcessRemoved{ID: id})
	}
	remember(0, "a")
	remember(time.Second, "b")
	remember(time.Minute, "c")
	want("a", "b", "c") // a minute, and not less
	remember(time.Minute+1, "d")
	want("b", "c", "d")
	remember(time.Minute+2, "c")
	want("b", "d", "c")
	table.Add(&Process{ID: "d", Name: "p-1"}) // the id is used again
	want("b", "c")
	for i := range maxRemoved + 1 {
		remember(time.Minute, fmt.Sprint(i))
	}
	if all := table.Removed(); len(all) != maxRemoved || all[0].ID != "1" {
		t.Errorf("remembers %d, the first is %s", len(all), all[0].ID)
	}
}

// After any events, the parts of the table agree.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		live, lingering, names := make(map[string]string), make(map[string]bool), 0 // id by name
		name := func(t *rapid.T) string { return fmt.Sprint("p-", rapid.IntRange(0, names).Draw(t, "name")) }
		id := rapid.SampledFrom([]string{"a", "b", "c", "p-1"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id := id.Draw(t, "id")
				if table.Get(id) != nil {
					return
				}
				names++
				p := &Process{ID: id, Name: fmt.Sprint("p-", names)}
				table.Add(p)
				live[p.Name] = id
			},
			"announced": func(t *rapid.T) {
				name := name(t)
				p, orphan := table.Announced(name)
				if _, known := live[name]; orphan != (!known && !lingering[name]) || p != nil && !known {
					t.Fatalf("%s: %v, orphan %v", name, p, orphan)
				}
				if p != nil {
					p.PID = pidOf(name)
				}
			},
			"retire": func(t *rapid.T) {
				if p := table.Named(name(t)); p != nil && p.PID != nil {
					table.Retire(p)
					delete(live, p.Name)
					lingering[p.Name] = true
				}
			},
			"gone": func(t *rapid.T) {
				name := name(t)
				known := table.Find(name)
				p, lives := table.Gone(name)
				if _, was := live[name]; p != known || lives != was || (p != nil) != (was || lingering[name]) || p != nil && p.Name != name {
					t.Fatalf("%s is gone: %v, live: %v, want %v, live: %v", name, p, lives, known, was)
				}
				if lives {
					table.Forget(p)
				}
				delete(live, name)
				delete(lingering, name)
			},
			"": func(t *rapid.T) {
				if table.Len() != len(live) || len(table.known) != len(live)+len(lingering) {
					t.Fatalf("%d live, %d known; want %d and %d more", table.Len(), len(table.known), len(live), len(lingering))
				}
				if table.Empty() != (len(live)+len(lingering) == 0) {
					t.Fatalf("empty: %v", table.Empty())
				}
				for name, id := range live {
					if p := table.Named(name); p == nil || p != table.Get(id) || p.Name != name || p.ID != id {
						t.Fatalf("%s, %s: %+v", name, id, p)
					}
				}
				found := 0
				for p := range table.Lingering() {
					if found++; !lingering[p.Name] || !p.PID.Equal(pidOf(p.Name)) {
						t.Fatalf("%+v lingers", p)
					}
				}
				if found != len(lingering) {
					t.Fatalf("%d linger, want %d", found, len(lingering))
				}
			},
		})
	})
}

// A table runs as long as one of its live processes has not closed.
func TestRunning(t *testing.T) {
	var table Table
	want := func(runs bool, what string) {
		t.Helper()
		if table.Running() != runs {
			t.Errorf("%s: running %v, want %v", what, table.Running(), runs)
		}
	}
	want(false, "empty")
	a, b := &Process{ID: "a", Name: "p-1", PID: pidOf("p-1")}, &Process{ID: "b", Name: "p-2", PID: pidOf("p-2")}
	table.Add(a)
	table.Add(b)
	table.Close(a.Name)
	table.Close(a.Name)
	want(true, "one of two closed")
	table.Close(b.Name)
	want(false, "both closed")
	table.Reopen(a.Name)
	table.Reopen(a.Name)
	want(true, "one is run again")
	if p := table.GiveWay(); p != b {
		t.Errorf("%+v gives way, and not b", p)
	}
	table.Close(a.Name)
	want(false, "both closed again")
	if p := table.GiveWay(); p != a {
		t.Errorf("%+v gives way, and not a", p)
	}
	table.Retire(a)
	want(false, "one retired")
	next := &Process{ID: "a", Name: "p-3"}
	table.Add(next)
	want(true, "another has the id")
	table.Forget(next)
	table.Forget(b)
	want(false, "nothing left")
	table.Add(&Process{ID: "c", Name: "p-4"})
	want(true, "a new one")
}

// Closed processes give way in the order in which they closed, each once. Those that are gone do not.
func TestGiveWay(t *testing.T) {
	var table Table
	all := map[string]*Process{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		all[id] = &Process{ID: id, Name: "p-" + id}
		table.Add(all[id])
	}
	if p := table.GiveWay(); p != nil {
		t.Errorf("%s runs, and gives way", p.ID)
	}
	for _, id := range []string{"c", "a", "b", "e", "c"} {
		table.Close(all[id].Name)
	}
	table.Forget(all["a"])
	table.Retire(all["e"])
	table.Add(&Process{ID: "a", Name: "p-again"})
	for _, want := range []string{"c", "b"} {
		if p := table.GiveWay(); p != all[want] {
			t.Errorf("%v gives way, want %s", p, want)
		}
	}
	if p := table.GiveWay(); p != nil {
		t.Errorf("%s gives way, and is not closed", p.ID)
	}
}
