package actors_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// names returns the processes in the answer to a process/list, in order.
func names(t *testing.T, m message) string {
	t.Helper()
	var all []string
	for _, p := range listed(t, m) {
		all = append(all, p.ProcessID)
	}
	return strings.Join(all, " ")
}

// untilDetached waits until a session of the identity of p has no owner: the end of a connection is heard of some time later.
func (p *peer) untilDetached(id string) {
	p.t.Helper()
	waitFor(p.t, "the session to be detached", func() bool {
		var list protocol.SessionListResult
		if err := json.Unmarshal(p.call("session/list", `{}`).Result, &list); err != nil {
			p.t.Fatal(err)
		}
		return slices.ContainsFunc(list.Sessions, func(s protocol.SessionSummary) bool { return s.SessionID == id && s.State == protocol.SessionDetached })
	})
}

// Lists with other params are other lists, though they wait for the same processes.
func TestListsAreNotMixedUp(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{KillGrace: -1}))
	p.open("")
	for i := range 3 {
		p.start(fmt.Sprint("p", i), "", "sleep", "1000")
	}
	for i := range 3 {
		p.send(fmt.Sprintf(`{"id":%d,"method":"process/list","params":{"processIds":["p%d"]}}`, 100+i, i))
	}
	for i := range 3 {
		if got := names(t, p.answer(fmt.Sprint(100+i))); got != fmt.Sprint("p", i) {
			t.Errorf("list %d has %s", i, got)
		}
	}
}

// session/list with detail has the processes of all sessions of the identity, and of no other, attached or not.
func TestSessionListHasProcesses(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	alice := identity.Identity{Name: "alice"}
	one := connectAs(t, troupe, alice)
	first := one.open(`,"session":{"name":"one"}`)
	one.start("a", "", "echo", "hello")
	one.untilClosed("a", 0)
	one.start("b", `,"pipeStdin":true`, "cat")
	one.close()
	time.Sleep(2 * time.Millisecond) // sessions are in the order of their milliseconds
	two := connectAs(t, troupe, alice)
	second := two.open("")
	bob := connectAs(t, troupe, identity.Identity{Name: "bob"})
	bob.open("")
	bob.start("secret", "", "sleep", "1000")
	two.untilDetached(first)

	var plain map[string][]map[string]any
	if m := two.call("session/list", `{}`); json.Unmarshal(m.Result, &plain) != nil || len(plain["sessions"]) != 2 || plain["sessions"][0]["list"] != nil {
		t.Errorf("without detail: %s", m.Result)
	}
	var processes protocol.SessionProcessesResult
	m := two.call("session/list", `{"detail":"processes"}`)
	if err := json.Unmarshal(m.Result, &processes); err != nil || len(processes.Sessions) != 2 {
		t.Fatalf("%s, %+v, %v", m.Result, m.Error, err)
	}
	if s := processes.Sessions[0]; s.SessionID != first || s.Name != "one" || s.State != "detached" || s.Processes != 2 ||
		len(s.List) != 2 || s.List[0].ProcessID != "a" || s.List[0].State != "closed" || s.List[1].State != "running" || s.List[1].PID == 0 {
		t.Errorf("%+v", s)
	}
	if s := processes.Sessions[1]; s.SessionID != second || s.List == nil || len(s.List) != 0 || s.State != "attached" {
		t.Errorf("%+v", s)
	}
	if strings.Contains(string(m.Result), "waitsFor") || strings.Contains(string(m.Result), "secret") {
		t.Errorf("%s", m.Result)
	}
	var details protocol.SessionDetailsResult
	m = two.call("session/list", `{"detail":"info"}`)
	if err := json.Unmarshal(m.Result, &details); err != nil || len(details.Sessions) != 2 || len(details.Sessions[0].List) != 2 {
		t.Fatalf("%s, %+v, %v", m.Result, m.Error, err)
	}
	if a := details.Sessions[0].List[0]; a.OutputBytes != 6 || len(a.WaitsFor) != 0 || a.ProcessID != "a" {
		t.Errorf("%+v", a)
	}
	b := details.Sessions[0].List[1]
	if len(b.WaitsFor) != 1 || b.WaitsFor[0].For != protocol.WaitItself || b.Viewers == nil {
		t.Errorf("%+v", b)
	}
	if b.Containment == "cgroup" && b.Usage == nil {
		t.Error("no usage")
	}
	if m := two.call("session/list", `{"detail":"everything"}`); m.Error == nil || m.Error.Code != protocol.CodeInvalidParams {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
}
