//go:build unix

package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/usage"
	"github.com/b6f6fdd7/troupe/protocol"
)

// runPlan runs a plan and returns its figures. begun is called when programs have begun to write; nil: nothing is.
func runPlan(ctx context.Context, t *testing.T, p plan.Plan, a Access, begun func()) *result.Result {
	t.Helper()
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var look sync.WaitGroup
	if begun != nil {
		look.Go(func() {
			await(t, "output", func() bool { return rec.Now().Counts[result.CheckedBytes] > 0 || t.Context().Err() != nil })
			begun()
		})
	}
	err = Run(ctx, p, a, rec)
	look.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return rec.Now()
}

// wantRight fails the test if the oracle has found something, or a program or session was lost.
func wantRight(t *testing.T, r *result.Result) {
	t.Helper()
	for _, f := range r.Findings {
		f.Replay = nil
		t.Errorf("found %+v", f)
	}
	if !r.Right() {
		t.Errorf("the run is not right: problems %q", r.Problems)
	}
	c := r.Counts
	if c[result.Starts] == 0 || c[result.Starts] != c[result.Ends] || c[result.LostSessions] != 0 || len(r.Errors) > 0 {
		t.Errorf("%d starts, %d ends, %d lost sessions, errors %v", c[result.Starts], c[result.Ends], c[result.LostSessions], r.Errors)
	}
	last := r.Seconds[len(r.Seconds)-1]
	if last.Connections != 0 || last.Sessions != 0 || last.Processes != 0 {
		t.Errorf("at the end there are %d connections, %d sessions, %d processes", last.Connections, last.Sessions, last.Processes)
	}
}

// TestOpenRun: an open run begins the operations of its rate, in two phases.
func TestOpenRun(t *testing.T) {
	p := testPlan(serve(t, "ws"), time.Second, plan.Part{Profile: plan.Spawn, Weight: 1})
	p.Phases[0].Rate, p.Phases[0].Arrival = 40, plan.Even
	p.Phases = append(p.Phases, p.Phases[0])
	p.Phases[1].Rate = 20
	p.Sessions, p.Processes = 2, 20
	p.MayMiss = 1 // on a busy machine
	r := runPlan(t.Context(), t, p, Access{}, nil)
	wantRight(t, r)
	if n := r.Counts[result.Operations] + r.Counts[result.Missed]; n != 58 || r.Counts[result.Due] != n {
		t.Errorf("%d operations, and %d were missed; want 58 of 58 that were due, not %d", r.Counts[result.Operations], r.Counts[result.Missed], r.Counts[result.Due])
	}
}

// TestInterrupt: the end of ctx ends a run early, and the run ends its programs as ever.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := testPlan(serve(t, "ws"), time.Hour, plan.Part{Profile: plan.Lines, Weight: 1})
	began := time.Now()
	wantRight(t, runPlan(ctx, t, p, Access{}, cancel))
	if took := time.Since(began); took > patience {
		t.Errorf("the run took %v", took)
	}
}

// TestHard: the end of Hard ends a run without ending its programs, and no finding blames the server for the programs.
func TestHard(t *testing.T) {
	hard, stop := context.WithCancel(t.Context())
	p := testPlan(serve(t, "ws"), time.Hour, plan.Part{Profile: plan.Lines, Weight: 1})
	r := runPlan(t.Context(), t, p, Access{Hard: hard}, stop)
	if len(r.Findings) > 0 || !strings.Contains(fmt.Sprint(r.Problems), "was stopped") {
		t.Errorf("findings %v, problems %q", r.Findings, r.Problems)
	}
}

// TestNoServer: a run without a server fails at once, and says why.
func TestNoServer(t *testing.T) {
	p := testPlan("ws://127.0.0.1:1", time.Hour, plan.Part{Profile: plan.Idle, Weight: 1})
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	err = Run(t.Context(), p, Access{}, rec)
	if err == nil || !strings.Contains(err.Error(), "no session on ws://127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error is %v", err)
	}
	p = testPlan(serve(t, "ws"), time.Hour, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Program = "/no/such/troupe"
	if err = Run(t.Context(), p, Access{}, rec); err == nil || !strings.Contains(err.Error(), "cannot run /no/such/troupe") {
		t.Errorf("the error is %v", err)
	}
}

// TestLeft: programs, processes and sessions left behind are found.
func TestLeft(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Sessions = 1
	e := newTestEngine(t, p)
	e.goneWithin = 300 * time.Millisecond
	servers, err := e.meet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("/bin/sleep", "60")
	sleeper.Env = []string{program.Variable + "=" + e.runID}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		sleeper.Process.Kill()
		sleeper.Wait()
	}()
	s := openSession(t, e, url)
	startCat(t, s, "cat")
	e.seats[0].set(s)
	lost := openSession(t, e, url) // a session that the run has forgotten
	lost.cancel(errStopped)
	<-lost.finished
	e.leave(servers)
	e.part(servers)
	r := e.rec.Now()
	want := []string{"the process is running", fmt.Sprintf("1 programs of this run are left, with the pids [%d]", sleeper.Process.Pid)}
	if len(r.Findings) != len(want) || len(r.Errors) > 0 {
		t.Fatalf("findings %+v, errors %v", r.Findings, r.Errors)
	}
	for i, f := range r.Findings {
		if f.Kind != oracle.Left || !strings.HasPrefix(f.Detail, want[i]) {
			t.Errorf("finding %d is %+v, want %s", i, f, want[i])
		}
	}
	if f := r.Findings[0]; f.Session != "s0" || f.Process != "cat" {
		t.Errorf("the process is in %s %s", f.Session, f.Process)
	}
	wantNoSessions(t, e, url) // the lost one was closed
}

// TestLostSeat: a seat whose session is lost opens another session, and counts the loss.
func TestLostSeat(t *testing.T) {
	url := serve(t, "ws")
	p := testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Sessions = 1
	e := newTestEngine(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		e.seats[0].keep(ctx, nil)
	}()
	first, err := e.seats[0].await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	thief, err := e.open(ctx, sessionOptions{name: "thief", server: url, id: first.ID(), control: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.close(ctx); err != nil {
		t.Fatal(err)
	}
	<-first.finished
	second, err := e.seats[0].await(ctx)
	if err != nil || second == first || second.Name() != "s0.1" {
		t.Fatalf("the second session is %v, %v", second, err)
	}
	if n := e.rec.Now().Counts[result.LostSessions]; n != 1 {
		t.Errorf("%d lost sessions", n)
	}
	cancel()
	<-kept
	if err := second.ctx.Err(); err != nil {
		t.Errorf("the session does not stay for the check of what is left: %v", err)
	}
}

// A fakeMeter returns its Usages in their order, and then repeats the last Usage.
type fakeMeter struct{ uses []result.Usage }

func (m *fakeMeter) Read() (result.Usage, error) {
	u := m.uses[0]
	if len(m.uses) > 1 {
		m.uses = m.uses[1:]
	}
	return u, nil
}

// TestLeftMeters: descriptors and threads kept by a server after a run are reported. Descriptors closed late are not reported.
func TestLeftMeters(t *testing.T) {
	before := result.Usage{Files: 12, Threads: 9}
	for name, tt := range map[string]struct {
		others bool // use the server, too
		remote bool // the uses come from metrics
		after  []result.Usage
		found  string
		note   string
		unsure string // the problem
	}{
		"clean":   {after: []result.Usage{{Files: 12, Threads: 29}}},
		"late":    {after: []result.Usage{{Files: 14}, {Files: 13}, {Files: 12}}},
		"files":   {after: []result.Usage{{Files: 13}}, found: "server 1 has 13 descriptors open after the run, and had 12 before"},
		"threads": {after: []result.Usage{{Files: 12, Threads: 30}}, note: "server 1 has 30 threads after the run, and had 9 before"},
		"unknown": {after: []result.Usage{{Threads: 9}}, unsure: "server 1: which descriptors are left is not known: it had 12 before the run"},
		"others":  {others: true, after: []result.Usage{{Files: 13, Threads: 30}}},
		"metrics": {remote: true, after: []result.Usage{{Files: 13, Threads: 30}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlan("ws://x", time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
			if !tt.remote {
				p.PIDs = []int{os.Getpid()}
			}
			e := newTestEngine(t, p)
			e.goneWithin = 3 * lookEvery
			e.meters = []usage.Meter{&fakeMeter{append([]result.Usage{before}, tt.after...)}}
			e.leaveMeters([]*server{{url: "ws://x", alone: !tt.others}}, e.rec.Use(e.meters))
			r := e.rec.Now()
			var found string
			if len(r.Findings) > 0 {
				found = r.Findings[0].Detail
			}
			if found != tt.found || len(r.Findings) > 1 || strings.Join(r.Notes, " ") != tt.note || strings.Join(r.Problems, " ") != tt.unsure {
				t.Errorf("findings %+v, notes %q, problems %q", r.Findings, r.Notes, r.Problems)
			}
		})
	}
}

// TestFailures: failures within a server during the run are reported, and earlier failures are not.
func TestFailures(t *testing.T) {
	e := newTestEngine(t, testPlan("ws://x", time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
	s := &server{url: "ws://x", before: protocol.ServerInfoResult{Panics: 5, ActorRestarts: 3, ActorsGivenUp: 2}}
	after := s.before
	e.tellFailures(s, &after)
	if r := e.rec.Now(); len(r.Findings) > 0 || len(r.Notes) > 0 {
		t.Errorf("findings %+v, notes %q, without a failure", r.Findings, r.Notes)
	}
	after.Panics, after.ActorsGivenUp = 7, 3
	e.tellFailures(s, &after)
	r := e.rec.Now()
	if len(r.Findings) != 1 || r.Findings[0].Kind != oracle.Answer || !strings.Contains(r.Findings[0].Detail, "had 2 panics") {
		t.Errorf("findings %+v", r.Findings)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "restarted actors of its own 0 times, and given up 1:") {
		t.Errorf("notes %q", r.Notes)
	}
}
