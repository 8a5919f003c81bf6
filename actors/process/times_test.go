package process

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// A process has a single timer for any number of process/terminate, and no timer after its end.
func TestOneTimerOfAKind(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
		pid, record, c := fakeProcess(protocol.ProcessStartParams{TimeoutMs: ms(2 * time.Hour)}, spawn)
		const n = 1000
		for range n {
			system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessTerminateParams{GraceMs: ms(time.Hour)}}, record.session)
		}
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		if polite, killed := c.Was(); polite != n || killed != 0 {
			t.Errorf("SIGTERM %d times of %d, killed after %v", polite, n, killed)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if _, killed := c.Was(); killed != time.Hour {
			t.Errorf("killed after %v, want an hour", killed)
		}
		if n := count("wakeDue"); n != 1 {
			t.Errorf("%d wakeDue came, want 1", n)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if record.life.Status().TimedOut {
			t.Error("it has timed out after its end")
		}
	})
}

// A program that ends before its timeout has not timed out, although its exit is not in the log
// yet: the exit comes after unread output.
func TestEndedIsNotTimedOut(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
		_, record, c := fakeProcess(protocol.ProcessStartParams{TimeoutMs: ms(time.Second)}, spawn)
		c.Mu.Lock()
		c.Ended = true
		c.Mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if count("wakeDue") != 1 {
			t.Error("its time is not up, and this tests nothing")
		}
		record.run.intake.Exited(protocol.ExitStatus{ExitCode: 3})
		synctest.Wait()
		if st := record.life.Status(); st.TimedOut || st.Reason != "" || st.ExitCode != 3 {
			t.Errorf("%+v, want exit code 3, not timed out, and no reason", st)
		}
	})
}

// A later reason to kill a process with a longer grace does not put an earlier kill off, not even
// the shutdown of the server.
func TestKillIsNotPutOff(t *testing.T) {
	terminate := func(grace time.Duration) any {
		return message.Request{Params: protocol.ProcessTerminateParams{GraceMs: ms(grace)}}
	}
	for _, test := range []struct {
		name     string
		params   protocol.ProcessStartParams
		messages []any // each a second after the last
		killed   time.Duration
	}{
		{"terminate again", protocol.ProcessStartParams{}, []any{terminate(5 * time.Second), terminate(time.Hour)}, 5 * time.Second},
		{"terminate each second", protocol.ProcessStartParams{}, []any{terminate(2 * time.Second), terminate(2 * time.Second), terminate(2 * time.Second), terminate(2 * time.Second)}, 2 * time.Second},
		{"terminate sooner", protocol.ProcessStartParams{}, []any{terminate(time.Hour), terminate(2 * time.Second)}, 3 * time.Second},
		{"terminate during shutdown", protocol.ProcessStartParams{KillGraceMs: ms(time.Hour)}, []any{message.Stop{Reason: message.ReasonShutdown, Shutdown: 2 * time.Second}, terminate(time.Hour)}, 2 * time.Second},
		{"terminate after the timeout", protocol.ProcessStartParams{TimeoutMs: ms(time.Second), KillGraceMs: ms(2 * time.Second)}, []any{nil, nil, terminate(time.Hour)}, 3 * time.Second},
		{"session/close after terminate", protocol.ProcessStartParams{KillGraceMs: ms(time.Hour)}, []any{terminate(2 * time.Second), message.Stop{Reason: message.ReasonClosed, Shutdown: -1}}, 2 * time.Second},
		{"shutdown after session/close", protocol.ProcessStartParams{KillGraceMs: ms(time.Hour)}, []any{message.Stop{Reason: message.ReasonClosed, Shutdown: -1}, message.Stop{Reason: message.ReasonClosed, Shutdown: 2 * time.Second}}, 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
				pid, record, c := fakeProcess(test.params, spawn)
				for _, m := range test.messages {
					if m != nil {
						system.Root.RequestWithCustomSender(pid, m, record.session)
					}
					time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if _, killed := c.Was(); killed != test.killed {
					t.Errorf("killed after %v, want %v", killed, test.killed)
				}
			})
		})
	}
}

// The next run does not begin before the tree of the last run is gone.
func TestNextRunWaitsForTheTree(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		tree := make(chan struct{})
		record, starts := fakeRuns(spawn, supervision.Restart{Policy: supervision.Permanent, Intensity: supervision.Intensity{Restarts: 1}}, tree)
		starts.last().End()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := starts.count(); n != 1 || record.life.Phase() != life.Restarting {
			t.Errorf("%d starts with the old tree still there, phase %v", n, record.life.Phase())
		}
		close(tree)
		synctest.Wait()
		if n := starts.count(); n != 2 || record.life.Phase() != life.Running {
			t.Errorf("%d starts with the old tree gone, phase %v", n, record.life.Phase())
		}
	})
}

// fakeStarts are the fake children of one process.
type fakeStarts struct {
	mu       sync.Mutex
	at       []time.Duration
	children []*fake.Child
	names    []string                  // of the specs
	stops    func()                    // called at a start
	slow     bool                      // a start waits for done
	done     func(child.Handle, error) // answers the last start
	pid      *actor.PID                // of the process
}

// ask has the process do something.
func (s *fakeStarts) ask(root *actor.RootContext, params any) {
	root.RequestWithCustomSender(s.pid, message.Request{Params: params}, s.pid)
	synctest.Wait()
}

func (s *fakeStarts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

func (s *fakeStarts) last() *fake.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[len(s.children)-1]
}

// fakeRuns starts a process with a restart policy. Its children are fake, and have the same tree.
func fakeRuns(spawn func(actor.Producer) *actor.PID, restart supervision.Restart, tree chan struct{}) (*processRecord, *fakeStarts) {
	begin, starts := time.Now(), new(fakeStarts)
	config := config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()
	record := &processRecord{
		launch: &launch.Launch{Params: new(protocol.ProcessStartParams), Restart: &restart},
		gauge:  share{Gauge: new(message.Gauge)},
		env: &env.Env{Config: config, OutputBudget: budget.NewOutput(1<<30, func() {}), StartChild: func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
			starts.mu.Lock()
			starts.names = append(starts.names, spec.Name)
			c := &fake.Child{Born: time.Now(), Intake: in, Tree: tree}
			starts.at, starts.children = append(starts.at, time.Since(begin)), append(starts.children, c)
			slow, stops := starts.slow, starts.stops
			starts.done = done
			starts.mu.Unlock()
			if stops != nil {
				stops()
			}
			if !slow {
				done(c, nil)
			}
		}},
		id: "p", name: "p-1", feed: feedOf(nil, 1<<20, false),
		session: spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) }),
	}
	record.launch.Env = record.env
	starts.pid = spawn(func() actor.Actor { return &process{record} })
	synctest.Wait()
	return record, starts
}

// The times between runs are the times of the backoff, to the nanosecond. After a long life of a
// program the backoff begins anew.
func TestBackoffBetweenRuns(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		record, starts := fakeRuns(spawn, supervision.Restart{
			Policy:    supervision.Permanent,
			Backoff:   supervision.Backoff{Initial: time.Second, Max: 3 * time.Second, Factor: 2},
			Intensity: supervision.Intensity{Restarts: 3, Period: 20 * time.Second},
		}, nil)
		die := func(after time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			starts.last().End()
			synctest.Wait()
		}
		at := time.Duration(0)
		for i, step := range []struct{ lives, waits time.Duration }{
			{0, time.Second}, {time.Second, 2 * time.Second}, {time.Second, 3 * time.Second}, {time.Minute, time.Second},
		} {
			die(step.lives)
			at += step.lives
			time.Sleep(step.waits - 1)
			synctest.Wait()
			if n := starts.count(); n != i+1 {
				t.Fatalf("%d starts before the backoff of end %d has passed", n, i+1)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			at += step.waits
			if starts.count() != i+2 || starts.at[i+1] != at {
				t.Fatalf("starts at %v, want the last at %v", starts.at, at)
			}
		}
		for range 2 {
			die(0)
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		die(0) // the fourth within the period
		if record.life.Phase() != life.Closed {
			t.Errorf("the process is %v after too many restarts, want closed", record.life.Phase())
		}
	})
}

// always is run again at once, however often.
var always = supervision.Restart{Policy: supervision.Permanent, Intensity: supervision.Intensity{Restarts: 1000, Period: time.Nanosecond}}

// A write to an ended program is for the next run, although the exit is not in the log yet.
func TestStdinOfADeadRun(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		record, starts := fakeRuns(spawn, always, nil)
		record.launch.Spec.Stdin = true
		first := starts.last()
		first.Mu.Lock()
		first.Ended = true
		first.Mu.Unlock()
		starts.ask(system.Root, protocol.ProcessWriteParams{ProcessID: "p", WriteID: "w", Chunk: []byte("line")})
		first.Intake.Exited(protocol.ExitStatus{ExitCode: 1})
		first.Intake.Closed()
		time.Sleep(time.Second)
		synctest.Wait()
		if next := starts.last(); starts.count() != 2 || len(first.Stdin) > 0 || string(next.Stdin) != "line" {
			t.Errorf("%d starts; the dead run got %q and the next run %q, want all in the next", starts.count(), first.Stdin, next.Stdin)
		}
		if names := starts.names; names[0] == names[1] {
			t.Errorf("both runs have the mark %q", names[0])
		}
	})
}

// The next run does not begin before the probe of the last run has ended.
func TestNextRunWaitsForTheProbe(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		record, starts := fakeRuns(spawn, always, nil)
		record.health.watcher = &watcher{blind: new(atomic.Int64)}
		record.health.probing.Store(true)
		starts.last().End()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := starts.count(); n != 1 {
			t.Errorf("%d starts while a probe of the first run goes on, want 1", n)
		}
		record.health.probing.Store(false)
		system.Root.Send(starts.pid, probed{run: 1})
		synctest.Wait()
		if n := starts.count(); n != 2 {
			t.Errorf("%d starts after the probe, want 2", n)
		}
	})
}

// A child whose start is over, and whose actor stops before it takes the child, is killed.
func TestChildThatNobodyTakes(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		_, starts := fakeRuns(spawn, always, nil)
		starts.stops = func() { system.Root.Stop(starts.pid) } // on the goroutine of the actor: the stop comes before news of the child
		starts.last().End()
		time.Sleep(time.Minute)
		synctest.Wait()
		if starts.count() != 2 || !starts.last().Exited() {
			t.Errorf("%d starts; the child has ended: %v, want true", starts.count(), starts.last().Exited())
		}
	})
}

// A child whose start ends after the stop of the actor is killed.
func TestChildOfAStoppedActor(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		_, starts := fakeRuns(spawn, always, nil)
		starts.slow = true
		starts.last().End()
		synctest.Wait()
		system.Root.Stop(starts.pid)
		synctest.Wait()
		late := starts.last()
		starts.done(late, nil)
		synctest.Wait()
		if starts.count() != 2 || !late.Exited() {
			t.Errorf("%d starts; the child that came late has ended: %v, want true", starts.count(), late.Exited())
		}
	})
}

// After the retention, an observer has the same time again to ask for the end of the log.
func TestObserversHaveExtraTime(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
		pid, record, c := fakeProcess(protocol.ProcessStartParams{}, spawn)
		silent := func() *actor.PID {
			return spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		}
		system.Root.RequestWithCustomSender(pid, message.Subscribe{}, silent())
		c.End()
		synctest.Wait()
		system.Root.RequestWithCustomSender(pid, message.Subscribe{After: record.feed.Log.Last(), Owner: true}, silent())
		for i, want := range []bool{false, true} {
			time.Sleep(record.env.ClosedRetention)
			synctest.Wait()
			if retired := count("processRetired") > 0; retired != want {
				t.Errorf("after %d times the retention the process is retired: %v, want %v", i+1, retired, want)
			}
		}
	})
}

// Output logged before a failure of the actor is not logged again.
func TestOutputOutlivesAFailure(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		failed := false
		_, record, _ := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) {
			r.env.Faults = faults.New(func(_ *actor.PID, m any) {
				if m == env.FactLogged && !failed {
					failed = true
					panic("injected")
				}
			}, nil)
		})
		credit, _ := record.run.intake.Take(1 << 10)
		record.run.intake.Put(protocol.Stdout, []byte("once"), nil, credit, 0)
		synctest.Wait()
		read := record.feed.Read(0, nil, "")
		if !failed || len(read.Result.Chunks) != 1 || string(read.Result.Chunks[0].Chunk) != "once" {
			t.Errorf("failed %v, and the log has %+v, want the output once", failed, read.Result.Chunks)
		}
	})
}

// After process/terminate no other run begins: not a run being started, and not after an end
// whose exit is not in the log yet.
func TestTerminatedRunsNoMore(t *testing.T) {
	terminate := protocol.ProcessTerminateParams{ProcessID: "p"}
	for name, err := range map[string]error{"the next run starts": nil, "it cannot be started": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				record, starts := fakeRuns(spawn, always, nil)
				starts.slow = true
				starts.last().End()
				synctest.Wait()
				starts.ask(system.Root, terminate)
				if err != nil {
					starts.done(nil, err)
				} else {
					starts.done(starts.last(), nil)
				}
				synctest.Wait()
				if record.life.Phase() != life.Closed || starts.count() != 2 {
					t.Errorf("phase %v after %d starts, want closed after 2", record.life.Phase(), starts.count())
				}
			})
		})
	}
	t.Run("its end is not logged", func(t *testing.T) {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			record, starts := fakeRuns(spawn, always, nil)
			c := starts.last()
			c.Mu.Lock()
			c.Ended = true
			c.Mu.Unlock()
			starts.ask(system.Root, terminate)
			c.Intake.Exited(protocol.ExitStatus{ExitCode: 1})
			c.Intake.Closed()
			synctest.Wait()
			if record.life.Phase() != life.Closed || starts.count() != 1 {
				t.Errorf("phase %v after %d starts, want closed after 1", record.life.Phase(), starts.count())
			}
		})
	})
}

// Runs without output do not fill the log beyond its retention while the owner is away. The runs go
// on when the owner has come back.
func TestRunsWaitForTheOwner(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		record, starts := fakeRuns(spawn, always, nil)
		for range 20_000 {
			starts.last().End()
			time.Sleep(time.Microsecond)
			synctest.Wait()
		}
		n := starts.count()
		if held := record.feed.Log.Cost(0); held > record.feed.Retention+1000 || record.life.Phase() != life.Restarting {
			t.Errorf("the log holds %d bytes after %d runs, the limit is %d; phase %v", held, n, record.feed.Retention, record.life.Phase())
		}
		system.Root.RequestWithCustomSender(starts.pid, message.Subscribe{After: record.feed.Log.Last(), Owner: true}, record.session)
		synctest.Wait()
		if record.life.Phase() != life.Running || starts.count() != n+1 {
			t.Errorf("phase %v after %d starts, want another run than those %d", record.life.Phase(), starts.count(), n)
		}
	})
}

// Output of earlier runs in the log stays charged to the budget. A terminal has the size of a
// process/resize between two runs.
func TestNextRunTakesOver(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		record, starts := fakeRuns(spawn, always, nil)
		record.launch.Spec.TTY = true
		in := starts.last().Intake
		for range 7 {
			c, _ := in.Take(128 << 10)
			in.Put(protocol.PTY, make([]byte, c.N), nil, c, 0)
			synctest.Wait()
		}
		before := record.env.OutputBudget.Used()
		starts.slow = true
		starts.last().End()
		synctest.Wait()
		size := protocol.Size{Rows: 50, Cols: 132}
		starts.ask(system.Root, protocol.ProcessResizeParams{ProcessID: "p", Size: size})
		starts.done(starts.last(), nil)
		synctest.Wait()
		if used := record.env.OutputBudget.Used(); before == 0 || used < before {
			t.Errorf("%d bytes are charged after the restart, %d before", used, before)
		}
		if got := starts.last().Size; got != size {
			t.Errorf("size %v, want %v", got, size)
		}
	})
}

// If the group orders the end of a run while the run is being started, the run ends after its
// start. A repeated or late order does nothing.
func TestOrderWhileStarting(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
		var starts []func()
		c := &fake.Child{Born: time.Now()}
		pid, record, _ := fakeProcessOf(protocol.ProcessStartParams{KillGraceMs: ms(time.Second)}, spawn, func(r *processRecord) {
			r.group = r.session
			r.launch.Restart = &supervision.Restart{Policy: supervision.Permanent}
			r.env.StartChild = func(_ child.Spec, in *child.Intake, done func(child.Handle, error)) {
				c.Intake = in
				starts = append(starts, func() { done(c, nil) })
			}
		})
		serial := uint64(0)
		say := func(st supervision.MemberStatus) {
			serial++
			for _, late := range []uint64{serial, serial, serial - 1} { // the last is as from a failure
				system.Root.Send(pid, message.Order{Serial: late, Status: st})
				st = supervision.MemberStatus{State: supervision.Running, Run: 7}
			}
			synctest.Wait()
		}
		say(supervision.MemberStatus{State: supervision.Waiting})
		if len(starts) != 0 {
			t.Fatal("it was started before its group said so")
		}
		say(supervision.MemberStatus{State: supervision.Running, Run: 1})
		say(supervision.MemberStatus{State: supervision.Ending, Run: 1, Reason: "enough"})
		if len(starts) != 1 {
			t.Fatalf("%d starts, want 1", len(starts))
		}
		starts[0]()
		synctest.Wait()
		if polite, _ := c.Was(); polite != 1 {
			t.Errorf("it was told to end %d times, want once", polite)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if count("memberEnded") != 1 || record.life.Status().Reason != "enough" {
			t.Errorf("its end was told %d times, with %q", count("memberEnded"), record.life.Status().Reason)
		}
		say(supervision.MemberStatus{State: supervision.Ending, Run: 1, Reason: "enough"}) // late
		say(supervision.MemberStatus{State: supervision.Left, Run: 1})
		say(supervision.MemberStatus{State: supervision.Running, Run: 2}) // too late
		if len(starts) != 1 || record.life.Phase() != life.Closed {
			t.Errorf("%d starts, and it is %v", len(starts), record.life.Phase())
		}
	})
}

// After a process/resize during the start of the first run, the terminal has the new size.
func TestResizeWhileStarting(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		var start func()
		c := &fake.Child{Born: time.Now()}
		pid, record, _ := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) {
			r.group, r.launch.Restart = r.session, &supervision.Restart{Policy: supervision.Temporary}
			r.launch.Spec.TTY = true
			r.env.StartChild = func(_ child.Spec, in *child.Intake, done func(child.Handle, error)) {
				start = func() { done(c, nil) }
			}
		})
		system.Root.Send(pid, message.Order{Serial: 1, Status: supervision.MemberStatus{State: supervision.Running, Run: 1}})
		size := protocol.Size{Rows: 50, Cols: 132}
		system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessResizeParams{ProcessID: "p", Size: size}}, record.session)
		synctest.Wait()
		start()
		synctest.Wait()
		if c.Size != size {
			t.Errorf("size %v, want %v", c.Size, size)
		}
	})
}

// The exit status of a program that the server ended has no oomKilled, although the kernel may have
// killed a descendant for lack of memory.
func TestOOMKilledIsNotOurDoing(t *testing.T) {
	for _, asked := range []bool{false, true} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
			pid, record, c := fakeProcess(protocol.ProcessStartParams{}, spawn)
			if asked {
				system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessTerminateParams{GraceMs: ms(time.Hour)}}, record.session)
				synctest.Wait()
			}
			c.Mu.Lock()
			c.Ended = true
			c.Intake.Exited(protocol.ExitStatus{ExitCode: 137, Signal: "SIGKILL", OOMKilled: true})
			c.Intake.Closed()
			c.Mu.Unlock()
			synctest.Wait()
			if st := record.life.Status(); st.ExitCode != 137 || st.OOMKilled == asked {
				t.Errorf("terminated by request %v: %+v", asked, st)
			}
		})
	}
}

// If a run cannot be started, the part of the budget that it took over from the last run is given
// back when the process ends.
func TestBudgetOfAFailedRun(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		slow := always
		slow.Backoff = supervision.Backoff{Initial: time.Hour}
		record, starts := fakeRuns(spawn, slow, nil)
		in := starts.last().Intake
		for range 7 {
			c, _ := in.Take(128 << 10)
			in.Put(protocol.PTY, make([]byte, c.N), nil, c, 0)
			synctest.Wait()
		}
		starts.slow = true
		starts.last().End()
		time.Sleep(time.Hour)
		synctest.Wait()
		starts.done(nil, errors.New("no such program"))
		synctest.Wait()
		if record.env.OutputBudget.Used() == 0 || record.gauge.HeldBytes.Load() == 0 {
			t.Error("nothing is charged, and this tests nothing")
		}
		system.Root.Send(starts.pid, message.Stop{Reason: "session closed", Shutdown: -1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if used, held := record.env.OutputBudget.Used(), record.gauge.HeldBytes.Load(); used != 0 || held != 0 {
			t.Errorf("after its end %d bytes are charged, and %d held for its owner", used, held)
		}
	})
}

// An owner that has missed output gets as much live output as the peer's client can buffer. Then its output begins again
// with the missed output, and no time passes.
func TestAheadOfWhatWasMissed(t *testing.T) {
	const line, block = 10, 32 << 10 // bytes
	read := func(system *actor.ActorSystem, pid, owner *actor.PID, after uint64) {
		system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessReadParams{AfterSeq: after}}, owner)
	}
	for _, test := range []struct {
		name     string
		onFull   protocol.OnFull
		explicit bool
		missed   bool
		size, n  int // bytes, and how many of them are written behind the resume
		before   func(system *actor.ActorSystem, pid, owner *actor.PID)
		ahead    uint64 // how many come before the output begins again; 0: the output does not begin again
	}{
		{"lines", "", false, true, line, 300, nil, 128},
		{"blocks", "", false, true, block, 20, nil, 16},
		{"few lines", "", false, true, line, 128, nil, 0},
		{"it has read, and may not have sorted", "", false, true, line, 300, func(system *actor.ActorSystem, pid, owner *actor.PID) {
			read(system, pid, owner, 0)
			system.Root.RequestWithCustomSender(pid, message.Ack{From: 0, To: 1}, owner)
		}, 128},
		{"it has had it", "", false, true, line, 300, func(system *actor.ActorSystem, pid, owner *actor.PID) {
			read(system, pid, owner, 1)
		}, 0},
		{"it missed nothing", "", false, false, line, 300, nil, 0},
		{"it acknowledges by itself", "", true, true, line, 300, nil, 0},
		{"it chose to lose", protocol.OnFullEvict, false, true, line, 300, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
				params := protocol.ProcessStartParams{}
				if test.onFull != "" {
					params.Retention = &protocol.Retention{OnFull: test.onFull}
				}
				pid, record, _ := fakeProcess(params, spawn)
				if test.missed {
					write(record, line)
				}
				first := record.feed.Log.Last() + 1
				var mu sync.Mutex
				var seqs []uint64
				var agains int
				owner := spawn(func() actor.Actor {
					return actor.ReceiveFunc(func(ctx actor.Context) {
						if m, ok := ctx.Message().(message.Delivery); ok {
							mu.Lock()
							defer mu.Unlock()
							if m.Again {
								agains++
							}
							for _, e := range m.Entries {
								seqs = append(seqs, e.Seq)
							}
							ctx.Request(ctx.Sender(), message.Pull{Bytes: 128 << 10})
						}
					})
				})
				system.Root.RequestWithCustomSender(pid, message.Subscribe{Owner: true, Now: true, Explicit: test.explicit, Pull: 128 << 10}, owner)
				synctest.Wait()
				if test.before != nil {
					test.before(system, pid, owner)
				}
				for range test.n {
					write(record, test.size)
				}
				var want []uint64
				for seq := first; seq < first+test.ahead; seq++ {
					want = append(want, seq)
				}
				if test.ahead > 0 {
					first = 1
				}
				for seq := first; seq <= record.feed.Log.Last(); seq++ {
					want = append(want, seq)
				}
				mu.Lock()
				defer mu.Unlock()
				if !slices.Equal(seqs, want) || agains != min(int(test.ahead), 1) {
					t.Errorf("it began again %d times, and %v came, want %v", agains, seqs, want)
				}
			})
		})
	}
}

// A viewer of new output only gets an entry although the actor failed between reading and sending
// the entry.
func TestDeliveryOutlivesAFailure(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		failed := false
		pid, record, _ := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) {
			r.env.Faults = faults.New(func(_ *actor.PID, m any) {
				if m == env.DeliveryRead && !failed {
					failed = true
					panic("injected")
				}
			}, nil)
		})
		var got []uint64
		viewer := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case message.Delivery:
					for _, e := range m.Entries {
						got = append(got, e.Seq)
					}
				case message.Resubscribe:
					ctx.Request(m.Process.PID, message.Subscribe{After: m.After, Pull: 1 << 10, Resumed: true})
				}
			})
		})
		system.Root.RequestWithCustomSender(pid, message.Subscribe{Now: true, Pull: 1 << 10}, viewer)
		synctest.Wait()
		credit, _ := record.run.intake.Take(1 << 10)
		record.run.intake.Put(protocol.Stdout, []byte("once"), nil, credit, 0)
		synctest.Wait()
		if !failed || !slices.Equal(got, []uint64{1}) {
			t.Errorf("failed %v, and the viewer got %v, want seq 1 once", failed, got)
		}
	})
}
