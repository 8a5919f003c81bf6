package mirror

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

const second = time.Second

// server is what a Mirror mirrors: sessions, processes and groups, which answer at once.
type server struct {
	t        rapid.TB
	m        *Mirror[string]
	now      time.Time
	sessions map[string]*served
	n        int // names given so far
	looks    int
	usages   int // looks with usage
	mute     bool
}

type served struct {
	protocol.SessionSummary
	processes map[string]*protocol.ProcessInfoResult // by actor
	groups    map[string]protocol.GroupInfo
}

func newServer(t rapid.TB) *server {
	now := time.Unix(1_000_000, 0)
	return &server{t: t, m: New[string](now), now: now, sessions: make(map[string]*served)}
}

func (s *server) name(prefix string) string {
	s.n++
	return fmt.Sprint(prefix, s.n)
}

// open opens a session of an identity.
func (s *server) open(owner string) string {
	id := s.name("s")
	s.sessions[id] = &served{SessionSummary: protocol.SessionSummary{SessionID: id, Identity: owner, State: protocol.SessionAttached},
		processes: make(map[string]*protocol.ProcessInfoResult), groups: make(map[string]protocol.GroupInfo)}
	s.notice(id, "", true, false)
	return id
}

// start starts a process with an id.
func (s *server) start(session, id string) string {
	name := s.name("p-")
	s.sessions[session].processes[name] = &protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: id, Instance: name, State: "running", Run: 1},
		WaitsFor: []protocol.Wait{{For: protocol.WaitItself}}, Usage: &protocol.Usage{MemoryBytes: new(uint64(1 << 20))}}
	s.sessions[session].Processes++
	s.notice(session, name, true, false)
	s.notice(session, "", true, false)
	return name
}

func (s *server) notice(session, process string, soon, gone bool) {
	s.m.Noticed(Notice[string]{Session: session, Process: process, To: session + "/" + process, Of: session + "/", Soon: soon, Gone: gone})
}

// change changes a process.
func (s *server) change(session, process string, soon bool, do func(*protocol.ProcessInfoResult)) {
	do(s.sessions[session].processes[process])
	s.notice(session, process, soon, false)
}

func (s *server) forget(session, process string) {
	delete(s.sessions[session].processes, process)
	s.sessions[session].Processes--
	s.notice(session, process, true, true)
	s.notice(session, "", true, false)
}

func (s *server) end(session string) {
	delete(s.sessions, session)
	s.notice(session, "", true, true)
}

// list answers the question for all sessions.
func (s *server) list() {
	all := make(map[string]string)
	for id := range s.sessions {
		all[id] = id + "/"
	}
	s.m.Sessions(all)
}

// answer answers all looks.
func (s *server) answer() {
	s.m.Tick(s.now)
	for l, ok := s.m.Next(s.now); ok && !s.mute; l, ok = s.m.Next(s.now) {
		s.looks++
		id, name, _ := strings.Cut(l.To, "/")
		is := s.sessions[id]
		switch {
		case l.Session && is == nil:
			s.m.Session(l, s.now, nil, nil, nil)
		case l.Session:
			processes := make(map[string]string)
			for name := range is.processes {
				processes[name] = id + "/" + name
			}
			sum := is.SessionSummary
			s.m.Session(l, s.now, &sum, slices.Collect(maps.Values(is.groups)), processes)
		case is == nil || is.processes[name] == nil:
			s.m.Process(l, s.now, nil)
		default:
			info := *is.processes[name]
			if l.Usage {
				s.usages++
			} else {
				info.Usage = nil
			}
			s.m.Process(l, s.now, &info)
		}
	}
	s.m.Tick(s.now)
}

// pass lets time pass, as far as the machine asks for it.
func (s *server) pass(d time.Duration) {
	for end := s.now.Add(d); ; {
		s.answer()
		wake := s.m.Wake()
		if wake.IsZero() || wake.After(end) {
			s.now = end
			return
		}
		s.now = latest(s.now, wake)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reader is a client with the state that it has been told.
type reader struct {
	s        *server
	v        *Viewer
	who      identity.Identity
	whole    bool
	pieces   int
	items    int // processes and groups told
	sessions map[string]*told
}

type told struct {
	protocol.SessionSummary
	processes map[string]protocol.ProcessInfoResult
	groups    map[string]protocol.GroupInfo
}

func (s *server) watch(who identity.Identity, every time.Duration) *reader {
	return &reader{s: s, v: s.m.Watch(s.now, who, every), who: who}
}

// read takes a piece, if there is any.
func (r *reader) read() bool {
	r.v.Pull()
	p, ok := r.s.m.Piece(r.v, r.s.now)
	if !ok {
		r.v.wants = false // it reads when the test says so
		return false
	}
	text, err := json.Marshal(p)
	if err != nil || len(text) > maxPiece {
		r.s.t.Fatalf("a piece of %d bytes, %v", len(text), err)
	}
	r.pieces++
	if p.Anew {
		r.sessions, r.whole = make(map[string]*told), false
	}
	r.whole = r.whole || p.Whole
	for _, id := range p.Gone {
		delete(r.sessions, id)
	}
	for _, c := range p.Sessions {
		is := r.sessions[c.SessionID]
		if is == nil {
			is = &told{processes: make(map[string]protocol.ProcessInfoResult), groups: make(map[string]protocol.GroupInfo)}
			r.sessions[c.SessionID] = is
		}
		is.SessionSummary = c.SessionSummary
		for _, id := range c.Forgotten {
			delete(is.processes, id)
		}
		for _, id := range c.ForgottenGroups {
			delete(is.groups, id)
		}
		for _, p := range c.List {
			is.processes[p.ProcessID] = p
		}
		for _, g := range c.Groups {
			is.groups[g.GroupID] = g
		}
		r.items += len(c.List) + len(c.Groups)
	}
	return true
}

func (r *reader) readAll() {
	for r.read() {
	}
}

// right compares what the reader has been told with the server.
func (r *reader) right() error {
	want := make(map[string]*told)
	for id, is := range r.s.sessions {
		if r.who.MayObserve(id, is.Identity) {
			w := &told{SessionSummary: is.SessionSummary, processes: make(map[string]protocol.ProcessInfoResult), groups: is.groups}
			for _, p := range is.processes {
				w.processes[p.ProcessID] = *p
			}
			want[id] = w
		}
	}
	got := make(map[string]*told)
	for id, is := range r.sessions {
		g := *is
		g.processes = make(map[string]protocol.ProcessInfoResult)
		for id, p := range is.processes {
			p.QuietMs = 0
			g.processes[id] = p
		}
		got[id] = &g
	}
	if !r.whole || !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		return fmt.Errorf("whole: %v, got %s%v\nwant %s%v", r.whole, g, got, w, want)
	}
	return nil
}

// Viewers with different rights and paces, some of whom stop reading for a while, end up with what the server has. Ids of processes and groups are used again.
func TestViewersAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		any := func(label string, ids []string) string {
			slices.Sort(ids)
			return rapid.SampledFrom(ids).Draw(t, label)
		}
		people := []identity.Identity{{Name: "ann"}, {Name: "bob"}, {Operator: true}, {Name: "cy", Observes: []string{"bob"}}, {Name: "share:1", Guest: &identity.Guest{Session: "s1", Host: "ann"}}}
		var readers []*reader
		listed := false
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			sessions := slices.Collect(maps.Keys(s.sessions))
			session, process := "", ""
			if len(sessions) > 0 {
				session = any("session", sessions)
				if all := slices.Collect(maps.Keys(s.sessions[session].processes)); len(all) > 0 {
					process = any("process", all)
				}
			}
			switch step := rapid.IntRange(0, 11).Draw(t, "step"); {
			case step == 0 || session == "":
				s.open(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "owner"))
			case step == 1:
				s.end(session)
			case step <= 3:
				id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id")
				for name, p := range s.sessions[session].processes {
					if p.ProcessID == id {
						s.forget(session, name)
					}
				}
				s.start(session, id)
			case step == 4 && process != "":
				s.change(session, process, true, func(p *protocol.ProcessInfoResult) { p.Run++ })
			case step == 5 && process != "":
				s.change(session, process, false, func(p *protocol.ProcessInfoResult) { p.OutputBytes += 100 })
			case step == 6 && process != "":
				s.forget(session, process)
			case step == 7:
				id := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
				if g := s.sessions[session].groups[id]; g.Restarts > 1 {
					delete(s.sessions[session].groups, id)
				} else {
					s.sessions[session].groups[id] = protocol.GroupInfo{GroupID: id, State: "ready", Restarts: g.Restarts + 1}
				}
				s.notice(session, "", true, false)
			case step == 8:
				readers = append(readers, s.watch(rapid.SampledFrom(people).Draw(t, "who"), second))
				if !listed {
					s.list()
					listed = true
				}
			case step == 9 && len(readers) > 0:
				rapid.SampledFrom(readers).Draw(t, "reader").read()
			case step == 10:
				s.answer()
			case step == 11:
				s.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, Pause, second}).Draw(t, "pause"))
			}
		}
		for range 200 { // round by round until the pauses have their greatest length
			s.pass(second)
			for _, r := range readers {
				r.readAll()
			}
		}
		for _, r := range readers {
			if err := r.right(); err != nil {
				t.Fatalf("%+v: %v", r.who, err)
			}
			if len(r.v.gone)+len(r.v.forgotten) > 0 {
				t.Fatalf("ids are left: %v, %v", r.v.gone, r.v.forgotten)
			}
		}
	})
}

// many is a server with a session of so many processes, and a reader with the state.
func many(t *testing.T, processes int) (*server, *reader, string) {
	s := newServer(t)
	id := s.open("ann")
	for i := range processes {
		s.start(id, fmt.Sprint("web", i))
	}
	r := s.watch(identity.Identity{Operator: true}, second)
	s.list()
	s.pass(0)
	r.readAll()
	if err := r.right(); err != nil {
		t.Fatal(err)
	}
	return s, r, id
}

// The state of many processes comes in pieces of at most 64 KiB. Then nothing comes while nothing changes, and the server looks at each process less and less often.
func TestNothingChanges(t *testing.T) {
	s, r, _ := many(t, 2000)
	if r.pieces < 10 || r.pieces > 100 {
		t.Errorf("%d pieces", r.pieces)
	}
	s.pass(time.Minute)
	r.readAll()
	had, looks := r.pieces, s.looks
	for range 60 {
		s.pass(second)
		r.readAll()
	}
	if r.pieces != had {
		t.Errorf("%d pieces, and nothing has changed", r.pieces-had)
	}
	if n := s.looks - looks; n > 60*2000/10 || n < 2000 {
		t.Errorf("%d looks in a minute at 2,000 idle processes", n)
	}
	most, all := 0, 0
	for range 60 {
		before := s.looks
		s.pass(second)
		most, all = max(most, s.looks-before), all+s.looks-before
	}
	if most > 4*all/60 {
		t.Errorf("%d looks in a second, %d on average", most, all/60)
	}
}

// News is told within the pause, also while rounds are rare; numbers wait for their round, and come together.
func TestWhenChangesAreTold(t *testing.T) {
	s, r, id := many(t, 3)
	s.pass(5 * second)
	r.readAll()
	all := slices.Sorted(maps.Keys(s.sessions[id].processes))
	had := r.pieces
	s.change(id, all[0], true, func(p *protocol.ProcessInfoResult) { p.State = "exited" })
	s.pass(0)
	if r.readAll(); r.pieces != had+1 || r.sessions[id].processes["web0"].State != "exited" {
		t.Fatalf("%d pieces; the exit was not told at once", r.pieces-had)
	}
	s.pass(2 * second)
	r.readAll()
	had = r.pieces
	for i := range 20 { // in 2 s
		s.change(id, all[1], false, func(p *protocol.ProcessInfoResult) { p.OutputBytes = uint64(i) })
		s.pass(second / 10)
		r.readAll()
	}
	if n := r.pieces - had; n < 1 || n > 3 {
		t.Errorf("numbers were told %d times in 2 s", n)
	}
	had = r.pieces
	for i := range 40 { // in 400 ms
		s.change(id, all[2], true, func(p *protocol.ProcessInfoResult) { p.Run = i })
		s.pass(second / 100)
		r.readAll()
	}
	if n := r.pieces - had; n < 4 || n > 9 {
		t.Errorf("news was told %d times in 400 ms", n)
	}
}

// What grows by itself is no change: neither times, nor a little CPU time or memory. Many little steps are one.
func TestSmallNumbers(t *testing.T) {
	s, r, id := many(t, 1)
	process := slices.Collect(maps.Keys(s.sessions[id].processes))[0]
	quiet := func(what string, want int, do func(*protocol.ProcessInfoResult)) {
		t.Helper()
		s.pass(3 * second)
		r.readAll()
		had := r.items
		s.change(id, process, false, do)
		s.pass(3 * second)
		if r.readAll(); r.items-had != want {
			t.Errorf("%s: told %d times, want %d", what, r.items-had, want)
		}
	}
	quiet("times", 0, func(p *protocol.ProcessInfoResult) { p.QuietMs, p.WaitsFor[0].SinceMs = 5000, 70_000 })
	quiet("4 ms", 0, func(p *protocol.ProcessInfoResult) {
		p.Usage = &protocol.Usage{UserMs: 4, MemoryBytes: new(uint64(1 << 20))}
	})
	quiet("8 ms", 0, func(p *protocol.ProcessInfoResult) {
		p.Usage = &protocol.Usage{UserMs: 4, SystemMs: 4, MemoryBytes: new(uint64(1<<20 + 4096))}
	})
	quiet("12 ms", 1, func(p *protocol.ProcessInfoResult) {
		p.Usage = &protocol.Usage{UserMs: 8, SystemMs: 4, MemoryBytes: new(uint64(1<<20 + 4096))}
	})
	quiet("memory", 1, func(p *protocol.ProcessInfoResult) {
		p.Usage = &protocol.Usage{UserMs: 8, SystemMs: 4, MemoryBytes: new(uint64(2 << 20))}
	})
	quiet("output", 1, func(p *protocol.ProcessInfoResult) { p.OutputBytes++ })
	quiet("a wait", 1, func(p *protocol.ProcessInfoResult) { p.WaitsFor = []protocol.Wait{{For: protocol.WaitOwner, Bytes: 1}} })
	quiet("its bytes", 1, func(p *protocol.ProcessInfoResult) { p.WaitsFor = []protocol.Wait{{For: protocol.WaitOwner, Bytes: 2}} })
	quiet("a viewer", 1, func(p *protocol.ProcessInfoResult) { p.Viewers = []protocol.Viewer{{Role: "owner"}} })
	quiet("its lag", 1, func(p *protocol.ProcessInfoResult) { p.Viewers = []protocol.Viewer{{Role: "owner", LagBytes: 9}} })
}

// Times go on between a look and the piece.
func TestTimesAreAsOfNow(t *testing.T) {
	s, r, id := many(t, 1)
	process := slices.Collect(maps.Keys(s.sessions[id].processes))[0]
	s.change(id, process, true, func(p *protocol.ProcessInfoResult) {
		p.QuietMs, p.WaitsFor = 100, []protocol.Wait{{For: protocol.WaitBackoff, SinceMs: 100, InMs: 30_000}}
	})
	s.answer()
	s.now = s.now.Add(10 * second) // the client does not read
	r.readAll()
	if p := r.sessions[id].processes["web0"]; p.QuietMs != 10_100 || p.WaitsFor[0].SinceMs != 10_100 || p.WaitsFor[0].InMs != 20_000 {
		t.Errorf("%+v", p)
	}
}

// While a client does not read, what it is owed grows no further than what it knows. Afterwards it gets a single difference.
func TestSlowReader(t *testing.T) {
	s, r, id := many(t, 100)
	known := slices.Collect(maps.Keys(s.sessions[id].processes))
	had := r.pieces
	for i := range 10_000 {
		name := s.start(id, fmt.Sprint("short", i))
		s.pass(time.Millisecond)
		s.forget(id, name)
		if i < len(known) {
			s.forget(id, known[i])
		}
		s.pass(time.Millisecond)
	}
	if n := len(r.v.forgotten[id].processes); n != 100 {
		t.Errorf("%d forgotten ids wait for a client that knows 100", n)
	}
	if n := s.m.births.Len() + s.m.changes.Len(); n != 2 {
		t.Errorf("%d items are kept of a session without processes", n)
	}
	r.readAll()
	if err := r.right(); err != nil || r.pieces != had+1 {
		t.Errorf("%d pieces, %v", r.pieces-had, err)
	}
}

// Somebody who does not answer holds up neither the state of the others nor later rounds.
func TestSilence(t *testing.T) {
	s := newServer(t)
	id := s.open("ann")
	silent := s.start(id, "silent")
	r := s.watch(identity.Identity{Name: "ann"}, second)
	s.list()
	s.m.Tick(s.now)
	for l, ok := s.m.Next(s.now); ok; l, ok = s.m.Next(s.now) {
		if l.Session {
			sum := s.sessions[id].SessionSummary
			s.m.Session(l, s.now, &sum, nil, map[string]string{silent: id + "/" + silent})
		}
	}
	if r.read() {
		t.Error("the state is told before everybody has answered")
	}
	s.now = s.now.Add(gathering)
	s.m.Tick(s.now)
	if r.readAll(); !r.whole || len(r.sessions) != 1 {
		t.Errorf("whole: %v, %v", r.whole, r.sessions)
	}
	s.pass(silence + 2*second)
	if r.readAll(); r.right() != nil {
		t.Error(r.right())
	}
}

// next returns the next look, which there must be.
func (s *server) next() Look[string] {
	l, ok := s.m.Next(s.now)
	if !ok {
		s.t.Fatal("nobody is asked")
	}
	return l
}

// A process changes before its session has answered for the first time. Nobody is told of a session without an id, and the owner is told of both.
func TestProcessBeforeItsSession(t *testing.T) {
	s, r, _ := many(t, 1)
	ann := s.watch(identity.Identity{Name: "ann"}, second)
	ann.readAll()
	id := s.open("ann")
	first := s.next()
	s.start(id, "early")
	s.answer()
	s.pass(2 * second)
	for _, r := range []*reader{r, ann} {
		r.readAll()
		if len(r.sessions) != 1 {
			t.Errorf("%+v knows the sessions %v", r.who, slices.Collect(maps.Keys(r.sessions)))
		}
	}
	s.m.Failed(first)
	for range 10 {
		s.pass(second)
		r.readAll()
		ann.readAll()
	}
	for _, r := range []*reader{r, ann} {
		if err := r.right(); err != nil {
			t.Errorf("%+v: %v", r.who, err)
		}
	}
}

// A process changes and ends while it is asked, and never answers. Later news of others is told as soon as ever.
func TestSilentEnd(t *testing.T) {
	s, r, id := many(t, 2)
	all := slices.Sorted(maps.Keys(s.sessions[id].processes))
	become := func(state string) func(*protocol.ProcessInfoResult) {
		return func(p *protocol.ProcessInfoResult) { p.State = state }
	}
	s.change(id, all[0], true, become("stopping"))
	s.next()
	s.change(id, all[0], true, become("closed"))
	s.forget(id, all[0])
	for range 20 {
		s.pass(second)
		r.readAll()
	}
	for _, state := range []string{"exited", "restarting"} {
		s.change(id, all[1], true, become(state))
		s.pass(Pause)
		if r.readAll(); r.right() != nil {
			t.Errorf("%s: %v", state, r.right())
		}
	}
}

// A process that has not started yet is asked, and starts before its answer comes.
func TestProcessStartsWhileAsked(t *testing.T) {
	s, r, id := many(t, 1)
	s.pass(5 * time.Minute) // the server looks at the session every 30 s
	r.readAll()
	process := s.name("p-")
	s.notice(id, process, true, false)
	early := s.next()
	s.sessions[id].processes[process] = &protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: "late", Run: 1}}
	s.notice(id, process, true, false)
	s.m.Process(early, s.now, nil)
	s.pass(Pause)
	if r.readAll(); r.right() != nil {
		t.Error(r.right())
	}
}

// A client that asks for its watch again and again has the server look no more often.
func TestWatchAgain(t *testing.T) {
	s, r, _ := many(t, 10)
	s.pass(5 * second)
	looks := s.looks
	for range 100 {
		s.m.Leave(s.now, r.v)
		r = s.watch(r.who, second)
		s.answer()
		r.readAll()
	}
	if err := r.right(); err != nil || s.looks > looks {
		t.Errorf("%d looks for 100 watches, %v", s.looks-looks, err)
	}
}

// Texts of clients take their room as JSON, with escapes.
func TestEscapedTexts(t *testing.T) {
	s, r, id := many(t, 1)
	for i := range 30 {
		process := s.start(id, fmt.Sprint("escaped", i))
		s.sessions[id].processes[process].Argv = []string{strings.Repeat("<", 4000) + "\""}
	}
	s.pass(second)
	if r.readAll(); r.right() != nil {
		t.Error(r.right())
	}
}

// A group with more members than fit has a piece of its own.
func TestLargeGroup(t *testing.T) {
	s, r, id := many(t, 1)
	g := protocol.GroupInfo{GroupID: "g", State: "ready"}
	for i := range 300 {
		g.Processes = append(g.Processes, protocol.GroupMember{ProcessID: fmt.Sprint(i), State: "running", Label: "ä\"\x01"})
	}
	s.sessions[id].groups["g"] = g
	s.start(id, "other")
	s.pass(second)
	if r.readAll(); r.right() != nil {
		t.Error(r.right())
	}
	g.Processes = make([]protocol.GroupMember, 2000)
	if b := (&builder[string]{bytes: 100}); b.room(groupBytes(&g)) {
		t.Error("a group of 2,000 shares a piece")
	}
	if b := new(builder[string]); !b.room(groupBytes(&g)) {
		t.Error("a group of 2,000 has no room in an empty piece")
	}
}
