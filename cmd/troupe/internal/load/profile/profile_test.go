//go:build unix

package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	_ "github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program/early" // the test binary is the programs
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

func init() {
	minStay, maxStay, minAway, maxAway = 50*time.Millisecond, 100*time.Millisecond, time.Millisecond, 30*time.Millisecond
	lookEvery = 50 * time.Millisecond
}

// deadline bounds tests that take less than a second on a quiet machine.
const deadline = time.Minute

func newTask(t *testing.T, s *fake, part plan.Part) *Task {
	t.Helper()
	d := plan.Default(part.Profile)
	if part.Size == 0 {
		part.Size = d.Size
	}
	if part.Every == 0 {
		part.Every = d.Every
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Plan{Servers: []string{s.Server()}, Program: own, Seed: 7, Chaos: plan.Chaos{StallFor: plan.Duration(50 * time.Millisecond)}}
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Task{Plan: &p, Part: part, Session: s, Name: "p0.0", RunID: "run", Rec: rec, Began: time.Now()}
}

// until returns a context that ends when rec has the counts and latencies.
func until(t *testing.T, rec *figures.Recorder, counts map[string]int64, latencies []string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	go func() {
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			r := rec.Now()
			enough := true
			for name, n := range counts {
				enough = enough && r.Counts[name] >= max(n, -n)
			}
			for _, name := range latencies {
				enough = enough && r.Latency[name] != nil
			}
			if enough {
				return
			}
		}
	}()
	return ctx
}

// runTask runs a task, and returns the figures.
func runTask(t *testing.T, ctx context.Context, task *Task) *result.Result {
	t.Helper()
	began := time.Now()
	if err := Run(ctx, task); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > deadline {
		t.Errorf("Run took %v", took)
	}
	return task.Rec.Now()
}

func wantCounts(t *testing.T, r *result.Result, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got := r.Counts[name]; n >= 0 && got != n || n < 0 && got < -n {
			t.Errorf("%s: %d, want %d (below 0: at least)", name, got, n)
		}
	}
	if r.Counts[result.Wrong] > 0 && want[result.Wrong] == 0 {
		for _, f := range r.Findings {
			f.Replay = nil
			t.Errorf("finding %+v", f)
		}
	}
	if len(r.Errors) > 0 {
		t.Errorf("errors %v", r.Errors)
	}
}

func lifetime(d time.Duration) plan.Duration { return plan.Duration(d) }

// without returns a change that drops events.
func without(drop func(oracle.Event) bool) func(oracle.Event) []oracle.Event {
	return func(e oracle.Event) []oracle.Event {
		if drop(e) {
			return nil
		}
		return []oracle.Event{e}
	}
}

// Each profile plays its part on each kind of server, and finds nothing wrong.
func TestProfiles(t *testing.T) {
	const short = 20 * time.Millisecond
	for _, test := range []struct {
		part    plan.Part
		want    map[string]int64
		latency []string
		leftOut string // by the peer's server
		peers   map[string]int64
	}{
		{part: plan.Part{Profile: plan.Spawn}, want: map[string]int64{result.Operations: 1}, latency: []string{result.Spawned}},
		{part: plan.Part{Profile: plan.Spawn, Size: smallBurst + 1}, want: map[string]int64{result.Operations: 1}, latency: []string{result.Spawned}},
		{
			part: plan.Part{Profile: plan.Lines, Every: lifetime(short)},
			want: map[string]int64{result.CheckedBytes: -500}, latency: []string{result.Lag, result.EndLag},
		},
		{part: plan.Part{Profile: plan.Flood}, want: map[string]int64{result.CheckedBytes: -1 << 20}, latency: []string{result.EndLag}},
		{
			part: plan.Part{Profile: plan.Echo, Every: lifetime(short)}, want: map[string]int64{result.Operations: -3, result.StdinBytes: -3},
			latency: []string{result.Echo, result.EndLag}, leftOut: "process/closeStdin",
		},
		{part: plan.Part{Profile: plan.Idle}, latency: []string{result.EndLag}},
		{
			part: plan.Part{Profile: plan.Restart, Restarts: 5}, want: map[string]int64{result.Runs: -5, result.Operations: -5},
			leftOut: "restarts", peers: map[string]int64{result.Runs: 1, result.Operations: 0},
		},
		{
			part: plan.Part{Profile: plan.Upload}, want: map[string]int64{result.Operations: -3, result.StdinBytes: -3 * 16 << 10},
			latency: []string{result.Block, result.EndLag}, leftOut: "process/closeStdin",
		},
		{
			part: plan.Part{Profile: plan.Viewers, Every: lifetime(short), Viewers: 3},
			want: map[string]int64{result.CheckedBytes: -2000}, latency: []string{result.Lag, result.EndLag},
			leftOut: "observers", peers: map[string]int64{result.CheckedBytes: -500},
		},
		{
			part: plan.Part{Profile: plan.Attach, Every: lifetime(short)},
			want: map[string]int64{result.Operations: -1}, latency: []string{result.Lag},
		},
	} {
		for _, server := range []string{"ours", "ours on PTYs", "the peer's", "the peer's on PTYs"} {
			t.Run(fmt.Sprintf("%s of %d on %s", test.part.Profile, test.part.Size, server), func(t *testing.T) {
				t.Parallel()
				s := newFake(t)
				s.peers = strings.HasPrefix(server, "the peer's")
				task := newTask(t, s, test.part)
				task.Plan.TTY = strings.HasSuffix(server, "PTYs")
				want := map[string]int64{result.Starts: 1, result.Ends: 1, result.Runs: 1, result.Events: -3, result.CheckedBytes: -100, result.StartsRefused: 0}
				for name, n := range test.want {
					want[name] = n
				}
				if s.peers && test.peers != nil {
					for name, n := range test.peers {
						want[name] = n
					}
				}
				while := make(map[string]int64) // counts while the program runs
				for name, n := range want {
					if n < 0 && name != result.Events {
						while[name] = n
					}
				}
				running := slices.DeleteFunc(slices.Clone(test.latency), func(name string) bool { return name == result.EndLag || name == result.Spawned })
				r := runTask(t, until(t, task.Rec, while, running), task)
				wantCounts(t, r, want)
				for _, name := range append(test.latency, result.Start) {
					if r.Latency[name] == nil || r.Latency[name].Count() == 0 || r.Latency[name].Max() > deadline {
						t.Errorf("the latency %s is %+v", name, r.Latency[name])
					}
				}
				leftOut := strings.Join(r.LeftOut, "\n")
				if s.peers && (test.leftOut == "") != (leftOut == "") || !strings.Contains(leftOut, test.leftOut) && s.peers || !s.peers && leftOut != "" {
					t.Errorf("left out: %q", leftOut)
				}
				if test.part.Profile == plan.Viewers && !s.peers && s.observed != 3 {
					t.Errorf("%d observers, want 3", s.observed)
				}
				if len(s.followers) > 0 || len(s.observers) > 0 {
					t.Error("somebody is still following the process")
				}
			})
		}
	}
}

// Faults of the server are found: by the checkers, which have their own tests, and by the task itself.
func TestFindings(t *testing.T) {
	onOutput := func(n uint64, f func(e oracle.Event) []oracle.Event) func(oracle.Event) []oracle.Event {
		return func(e oracle.Event) []oracle.Event {
			if e.Kind == "output" && e.Seq == n {
				return f(e)
			}
			return []oracle.Event{e}
		}
	}
	lines := plan.Part{Profile: plan.Lines, Every: lifetime(5 * time.Millisecond)}
	upload := plan.Part{Profile: plan.Upload, Size: 1000}
	over := false // closed has come
	for name, test := range map[string]struct {
		part   plan.Part
		change func(oracle.Event) []oracle.Event
		spoil  func([]byte) []byte
		want   oracle.Kind
		typed  int64 // ends the program when so much was typed; 0: a finding does
	}{
		"an altered byte": {part: lines, want: oracle.Altered, change: onOutput(5, func(e oracle.Event) []oracle.Event {
			e.Data = slices.Clone(e.Data)
			e.Data[len(e.Data)/2] ^= 1
			return []oracle.Event{e}
		})},
		"a restart that never comes": {part: plan.Part{Profile: plan.Restart, Restarts: 1000}, want: oracle.Order, change: func(e oracle.Event) []oracle.Event {
			switch {
			case e.Kind == "restarted":
				e.Kind, e.Run = "closed", 0
			case over:
				return nil
			}
			over = over || e.Kind == "closed"
			return []oracle.Event{e}
		}},
		"an altered byte of stdin": {part: upload, want: oracle.Stdin, spoil: func(p []byte) []byte { p[100] ^= 1; return p }},
		"a missing byte of stdin":  {part: upload, want: oracle.Stdin, spoil: func(p []byte) []byte { return p[1:] }, typed: 1000},
		"a missing end of stdin":   {part: upload, want: oracle.Stdin, spoil: func(p []byte) []byte { return p[:990] }, typed: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			s.change = test.change
			if test.spoil != nil {
				first := true
				s.spoil = func(p []byte) []byte {
					if first {
						first = false
						return test.spoil(p)
					}
					return p
				}
			}
			task := newTask(t, s, test.part)
			enough := map[string]int64{result.Wrong: 1}
			if test.typed > 0 {
				enough = map[string]int64{result.StdinBytes: test.typed}
			}
			r := runTask(t, until(t, task.Rec, enough, nil), task)
			kinds := make([]oracle.Kind, 0, len(r.Findings))
			for _, f := range r.Findings {
				kinds = append(kinds, f.Kind)
				if f.Process != "p0.0" || f.Session != "s0" || f.Server != s.Server() {
					t.Errorf("the finding has the place %s/%s on %s", f.Session, f.Process, f.Server)
				}
			}
			if !slices.Contains(kinds, test.want) {
				t.Errorf("found %q, want %q", kinds, test.want)
			}
		})
	}
}

// A server that says that it ended a program itself is no liar. Nobody can check the end of such a program, which is a problem.
func TestEndedByServer(t *testing.T) {
	for _, profile := range []plan.Profile{plan.Lines, plan.Upload, plan.Viewers} {
		s := newFake(t)
		end := func(e oracle.Event) []oracle.Event {
			if e.Kind == "exited" {
				e.Reason = "timed out"
			}
			return []oracle.Event{e}
		}
		s.change, s.toObserver = end, end
		task := newTask(t, s, plan.Part{Profile: profile})
		if profile == plan.Upload { // the refusal of a write may overtake exited
			s.write = func(_ []byte, done func(error)) error {
				done(errors.New("the server answered stdinClosed"))
				return nil
			}
		}
		s.running.Go(func() {
			<-until(t, task.Rec, map[string]int64{result.CheckedBytes: 50}, nil).Done()
			s.program("p0.0").signal(syscall.SIGKILL)
		})
		r := runTask(t, t.Context(), task)
		want := "The server ended programs itself, and nobody checked their ends: timed out"
		if len(r.Findings) > 0 || len(r.Problems) != 1 || r.Problems[0] != want {
			t.Errorf("%s: findings %+v, problems %q, want %q", profile, r.Findings, r.Problems, want)
		}
	}
}

// If the server does not end a program, there is a finding, and the program is killed.
func TestProgramThatGoesOn(t *testing.T) {
	before := patience
	patience = 300 * time.Millisecond
	defer func() { patience = before }()
	for _, part := range []plan.Part{{Profile: plan.Idle}, {Profile: plan.Lines, Every: lifetime(time.Millisecond)}} { // the second one prints on
		s := newFake(t)
		s.mute = true
		part.Life = lifetime(10 * time.Millisecond)
		r := runTask(t, t.Context(), newTask(t, s, part))
		if len(r.Findings) != 1 || r.Findings[0].Kind != oracle.LostExit {
			t.Errorf("%s: findings %+v", part.Profile, r.Findings)
		}
		if !s.program("p0.0").over {
			t.Errorf("%s: the program goes on", part.Profile)
		}
	}
}

// TestNeverClosed: what comes of a process after the client has given it up is no event after its end.
func TestNeverClosed(t *testing.T) {
	before, killed := patience, killedFor
	patience, killedFor = 100*time.Millisecond, 10*time.Millisecond
	defer func() { patience, killedFor = before, killed }()
	s := newFake(t)
	s.mute = true
	s.change = without(func(e oracle.Event) bool { return e.Kind == "exited" || e.Kind == "closed" })
	r := runTask(t, t.Context(), newTask(t, s, plan.Part{Profile: plan.Idle, Life: lifetime(10 * time.Millisecond)}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.Findings) != 1 || r.Findings[0].Kind != oracle.LostExit || s.followers["p0.0"] == nil {
		t.Errorf("findings %+v, followers %v", r.Findings, s.followers)
	}
}

// TestObserverRefused: without its observers a run checks less than it was asked to, which is a problem. A run may lose observers by its own cuts.
func TestObserverRefused(t *testing.T) {
	for want, err := range []error{fmt.Errorf("a cut: %w", ErrLost), &protocol.Error{Code: -32603, Message: "too many observers"}} {
		s := newFake(t)
		s.unseen = err
		r := runTask(t, t.Context(), newTask(t, s, plan.Part{Profile: plan.Viewers, Viewers: 2, Life: lifetime(time.Millisecond)}))
		if len(r.Problems) != want || len(r.Errors) != want {
			t.Errorf("%v: problems %q, errors %v; want %d of each", err, r.Problems, r.Errors, want)
		}
	}
}

// TestObserverThatMisses: an observer gets all events of the process, as long as its connection lives.
func TestObserverThatMisses(t *testing.T) {
	before := viewersFor
	defer func() { viewersFor = before }()
	for name, test := range map[string]struct {
		miss func(e oracle.Event) bool
		want []oracle.Kind
	}{
		"the first event": {func(e oracle.Event) bool { return e.Seq == 1 }, []oracle.Kind{oracle.SeqHole}},
		"closed":          {func(e oracle.Event) bool { return e.Kind == "closed" }, []oracle.Kind{oracle.LostExit}},
		"all but output":  {func(e oracle.Event) bool { return e.Kind != "output" }, []oracle.Kind{oracle.LostExit}},
		"everything":      {func(e oracle.Event) bool { return true }, []oracle.Kind{oracle.LostExit, oracle.Missing}},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connection lost: %v", name, gone), func(t *testing.T) {
				s := newFake(t)
				s.gone = gone
				viewersFor = deadline
				if !gone && slices.Contains(test.want, oracle.LostExit) {
					viewersFor = 10 * time.Millisecond // the end never comes
				}
				s.toObserver = without(test.miss)
				task := newTask(t, s, plan.Part{Profile: plan.Viewers, Viewers: 2, Life: lifetime(10 * time.Millisecond)})
				r := runTask(t, t.Context(), task)
				kinds := make(map[oracle.Kind]bool)
				for _, f := range r.Findings {
					kinds[f.Kind] = true
					if !strings.HasPrefix(f.Detail, "observer ") {
						t.Errorf("the finding is %s", f.Detail)
					}
				}
				want := make(map[oracle.Kind]bool)
				for _, kind := range test.want {
					want[kind] = !gone || kind == oracle.SeqHole
				}
				for _, kind := range []oracle.Kind{oracle.SeqHole, oracle.LostExit, oracle.Missing} {
					if kinds[kind] != want[kind] && (kind != oracle.Missing || name == "everything") {
						t.Errorf("%s: %v, want %v", kind, kinds[kind], want[kind])
					}
				}
				if len(r.Errors) > 0 {
					t.Errorf("errors %v", r.Errors)
				}
			})
		}
	}
}

// Kills and stops of the chaos are no finding.
func TestActs(t *testing.T) {
	for _, profile := range []plan.Profile{plan.Lines, plan.Flood, plan.Echo, plan.Upload, plan.Idle, plan.Restart, plan.Spawn} {
		for _, kind := range []chaos.Kind{chaos.Kill, chaos.Freeze} {
			for _, server := range []string{"ours", "the peer's"} {
				if profile == plan.Restart && server != "ours" {
					continue // ends at once
				}
				t.Run(fmt.Sprintf("%s: %s on %s", profile, kind, server), func(t *testing.T) {
					t.Parallel()
					s := newFake(t)
					s.peers = server != "ours"
					task := newTask(t, s, plan.Part{Profile: profile, Restarts: 10_000, Every: lifetime(time.Millisecond)})
					acts := make(chan chaos.Act)
					task.Acts = acts
					want := map[string]int64{result.Ends: 1, result.Kills: 0, result.Freezes: 0}
					switch {
					case kind == chaos.Kill:
						want[result.Kills] = 1
					case !s.peers:
						want[result.Freezes] = 1
					}
					running := until(t, task.Rec, map[string]int64{result.CheckedBytes: 100}, nil)
					acted, cancel := context.WithCancel(t.Context())
					s.change = func(e oracle.Event) []oracle.Event {
						if e.Kind == "exited" && (profile == plan.Spawn || profile == plan.Restart) { // the act is for the present run
							<-acted.Done()
						}
						return []oracle.Event{e}
					}
					go func() {
						defer cancel()
						<-running.Done()
						select {
						case acts <- chaos.Act{Kind: kind}:
						case <-t.Context().Done():
							return
						}
						<-until(t, task.Rec, map[string]int64{result.Kills: want[result.Kills], result.Freezes: want[result.Freezes]}, nil).Done()
					}()
					r := runTask(t, acted, task)
					if freeze := kind == chaos.Freeze && s.peers; freeze != slices.ContainsFunc(r.LeftOut, func(s string) bool { return strings.HasPrefix(s, "freeze") }) {
						t.Errorf("left out: %q", r.LeftOut)
					}
					wantCounts(t, r, want)
				})
			}
		}
	}
}

// TestKillTooLate: only a program that got the signal counts as killed.
func TestKillTooLate(t *testing.T) {
	for _, peers := range []bool{false, true} {
		s := newFake(t)
		s.peers = peers
		p, err := newProcess(t.Context(), newTask(t, s, plan.Part{Profile: plan.Lines, Every: lifetime(time.Millisecond)}))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.begin(); err != nil {
			t.Fatal(err)
		}
		kills := func(want int64) {
			t.Helper()
			p.kill()
			p.acting.Wait()
			if r := p.Rec.Now(); r.Counts[result.Kills] != want || len(r.Errors) > 0 {
				t.Errorf("the peer's server: %v: %d kills, want %d; errors %v", peers, r.Counts[result.Kills], want, r.Errors)
			}
		}
		f := s.program(p.Name)
		if !peers {
			f.mu.Lock()
			f.run = 2
			f.mu.Unlock()
			kills(0)
			f.mu.Lock()
			f.run = 1
			f.mu.Unlock()
		}
		kills(1)
		<-p.closed
		if peers {
			kills(1)
		}
	}
}

// TestUnfollow: while the observers of a process have not seen its end, its owner follows it no more: more events would be a finding.
func TestUnfollow(t *testing.T) {
	s := newFake(t)
	s.toObserver = func(e oracle.Event) []oracle.Event {
		for begun := time.Now(); e.Kind == "closed"; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			followed := len(s.followers) > 0
			s.mu.Unlock()
			if !followed {
				break
			}
			if time.Since(begun) > deadline/2 {
				t.Error("somebody is still following the process")
				break
			}
		}
		return []oracle.Event{e}
	}
	r := runTask(t, t.Context(), newTask(t, s, plan.Part{Profile: plan.Viewers, Viewers: 2, Life: lifetime(10 * time.Millisecond)}))
	wantCounts(t, r, map[string]int64{result.Ends: 1})
}

// When the session is lost, a task ends at once and finds nothing.
func TestLostSession(t *testing.T) {
	before := killedFor
	killedFor = patience // so that a task that waits for the end of its program takes longer than the deadline
	t.Cleanup(func() { killedFor = before })
	for _, profile := range []plan.Profile{plan.Spawn, plan.Lines, plan.Flood, plan.Echo, plan.Upload, plan.Idle, plan.Restart, plan.Viewers} {
		for _, when := range []string{"while it lives", "while it ends"} {
			t.Run(fmt.Sprintf("%s %s", profile, when), func(t *testing.T) {
				t.Parallel()
				s := newFake(t)
				s.mute = when == "while it ends"
				s.change = without(func(e oracle.Event) bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.lost || e.Kind == "closed" && (s.mute || profile == plan.Spawn)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(200*time.Millisecond, func() {
					if s.mute { // the phase is over, and then the session is lost
						cancel(context.DeadlineExceeded)
						time.Sleep(100 * time.Millisecond)
					}
					s.mu.Lock()
					s.lost = true
					s.mu.Unlock()
					cancel(ErrLost)
				})
				task := newTask(t, s, plan.Part{Profile: profile, Every: lifetime(time.Hour), Viewers: 1, Restarts: 10_000})
				r := runTask(t, ctx, task)
				wantCounts(t, r, map[string]int64{result.Ends: 0, result.Wrong: 0})
			})
		}
	}
}

func TestRefusedStart(t *testing.T) {
	s := newFake(t)
	s.refuse = fmt.Errorf("process/start: %w", &protocol.Error{Code: -32603, Message: "no room"})
	task := newTask(t, s, plan.Part{Profile: plan.Echo})
	if err := Run(t.Context(), task); !errors.Is(err, s.refuse) {
		t.Errorf("Run: %v", err)
	}
	r := task.Rec.Now()
	if r.Counts[result.StartsRefused] != 1 || r.Counts[result.Starts] != 0 || len(r.Errors) != 1 || r.Counts[result.Wrong] != 0 {
		t.Errorf("counts %v, errors %v", r.Counts, r.Errors)
	}
	if len(s.followers) > 0 {
		t.Error("somebody is still following the process")
	}
}

// In an open run, latencies count from the due time of an operation, and operations do not wait for each other's answers.
func TestMoments(t *testing.T) {
	const late = time.Hour
	for profile, latency := range map[plan.Profile]string{plan.Spawn: result.Spawned, plan.Echo: result.Echo, plan.Upload: result.Block} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			task := newTask(t, s, plan.Part{Profile: profile, Every: lifetime(late)})
			n := 50
			if profile == plan.Spawn {
				n = 1
			}
			moments := make(chan time.Time)
			task.Moments = moments
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for range n {
					moments <- time.Now().Add(-late)
				}
				cancel()
			}()
			r := runTask(t, ctx, task)
			wantCounts(t, r, map[string]int64{result.Operations: int64(n)})
			if h := r.Latency[latency]; h == nil || h.Count() != int64(n) || h.Min() < late*99/100 {
				t.Errorf("the latency %s is %+v", latency, h)
			}
		})
	}
	t.Run("no moment", func(t *testing.T) {
		s := newFake(t)
		task := newTask(t, s, plan.Part{Profile: plan.Spawn})
		task.Moments = make(chan time.Time)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantCounts(t, runTask(t, ctx, task), map[string]int64{result.Starts: 0})
	})
}

// TestLatencyWhileAway: latencies during the client's own absence do not measure the server, and are left out. After an absence, latencies
// across a cut of the chaos count.
func TestLatencyWhileAway(t *testing.T) {
	s := newFake(t)
	task := newTask(t, s, plan.Part{Profile: plan.Lines})
	p, err := newProcess(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	n := 0
	try := func(from, to int, counts bool) {
		t.Helper()
		p.latency(result.Lag, at(from), at(to), 0)
		if counts {
			n++
		}
		if h := task.Rec.Now().Latency[result.Lag]; h == nil && n > 0 || h != nil && h.Count() != int64(n) {
			t.Errorf("after a latency from %d to %d: %+v, want %d values", from, to, h, n)
		}
	}
	try(1, 2, true)
	s.left = at(10)
	try(5, 12, false)
	s.back = at(20)
	p.event(&oracle.Event{Kind: "resumed"}, at(20))
	try(15, 25, false)
	p.event(&oracle.Event{Kind: "resumed"}, at(30)) // after a cut of the chaos
	try(25, 31, true)
	try(15, 31, false)
	if len(task.Rec.Now().Notes) != 1 {
		t.Errorf("notes %q", task.Rec.Now().Notes)
	}
}

// bare returns the process of a task, without a program.
func bare(t *testing.T, s *fake, profile plan.Profile) *process {
	t.Helper()
	p, err := newProcess(t.Context(), newTask(t, s, plan.Part{Profile: profile}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFreezeWithoutAnswer: without an answer to SIGSTOP, the program may be stopped all the same, and goes on.
func TestFreezeWithoutAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		want   []protocol.Signal
	}{
		"no answer": {context.DeadlineExceeded, []protocol.Signal{protocol.SignalStop, protocol.SignalContinue}},
		"refused":   {&protocol.Error{Code: -32603, Message: "no such process"}, []protocol.Signal{protocol.SignalStop}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			var signals []protocol.Signal
			s.answer = func(params any, err error) error {
				signal := params.(protocol.ProcessSignalParams).Signal
				if signals = append(signals, signal); signal == protocol.SignalStop {
					return test.answer
				}
				return err
			}
			p := bare(t, s, plan.Echo)
			p.freeze(1)
			if r := p.Rec.Now(); !slices.Equal(signals, test.want) || len(r.Errors) != 1 || r.Counts[result.Freezes] != 0 {
				t.Errorf("the signals are %v, want %v; %d freezes; errors %v", signals, test.want, r.Counts[result.Freezes], r.Errors)
			}
		})
	}
}

// TestEndOfStdinWithoutAnswer: at a server without process/closeStdin, a byte without an answer does not hold up the end of a task.
func TestEndOfStdinWithoutAnswer(t *testing.T) {
	s := newFake(t)
	s.peers = true
	s.write = func([]byte, func(error)) error { return nil }
	p := bare(t, s, plan.Echo)
	close(p.given)
	ended := make(chan error, 1)
	go func() { ended <- p.endStdin() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Fatal("endStdin still waits for the answer")
	}
}

// TestAnswerBeforeFailedWrite: output that answers stdin before its write has failed is no reason to fail.
func TestAnswerBeforeFailedWrite(t *testing.T) {
	s := newFake(t)
	p := bare(t, s, plan.Upload)
	s.write = func([]byte, func(error)) error {
		p.answer(1<<30, false, time.Now())
		return errors.New("too many writes")
	}
	if p.typeOn(time.Now()) {
		t.Error("a failed write is an operation")
	}
	if len(p.typed) != 0 || p.writes != 0 || p.position != 0 {
		t.Errorf("%d operations and %d writes up to %d remain", len(p.typed), p.writes, p.position)
	}
}

// TestMissed: operations of an open run that were due and got no answer are missed.
func TestMissed(t *testing.T) {
	for _, open := range []bool{true, false} {
		s := newFake(t)
		s.write = func([]byte, func(error)) error { return errors.New("too many writes") }
		p := bare(t, s, plan.Echo)
		if open {
			p.Moments = make(chan time.Time)
		}
		p.typeOn(time.Now())
		want := int64(0) // a closed run tries again
		if open {
			want = 1
		}
		if n := p.Rec.Now().Counts[result.Missed]; n != want {
			t.Errorf("open run %v: after a failed write, %d operations are missed, want %d", open, n, want)
		}
	}
	for name, test := range map[string]struct {
		profile plan.Profile
		refuse  error
		killed  bool
		want    int64
	}{
		"typed, and the session is lost":   {profile: plan.Echo, want: 3},
		"typed, and the program is killed": {profile: plan.Echo, killed: true},
		"spawn, and the session is lost":   {profile: plan.Spawn, want: 1},
		"spawn, and the start is refused":  {profile: plan.Spawn, refuse: &protocol.Error{Code: -32603, Message: "no room"}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			s.refuse = test.refuse
			s.change = without(func(e oracle.Event) bool { return e.Kind == "closed" }) // the programs end unseen
			s.write = func([]byte, func(error)) error { return nil }
			task := newTask(t, s, plan.Part{Profile: test.profile})
			moments, acts := make(chan time.Time), make(chan chaos.Act)
			task.Moments, task.Acts = moments, acts
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				for range max(test.want, 1) {
					moments <- time.Now()
				}
				if test.killed {
					acts <- chaos.Act{Kind: chaos.Kill}
				}
				s.mu.Lock()
				s.lost = true
				s.mu.Unlock()
				cancel(ErrLost)
			}()
			Run(ctx, task)
			r := task.Rec.Now()
			if n := r.Counts[result.Missed]; n != test.want {
				t.Errorf("%d operations are missed, want %d", n, test.want)
			}
			if h := r.Latency[Operation(test.profile)]; test.want > 0 && (h == nil || h.Quantile(.5) != hist.Never) {
				t.Error("the percentiles leave out what was missed")
			}
		})
	}
}

// TestStartWithoutAnswer: the server may have started a program without telling. The client ends the program, and follows it until its end.
func TestStartWithoutAnswer(t *testing.T) {
	unanswered := fmt.Errorf("process/start: no answer: %w", context.DeadlineExceeded)
	t.Run("started", func(t *testing.T) {
		s := newFake(t)
		s.answer = func(params any, err error) error {
			if _, ok := params.(protocol.ProcessStartParams); ok {
				return unanswered
			}
			return err
		}
		closed := make(chan struct{})
		s.change = func(e oracle.Event) []oracle.Event {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.followers["p0.0"] == nil {
				t.Errorf("nobody follows %s", e.Kind)
			}
			if e.Kind == "closed" {
				close(closed)
			}
			return []oracle.Event{e}
		}
		task := newTask(t, s, plan.Part{Profile: plan.Lines})
		if err := Run(t.Context(), task); !errors.Is(err, unanswered) {
			t.Errorf("Run: %v", err)
		}
		select {
		case <-closed:
		case <-time.After(deadline):
			t.Fatal("the program goes on")
		}
		if r := task.Rec.Now(); len(r.Errors) != 1 || len(r.Problems) != 1 || r.Counts[result.Wrong] != 0 || r.Counts[result.Starts] != 0 {
			t.Errorf("counts %v, errors %v, problems %q, findings %v", r.Counts, r.Errors, r.Problems, r.Findings)
		}
		if len(s.followers) > 0 {
			t.Error("somebody still follows the process after its end")
		}
	})
	t.Run("not started", func(t *testing.T) {
		s := newFake(t)
		s.answer = func(params any, err error) error {
			if _, ok := params.(protocol.ProcessTerminateParams); ok {
				return &protocol.Error{Code: -32603, Message: "no such process"}
			}
			return err
		}
		s.refuse = unanswered
		task := newTask(t, s, plan.Part{Profile: plan.Lines})
		if err := Run(t.Context(), task); !errors.Is(err, unanswered) {
			t.Errorf("Run: %v", err)
		}
		if r := task.Rec.Now(); len(r.Errors) != 1 || len(s.followers) != 1 {
			t.Errorf("errors %v, want 1; %d followers, want 1: the server may still start the program", r.Errors, len(s.followers))
		}
	})
}

// TestOwedEnd: after a request without an answer that was to end a program, nobody waits for the end of the program: the client kills it.
func TestOwedEnd(t *testing.T) {
	for _, profile := range []plan.Profile{plan.Lines, plan.Echo, plan.Restart} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			s.mute = true
			s.answer = func(params any, err error) error {
				switch params.(type) {
				case protocol.ProcessSignalParams, protocol.ProcessCloseStdinParams, protocol.ProcessSetRestartParams:
					return ErrAnswer
				}
				return err
			}
			task := newTask(t, s, plan.Part{Profile: profile})
			task.Part.Restarts = 1
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			began := time.Now()
			if err := Run(ctx, task); err != nil {
				t.Fatal(err)
			}
			r := task.Rec.Now()
			if took := time.Since(began); took > patience/2 || r.Counts[result.Ends] != 1 || len(r.Findings) > 0 {
				t.Errorf("after %v, counts %v, findings %+v", took, r.Counts, r.Findings)
			}
		})
	}
}

// late is a context whose deadline is over, and that has not noticed yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

// TestOver: the end of a phase is no error of the server, also if the dialer of an observer notices it first.
func TestOver(t *testing.T) {
	if !over(late{t.Context()}) {
		t.Error("a context whose deadline is over is not over")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	if over(t.Context()) || over(ctx) {
		t.Error("a context with time left is over")
	}
	if cancel(); !over(ctx) {
		t.Error("a context that was cancelled is not over")
	}
}

// TestStarved: a program that gets no thread from its machine is an error, and no finding against the server.
func TestStarved(t *testing.T) {
	for _, tty := range []bool{false, true} {
		for _, profile := range []plan.Profile{plan.Echo, plan.Lines, plan.Viewers} {
			t.Run(fmt.Sprintf("%s, terminal %v", profile, tty), func(t *testing.T) {
				program := filepath.Join(t.TempDir(), "program")
				text := "#!/bin/sh\necho 'runtime/cgo: pthread_create failed: Resource temporarily unavailable' >&2\necho 'SIGABRT: abort' >&2\nexit 2\n"
				if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
				task := newTask(t, newFake(t), plan.Part{Profile: profile})
				task.Plan.Program, task.Plan.TTY = program, tty
				if err := Run(t.Context(), task); err != nil {
					t.Fatal(err)
				}
				r := task.Rec.Now()
				if len(r.Findings) > 0 || r.Counts[result.Ends] != 1 {
					t.Errorf("%d ends, want 1; findings: %+v", r.Counts[result.Ends], r.Findings)
				}
				starved := 0
				for text, n := range r.Errors {
					switch {
					case strings.Contains(text, "no thread left"):
						starved += int(n)
					case !strings.Contains(text, "already closed") && !strings.Contains(text, "broken pipe"): // a keystroke may come after the end
						t.Errorf("%d errors are %q", n, text)
					}
				}
				if starved != 1 {
					t.Errorf("%d errors, want 1 about threads: %v", starved, r.Errors)
				}
			})
		}
	}
}

// TestExitedAfterClosed: an exited that comes after closed is in the wrong order, and not lost.
func TestExitedAfterClosed(t *testing.T) {
	s := newFake(t)
	var exited oracle.Event
	s.change = func(e oracle.Event) []oracle.Event {
		switch e.Kind {
		case "exited":
			exited = e
			return nil
		case "closed":
			return []oracle.Event{e, exited}
		}
		return []oracle.Event{e}
	}
	task := newTask(t, s, plan.Part{Profile: plan.Spawn})
	if err := Run(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	kinds := map[oracle.Kind]bool{}
	for _, f := range task.Rec.Now().Findings {
		kinds[f.Kind] = true
	}
	if !kinds[oracle.Order] || kinds[oracle.LostExit] {
		t.Errorf("the findings are of the kinds %v, want %q and not %q", kinds, oracle.Order, oracle.LostExit)
	}
}
