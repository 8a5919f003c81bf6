package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

const maxEvents = 1000

// clocked returns a journal whose clock stands still at 1,000 s.
func clocked() *Journal { return newJournal(maxEvents, func() time.Time { return time.Unix(1000, 0) }) }

// texts returns the events as words: session, process, kind and reason.
func texts(events []protocol.ServerEvent) (all []string) {
	for _, e := range events {
		all = append(all, strings.TrimSpace(strings.Join([]string{e.SessionName, e.ProcessID, string(e.Kind), e.Reason}, " ")))
	}
	return all
}

func expect(t *testing.T, r protocol.ServerEventsResult, want ...string) {
	t.Helper()
	if got := texts(r.Events); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func process(id string, kind protocol.ServerEventKind) protocol.ServerEvent {
	return protocol.ServerEvent{Kind: kind, ProcessID: id}
}

// A session has its first event when its first process starts, and each state once.
func TestSource(t *testing.T) {
	j := clocked()
	s := j.Source("", "s1", "shop")
	s.Become(protocol.ServerDetached, "")
	expect(t, j.Read(Question{}))
	s.Put(process("web", protocol.ServerStarted))
	s.Become(protocol.ServerDetached, "")
	s.Rename("store")
	s.Become(protocol.ServerAttached, "")
	s.Become(protocol.ServerGone, "closed by its owner")
	s.Become(protocol.ServerDetached, "") // its connection ends afterwards
	expect(t, j.Read(Question{}), "shop  opened", "shop  detached", "shop web started", "store  attached", "store  gone closed by its owner")

	looked := j.Source("", "s2", "ps")
	looked.Become(protocol.ServerGone, "")
	if n := len(j.Read(Question{}).Events); n != 5 {
		t.Errorf("%d events: the session of a command that only looks has some", n)
	}
	var none *Journal
	none.Source("", "s3", "").Put(process("web", protocol.ServerStarted))
}

// The times of events are different even if the clock stands still, and whoever reads from the last answer on has each event once.
func TestReadOn(t *testing.T) {
	j := clocked()
	s := j.Source("", "s1", "shop")
	var got []string
	var after uint64
	for i := range 100 {
		for k := range i % 4 {
			s.Put(process(fmt.Sprint(i, k), protocol.ServerStarted))
		}
		r := j.Read(Question{AfterUs: after})
		if r.NextUs <= after {
			t.Fatalf("read %d has nextUs %d after %d", i, r.NextUs, after)
		}
		got, after = append(got, texts(r.Events)...), r.NextUs
	}
	if want := texts(j.Read(Question{}).Events); len(want) != 151 || !slices.Equal(got, want) {
		t.Errorf("%d events read on, %d at once", len(got), len(want))
	}
}

// Every identity sees its own sessions, an operator all, an observer those of others, and a guest one session.
func TestWhoSees(t *testing.T) {
	j := clocked()
	for _, owner := range []string{"ann", "bob"} {
		for _, session := range []string{"1", "2"} {
			j.Source(owner, owner+session, owner+session).Put(process("p", protocol.ServerStarted))
		}
	}
	sessions := func(who identity.Identity) (all []string) {
		for _, e := range j.Read(Question{Who: who}).Events {
			if e.Kind == protocol.ServerStarted {
				all = append(all, e.SessionID)
			}
		}
		return all
	}
	for _, c := range []struct {
		who  identity.Identity
		want string
	}{
		{identity.Identity{Name: "ann"}, "ann1 ann2"},
		{identity.Identity{Name: "root", Operator: true}, "ann1 ann2 bob1 bob2"},
		{identity.Identity{Name: "cy", Observes: []string{"bob"}}, "bob1 bob2"},
		{identity.Identity{Name: "cy"}, ""},
		{identity.Identity{Name: "share:x", Guest: &identity.Guest{Session: "ann2", Host: "ann"}}, "ann2"},
	} {
		if got := strings.Join(sessions(c.who), " "); got != c.want {
			t.Errorf("%+v sees %q, want %q", c.who, got, c.want)
		}
	}
}

// Whoever floods loses events of its own, and is told. Nobody else loses any.
func TestFull(t *testing.T) {
	j := clocked()
	ann, bob := identity.Identity{Name: "ann"}, identity.Identity{Name: "bob"}
	j.Source("ann", "a", "").Put(process("p", protocol.ServerStarted))
	before := j.Read(Question{Who: bob}).NextUs
	flood := j.Source("bob", "b", "")
	for i := range 3 * maxEvents {
		flood.Put(process(fmt.Sprint(i), protocol.ServerStarted))
	}
	if n := len(j.rings["ann"].events) + len(j.rings["bob"].events); n != j.total || n > maxEvents {
		t.Errorf("%d events, counted as %d, the limit is %d", n, j.total, maxEvents)
	}
	if r := j.Read(Question{Who: ann}); len(r.Events) != 2 || r.WholeUs >= r.Events[0].AtUs {
		t.Errorf("ann reads %+v: events of bob have cost some of hers", r)
	}
	r := j.Read(Question{Who: bob, AfterUs: before})
	if r.WholeUs <= before {
		t.Errorf("nobody tells bob of lost events: whole since %d, read after %d", r.WholeUs, before)
	}
	if first := r.Events[0].AtUs; first <= r.WholeUs {
		t.Errorf("the first event is at %d, and none is lost after %d", first, r.WholeUs)
	}
	var last string
	for after := before; ; {
		r := j.Read(Question{Who: bob, AfterUs: after})
		if len(r.Events) == 0 {
			break
		}
		n := 0
		for i := range r.Events {
			n += size(&r.Events[i])
		}
		if n > maxPage {
			t.Fatalf("an answer has %d bytes, the limit is %d", n, maxPage)
		}
		after, last = r.NextUs, r.Events[len(r.Events)-1].ProcessID
	}
	if want := fmt.Sprint(3*maxEvents - 1); last != want {
		t.Errorf("the last event is of process %q, want %s", last, want)
	}
	// Many identities: rings that lose their only event are gone, and their owners are told.
	for i := range 2 * maxEvents {
		j.Source(fmt.Sprint("visitor", i), "v", "").Put(process("p", protocol.ServerStarted))
	}
	if len(j.rings) > maxEvents || j.total > maxEvents {
		t.Errorf("%d rings, %d events, the limit is %d", len(j.rings), j.total, maxEvents)
	}
}

// A guest is told of lost events of its host alone.
func TestGuestOfFull(t *testing.T) {
	j := clocked()
	j.Source("ann", "a", "").Put(process("p", protocol.ServerStarted))
	guest := identity.Identity{Name: "share:x", Guest: &identity.Guest{Session: "a", Host: "ann"}}
	before := j.Read(Question{Who: guest}).WholeUs
	flood := j.Source("bob", "b", "")
	for range 2 * maxEvents {
		flood.Put(process("p", protocol.ServerStarted))
	}
	if after := j.Read(Question{Who: guest}).WholeUs; after != before {
		t.Errorf("whole since %d, before the flood since %d", after, before)
	}
}

// Whoever reads a journal that keeps no events is told that some are missing.
func TestKeepsNone(t *testing.T) {
	j := New(-1, nil, nil)
	before := j.Read(Question{}).NextUs
	j.Source("", "s", "").Put(process("p", protocol.ServerStarted))
	if r := j.Read(Question{AfterUs: before}); len(r.Events) != 0 || r.WholeUs <= before || len(j.rings) != 0 {
		t.Errorf("%+v, %d rings", r, len(j.rings))
	}
}

// A wait ends with the next event that the client may see, also with one before the wait.
func TestWait(t *testing.T) {
	j := clocked()
	ann := identity.Identity{Name: "ann"}
	after := j.Read(Question{Who: ann}).NextUs
	woken := 0
	j.Wait(Question{Who: ann, AfterUs: after}, func() { woken++ })
	j.Source("bob", "b", "").Put(process("p", protocol.ServerStarted))
	if woken != 0 {
		t.Error("an event of somebody else ends the wait")
	}
	s := j.Source("ann", "a", "")
	s.Put(process("p", protocol.ServerStarted))
	s.Put(process("q", protocol.ServerStarted))
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
	j.Wait(Question{Who: ann, AfterUs: after}, func() { woken++ })
	if woken != 2 {
		t.Error("an event that has come before the wait does not end it")
	}
	cancel := j.Wait(Question{Who: ann, AfterUs: j.Read(Question{Who: ann}).NextUs}, func() { woken++ })
	cancel()
	s.Put(process("r", protocol.ServerStarted))
	if woken != 2 || len(j.waits) != 0 {
		t.Errorf("woken %d times after cancel, %d waits left", woken-2, len(j.waits))
	}
}

// Whoever asks for the events of one process gets those of this instance alone, and with Last the newest of them.
func TestOfOneProcess(t *testing.T) {
	j := clocked()
	s := j.Source("", "s1", "shop")
	run := func(instance string, n int) {
		for i := range n {
			s.Put(protocol.ServerEvent{Kind: protocol.ServerRestarted, ProcessID: "web", Instance: instance, Reason: fmt.Sprint(instance, i)})
		}
	}
	run("a", 300) // more than an answer may have
	run("b", 400)
	web := func(from, to int) (want []string) {
		for i := from; i < to; i++ {
			want = append(want, fmt.Sprint("shop web restarted a", i))
		}
		return want
	}
	r := j.Read(Question{Instance: "a", Last: 3})
	expect(t, r, web(297, 300)...)
	expect(t, j.Read(Question{Instance: "a", Last: 3, AfterUs: r.Events[1].AtUs}), web(299, 300)...)
	expect(t, j.Read(Question{Last: 1}), "shop web restarted b399")
	if got := texts(j.Read(Question{Instance: "a"}).Events); len(got) < 100 || !slices.Equal(got, web(0, len(got))) {
		t.Errorf("the first page is %q", got)
	}
	r = j.Read(Question{Instance: "a", Last: 10_000})
	n := 0
	for i := range r.Events {
		n += size(&r.Events[i])
	}
	if got := texts(r.Events); len(got) < 100 || n > maxPage || !slices.Equal(got, web(300-len(got), 300)) {
		t.Errorf("the last page has %d bytes: %q", n, got)
	}

	woken := 0
	defer j.Wait(Question{Instance: "a", AfterUs: r.NextUs}, func() { woken++ })()
	if run("b", 1); woken != 0 {
		t.Error("an event of another process ends the wait")
	}
	if run("a", 1); woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
}

// Long texts are cut, and keep no memory of a client.
func TestCut(t *testing.T) {
	j := clocked()
	j.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerStarted, ProcessID: "p", Argv: []string{"sh", strings.Repeat("é", 400), "more"}, Reason: strings.Repeat("x", 1000)})
	e := j.Read(Question{}).Events[1]
	if n := len(e.Reason); n > maxText+3 || !strings.HasSuffix(e.Reason, "x…") {
		t.Errorf("a reason of %d bytes", n)
	}
	if n := len(strings.Join(e.Argv, "")); n > maxText+6 || !strings.HasSuffix(e.Argv[1], "é…") || len(e.Argv) != 3 || e.Argv[2] != "…" {
		t.Errorf("arguments of %d bytes: %q", n, e.Argv)
	}
}

// Everybody sees that the server was replaced, once, but whoever asks for the events of one process.
func TestReplaced(t *testing.T) {
	j := clocked()
	j.Source("ann", "a", "").Put(process("p", protocol.ServerStarted))
	before := j.Read(Question{}).NextUs
	woken := 0
	defer j.Wait(Question{Instance: "i", AfterUs: before}, func() { woken += 100 })()
	j.Wait(Question{Who: identity.Identity{Name: "bob"}, AfterUs: before}, func() { woken++ })
	j.Replaced(protocol.Replacement{Reason: "upgrade", GapMs: 52})
	j.Wait(Question{Who: identity.Identity{Name: "bob"}, AfterUs: before}, func() { woken += 10 })
	if woken != 11 {
		t.Errorf("woken %d", woken)
	}
	guest := identity.Identity{Guest: &identity.Guest{Host: "eve"}}
	for _, who := range []identity.Identity{{Name: "bob"}, guest} {
		r := j.Read(Question{Who: who, AfterUs: before})
		if expect(t, r, "replaced upgrade"); len(r.Events) == 1 && r.Events[0].GapMs != 52 {
			t.Errorf("%+v", r.Events)
		}
		expect(t, j.Read(Question{Who: who, AfterUs: r.NextUs}))
	}
	expect(t, j.Read(Question{Instance: "i"}))
}
