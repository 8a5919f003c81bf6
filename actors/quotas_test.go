package actors_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"pgregory.net/rapid"
)

// processesEach is the limit of each tenant.
const processesEach = 4

// A tenant is an identity, and a model of what it uses.
type tenant struct {
	t        *rapid.T
	test     *testing.T
	troupe   *actors.Troupe
	name     string
	sessions []*tenancy
	serial   int
}

// A tenancy is a session of a tenant.
type tenancy struct {
	peer    *peer
	id      string
	running map[string]int // processes by the id of a process, or of a group
}

func (a *tenant) running() (n int) {
	for _, s := range a.sessions {
		for _, processes := range s.running {
			n += processes
		}
	}
	return n
}

func (a *tenant) connect(more string) *tenancy {
	p := connectAs(a.test, a.troupe, identity.Identity{Name: a.name})
	return &tenancy{peer: p, id: p.open(more), running: make(map[string]int)}
}

// start asks for n processes. If right, the server must start them unless that exceeds the limit; else the
// server must refuse them.
func (a *tenant) start(s *tenancy, method, id, params string, n int, right bool) {
	fits := a.running()+n <= processesEach
	m := s.peer.call(method, params)
	switch {
	case fits && right && m.Error == nil:
		s.running[id] = n
	case fits && right, m.Error == nil:
		a.t.Fatalf("%s runs %d, and %s of %d more: %s, %+v", a.name, a.running(), method, n, m.Result, m.Error)
	case !fits && right && !strings.Contains(m.Error.Message, fmt.Sprintf("max-processes-each is %d here, %s runs %d,", processesEach, a.name, a.running())):
		a.t.Fatalf("%s runs %d, and %s of %d more: %+v", a.name, a.running(), method, n, m.Error)
	}
}

func startOf(id, more string, argv ...string) string {
	args, _ := json.Marshal(argv)
	return fmt.Sprintf(`{"processId":%q,"argv":%s,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, args, more)
}

// noTerminal is wrong without tty.
const noTerminal = `,"size":{"rows":1,"cols":1}`

// awaitEnd waits until the client is told that a process is closed.
func (a *tenant) awaitEnd(s *tenancy, id string) {
	waitFor(a.test, id+" is closed", func() bool {
		var info struct{ State string }
		json.Unmarshal(s.peer.call("process/info", fmt.Sprintf(`{"processId":%q}`, id)).Result, &info)
		return info.State == "closed"
	})
	delete(s.running, id)
}

// step does something at random.
func (a *tenant) step() {
	a.serial++
	id := fmt.Sprint("p", a.serial)
	if len(a.sessions) == 0 {
		a.sessions = append(a.sessions, a.connect(""))
	}
	s := rapid.SampledFrom(a.sessions).Draw(a.t, "session")
	group := func(last string) string {
		return fmt.Sprintf(`{"groupId":%q,"strategy":"one_for_one","processes":[%s,%s]}`, id, startOf(id+"a", "", "sleep", "1000"), last)
	}
	switch rapid.IntRange(0, 11).Draw(a.t, "step") {
	case 0:
		if len(a.sessions) < 3 {
			a.sessions = append(a.sessions, a.connect(""))
		}
	case 1, 2:
		a.start(s, "process/start", id, startOf(id, "", "sleep", "1000"), 1, true)
	case 3: // fails in the child
		a.start(s, "process/start", id, startOf(id, "", "/no/such/program"), 1, false)
	case 4: // refused before a child is asked for
		a.start(s, "process/start", id, startOf(id, noTerminal, "sleep", "1000"), 1, false)
	case 5: // repeated
		params := startOf(id, `,"startToken":"again"`, "sleep", "1000")
		if a.start(s, "process/start", id, params, 1, true); s.running[id] > 0 {
			if m := s.peer.call("process/start", params); m.Error != nil {
				a.t.Fatalf("repeated: %+v", m.Error)
			}
		}
	case 6:
		a.start(s, "group/start", id, group(startOf(id+"b", "", "sleep", "1000")), 2, true)
	case 7:
		a.start(s, "group/start", id, group(startOf(id+"b", noTerminal, "sleep", "1000")), 2, false)
	case 8: // ends by itself, after a second run
		a.start(s, "process/start", id, startOf(id, `,"restart":{"policy":"permanent","backoff":{"initialMs":0},"intensity":{"restarts":1,"periodMs":100000}}`, "true"), 1, true)
		if s.running[id] > 0 {
			a.awaitEnd(s, id)
		}
	case 9:
		if len(s.running) == 0 {
			return
		}
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(s.running))).Draw(a.t, "end")
		if s.running[id] > 1 {
			s.peer.call("group/stop", fmt.Sprintf(`{"groupId":%q}`, id))
			delete(s.running, id)
		} else {
			s.peer.call("process/terminate", fmt.Sprintf(`{"processId":%q}`, id))
			a.awaitEnd(s, id)
		}
	case 10: // a reset
		s.peer.close()
		s.peer = a.connect(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true`, s.id)).peer
	case 11:
		if m := s.peer.call("session/close", "{}"); m.Error != nil {
			a.t.Fatalf("session/close: %+v", m.Error)
		}
		a.sessions = slices.DeleteFunc(a.sessions, func(other *tenancy) bool { return other == s })
	}
}

// leave ends all sessions, and then counts: everything is free.
func (a *tenant) leave() {
	a.end()
	a.sessions = []*tenancy{a.connect("")}
	s := a.sessions[0]
	for i := range processesEach + 1 {
		a.start(s, "process/start", fmt.Sprint(i), startOf(fmt.Sprint(i), "", "sleep", "1000"), 1, true)
	}
}

// end ends all sessions.
func (a *tenant) end() {
	for _, s := range a.sessions {
		s.peer.call("session/close", "{}")
		s.peer.close()
	}
	a.sessions = nil
}

// Whatever two identities do, each runs as many processes as its limit allows, and neither counts for the
// other: no place is lost by a failed start, a reset or the end of a session, and none is won.
func TestPlacesOfTenants(t *testing.T) {
	t.Parallel()
	placesOfTenants(t, 15)
}

// placesOfTenants checks n random runs. With the flag -rapid.checks it checks as many as the flag says.
func placesOfTenants(t *testing.T, n int) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		checks.Value.Set(strconv.Itoa(n))
		defer checks.Value.Set(checks.DefValue)
	}
	troupe := start(t, actors.Config{KillGrace: -1, MaxProcessesEach: processesEach})
	rapid.Check(t, func(rt *rapid.T) {
		alice := &tenant{t: rt, test: t, troupe: troupe, name: "alice"}
		bob := &tenant{t: rt, test: t, troupe: troupe, name: "bob"}
		defer alice.end() // also after a failure: the next check begins with nothing
		defer bob.end()
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			rapid.SampledFrom([]*tenant{alice, bob}).Draw(rt, "who").step()
		}
		alice.leave()
		bob.leave()
	})
}
