package journal

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// Each field of an event and of the record outlives the server, or says why not.
func TestEventsAreKept(t *testing.T) {
	for _, v := range []reflect.Type{reflect.TypeFor[protocol.ServerEvent](), reflect.TypeFor[kept]()} {
		if err := record.Check(v); err != nil {
			t.Error(err)
		}
	}
}

// The next server has the events of all identities, and says the same about what was lost. A session goes on with its state. A ring that is forgotten
// leaves no chain.
func TestDeathOfAServer(t *testing.T) {
	h := testholder.New(t)
	next := func() (*Journal, *estate.Estate) {
		e, err := estate.Open(h, h.Next(), 16<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		j := New(16, e, nil)
		e.Revived()
		e.DropRest()
		return j, e
	}
	read := func(j *Journal, who string) protocol.ServerEventsResult {
		r := j.Read(Question{Who: identity.Identity{Name: who}})
		r.NextUs = 0
		return r
	}
	started := protocol.ServerEvent{Kind: protocol.ServerStarted, ProcessID: "p", Argv: []string{"a", "b"}, Run: 1}
	j, e := next()
	alice, bob := j.Source("alice", "s", "first"), j.Source("bob", "t", "")
	alice.Put(started)
	alice.Rename("second")
	alice.Put(protocol.ServerEvent{Kind: protocol.ServerExited, ProcessID: "p", Status: &protocol.ExitStatus{ExitCode: 7}})
	alice.Become(protocol.ServerDetached, "cut")
	for range 14 { // bob loses events, alice does not
		bob.Put(started)
	}
	if r := read(j, "bob"); len(r.Events) == 0 || r.WholeUs == read(j, "alice").WholeUs {
		t.Fatalf("bob has lost nothing: %+v", r)
	}
	for i := range 2 {
		old := j
		j, e = next()
		for _, who := range []string{"alice", "bob"} {
			if was, is := read(old, who), read(j, who); !reflect.DeepEqual(was, is) {
				t.Errorf("the next server has for %s\n%+v, want\n%+v", who, is, was)
			}
		}
		if read(j, "bob").Events[0].AtUs <= read(j, "bob").WholeUs {
			t.Error("an event that was lost is there")
		}
		j.Replaced(protocol.Replacement{Reason: "killed", GapMs: uint64(i)})
		alice = j.Source("alice", "s", "second")
		alice.Resume()
		alice.Become(protocol.ServerAttached, fmt.Sprint(i))
		alice.Become(protocol.ServerAttached, "again")
		alice.Become(protocol.ServerDetached, "cut")
		if events := read(j, "alice").Events; len(events) != 7+3*i || events[len(events)-2].Kind != protocol.ServerAttached {
			t.Errorf("after death %d alice has %+v", i+1, events)
		}
	}
	for i := range 40 {
		j.Source(fmt.Sprint("identity ", i), "x", "").Put(started)
	}
	chains := 0
	for owner := range uint64(60) {
		if e.Chain(owner) != nil {
			chains++
		}
	}
	if chains != len(j.rings) {
		t.Errorf("%d chains of %d rings", chains, len(j.rings))
	}
	was := read(j, "alice")
	j, _ = next()
	if is := read(j, "alice"); len(was.Events) != 2 || !reflect.DeepEqual(is, was) { // replaced, twice
		t.Errorf("alice has %+v, want %+v", is, was)
	}
}

func BenchmarkPut(b *testing.B) {
	h := testholder.New(b)
	e, err := estate.Open(h, h.Next(), 64<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	for name, e := range map[string]*estate.Estate{"kept": e, "lost": nil} {
		b.Run(name, func(b *testing.B) {
			s := New(8<<10, e, nil).Source("alice", "0123456789abcdef0123456789abcdef", "")
			event := protocol.ServerEvent{Kind: protocol.ServerStarted, ProcessID: "p", Instance: "0123456789abcdef", Argv: []string{"a", "b"}, Run: 1}
			for b.Loop() {
				s.Put(event)
			}
		})
	}
}
