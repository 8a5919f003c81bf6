//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// wantSaid fails the test unless each of want is in a sentence of its own.
func wantSaid(t *testing.T, what string, said []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, w) }) {
			t.Errorf("the %s are %q, want %q", what, said, w)
		}
	}
	if len(said) != len(want) {
		t.Errorf("the %s are %q, want %d", what, said, len(want))
	}
}

// TestLostAtTheEnd: a session that is lost after its last program is a lost session, and a check that cannot be made is a problem.
func TestLostAtTheEnd(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Sessions = 3
	e := newTestEngine(t, p)
	servers, err := e.meet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := fmt.Errorf("%w: the server is gone", profile.ErrLost)
	before, during, cut := openSession(t, e, url), openSession(t, e, url), openSession(t, e, url)
	for i, s := range []*session{before, during, cut} {
		e.seats[i].set(s)
	}
	before.cancel(gone)
	<-before.finished
	cut.cancel(errStopped) // by the run itself
	<-cut.finished
	thief, err := e.open(t.Context(), sessionOptions{name: "thief", server: url, id: during.ID(), control: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.close(t.Context()); err != nil { // during learns of its end while leave asks for its processes, or before
		t.Fatal(err)
	}
	servers[0].control.cancel(gone)
	<-servers[0].control.finished
	e.leave(servers)
	r := e.rec.Now()
	if n := r.Counts[result.LostSessions]; n != 2 {
		t.Errorf("%d lost sessions, want 2; errors %v", n, r.Errors)
	}
	if len(r.Findings) > 0 {
		t.Errorf("findings %+v", r.Findings)
	}
	wantSaid(t, "problems", r.Problems, "cannot look for sessions that are left", "cannot look for children and descriptors that are left")
}

// TestProcessesUnknown: if a server does not list the processes of a session, that is a problem.
func TestProcessesUnknown(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Sessions = 1
	e := newTestEngine(t, p)
	s := openSession(t, e, url)
	e.seats[0].set(s)
	s.calls.mu.Lock()
	s.calls.inFlight = maxInFlight // nothing is sent
	s.calls.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	l := leaving{closed: map[string]bool{}, unknown: map[string][]error{}}
	e.leaveSession(ctx, s, &l)
	if len(l.unknown[url]) != 1 || len(l.closed) != 0 {
		t.Errorf("%+v", l.unknown)
	}
}

// TestNeverOpen: sessions that a server refuses are a problem of the run.
func TestNeverOpen(t *testing.T) {
	p := testPlan(serve(t, "ws"), 300*time.Millisecond, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Sessions = 4
	var dials atomic.Int64
	a := Access{Dial: func(string) (*transport.DialOptions, error) {
		if dials.Add(1) > 3 { // the control session, the session for tools, and a seat
			return nil, &transport.RefusedError{Status: 403, Text: "enough"}
		}
		return nil, nil
	}}
	r := runPlan(t.Context(), t, p, a, nil)
	wantSaid(t, "problems", r.Problems, "3 of 4 sessions were never open", "cannot look for programs that are left")
	if !strings.Contains(fmt.Sprint(r.Notes), "only 1 of 4 sessions were open when the phases began") {
		t.Errorf("notes %q", r.Notes)
	}
	if r.Counts[result.LostSessions] != 0 || r.Counts[result.CheckedBytes] == 0 || r.Right() {
		t.Errorf("counts %v, right is %v", r.Counts, r.Right())
	}
}

// TestStartsLimited: a server that limits starts refuses the programs of the engine, too, and the engine tries again.
func TestStartsLimited(t *testing.T) {
	url := serveWith(t, "ws", actors.Config{MaxStartsEach: 4, StartsBurst: 1})
	r := runPlan(t.Context(), t, testPlan(url, time.Second, plan.Part{Profile: plan.Spawn, Weight: 1}), Access{Version: "v1.2.3"}, nil)
	wantSaid(t, "problems", r.Problems)
	if r.Counts[result.StartsRefused] == 0 || len(r.Findings) > 0 {
		t.Errorf("counts %v, findings %+v", r.Counts, r.Findings)
	}
}

// TestOthers: if others use the server, a note says that children and descriptors are not compared.
func TestOthers(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	e := newTestEngine(t, p)
	e.goneWithin = 3 * lookEvery
	servers, err := e.meet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	openSession(t, newTestEngine(t, p), url)
	e.leave(servers)
	r := e.rec.Now()
	wantSaid(t, "notes", r.Notes, "has other sessions (0 before the run, ")
	wantSaid(t, "problems", r.Problems)
}

// TestOthersCome: sessions that others open meanwhile hold up no load.
func TestOthersCome(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	e, other := newTestEngine(t, p), newTestEngine(t, p)
	e.goneWithin = time.Hour
	dials := 0
	e.access.Dial = func(string) (*transport.DialOptions, error) {
		if dials++; dials == 2 { // the session for tools
			openSession(t, other, url)
		}
		return nil, nil
	}
	servers, err := e.meet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := servers[0].before.Sessions; n < 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestBegin: a load begins when Begin returns, and an error of Begin ends the run with nothing left.
func TestBegin(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, 100*time.Millisecond, plan.Part{Profile: plan.Spawn, Weight: 1})
	begun := false
	wantRight(t, runPlan(t.Context(), t, p, Access{Begin: func(context.Context) error {
		begun = true
		return nil
	}}, nil))
	if !begun {
		t.Error("Begin was not called")
	}
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	never := errors.New("never")
	if err := Run(t.Context(), p, Access{Begin: func(context.Context) error { return never }}, rec); !errors.Is(err, never) || rec.Now().Counts[result.Sessions] != 0 {
		t.Errorf("error %v, counts %v", err, rec.Now().Counts)
	}
	c, err := newTestEngine(t, p).open(t.Context(), sessionOptions{name: "look", server: url, control: true})
	if err != nil {
		t.Fatal(err)
	}
	var list protocol.SessionListResult
	if err := c.Call(t.Context(), protocol.MethodSessionList, protocol.SessionListParams{}, &list); err != nil || len(list.Sessions) != 1 {
		t.Errorf("%v: the server has the sessions %+v", err, list.Sessions)
	}
}

// TestPlacement: a load says for which server of a cluster its sessions are.
func TestPlacement(t *testing.T) {
	p := testPlan(serve(t, "ws"), time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Labels, p.Node = []string{"zone=a"}, "n1"
	params, _ := newTestEngine(t, p).newSession(sessionOptions{name: "s0", server: p.Servers[0]}).introduction()
	if w := params.Placement; w == nil || w.Node != "n1" || w.Labels["zone"] != "a" {
		t.Errorf("placement %+v", w)
	}
	if _, err := newTestEngine(t, p).meet(t.Context()); err == nil || !strings.Contains(err.Error(), "placement is for a cluster") {
		t.Errorf("error %v", err)
	}
}

// TestToolsInterrupted: the session for tools ends on the server, also if the run is interrupted. The end of a tool that still ran is no finding.
func TestToolsInterrupted(t *testing.T) {
	url := serve(t, "ws")
	e := newTestEngine(t, testPlan(url, time.Hour, plan.Part{Profile: plan.Idle, Weight: 1}))
	control, err := e.open(t.Context(), sessionOptions{name: "control", server: url, control: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := server{url: url, control: control, ours: true}
	if err := s.withTools(ctx, func(c *session) error {
		tool, err := c.start(ctx, []string{"/bin/sleep", "1000"})
		if err != nil {
			return err
		}
		cancel()
		defer tool.leave()
		return context.Cause(ctx)
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if findings := e.rec.Now().Findings; len(findings) > 0 {
		t.Errorf("findings %+v", findings)
	}
	var list protocol.SessionListResult
	if err := control.Call(t.Context(), protocol.MethodSessionList, protocol.SessionListParams{}, &list); err != nil || len(list.Sessions) != 1 {
		t.Errorf("%v: the server has the sessions %+v", err, list.Sessions)
	}
}

// TestNodes: a session for a node says so.
func TestNodes(t *testing.T) {
	p := testPlan(serve(t, "ws"), time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Labels = []string{"zone=a"}
	params, _ := newTestEngine(t, p).newSession(sessionOptions{name: "s0", server: p.Servers[0], node: "n2"}).introduction()
	if w := params.Placement; w == nil || w.Node != "n2" || len(w.Labels) > 0 {
		t.Errorf("placement %+v", w)
	}
}

// TestOtherBuild: a program of another build of troupe is refused, since its streams may differ.
func TestOtherBuild(t *testing.T) {
	e := newTestEngine(t, testPlan(serve(t, "ws"), time.Hour, plan.Part{Profile: plan.Idle, Weight: 1}))
	e.access.Version = "v1.2.3" // of the test binary
	if _, err := e.meet(t.Context()); err != nil {
		t.Error(err)
	}
	e.access.Version, e.clocks = "v0.0.1", make(map[string]time.Duration)
	if _, err := e.meet(t.Context()); err == nil || !strings.Contains(err.Error(), `it is "troupe v1.2.3", and the load generator is troupe v0.0.1: both must be the same build`) {
		t.Errorf("the error is %v", err)
	}
}

// TestMeetFails: a run that cannot begin leaves no session on the server.
func TestMeetFails(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Hour, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Program = "/no/such/troupe"
	if _, err := newTestEngine(t, p).meet(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot run /no/such/troupe") {
		t.Errorf("the error is %v", err)
	}
	wantNoSessions(t, newTestEngine(t, p), url)
}
