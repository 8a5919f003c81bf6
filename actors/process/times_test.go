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

// A child is killed if its actor stops before it takes the child, whether the start of the child is over by then or not.
func TestChildThatNobodyTakes(t *testing.T) {
	for _, late := range []bool{false, true} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			_, starts := fakeRuns(spawn, always, nil)
			stop := func() { system.Root.Stop(starts.pid) }
			if starts.slow = late; !late {
				starts.stops = stop // on the goroutine of the actor: the stop comes before news of the child
			}
			starts.last().End()
			synctest.Wait()
			if late {
				stop()
				synctest.Wait()
				starts.done(starts.last(), nil)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if starts.count() != 2 || !starts.last().Exited() {
				t.Errorf("late %v: %d starts; the child has ended: %v, want true", late, starts.count(), starts.last().Exited())
			}
		})
	}
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
		prints(record, protocol.Stdout, "once")
		read := record.feed.Read(0, nil, "")
		if !failed || len(read.Result.Chunks) != 1 || string(read.Result.Chunks[0].Chunk) != "once" {
			t.Errorf("failed %v, and the log has %+v, want the output once", failed, read.Result.Chunks)
		}
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
		for range 7 {
			write(record, 128<<10)
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

// If a run cannot be started, the part of the budget that it took over from the last run is given
// back when the process ends.
func TestBudgetOfAFailedRun(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		slow := always
		slow.Backoff = supervision.Backoff{Initial: time.Hour}
		record, starts := fakeRuns(spawn, slow, nil)
		for range 7 {
			write(record, 128<<10)
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
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const line, ahead, n = 10, 128, 300
		pid, record, _ := fakeProcess(protocol.ProcessStartParams{}, spawn)
		write(record, line)
		var mu sync.Mutex
		var seqs, want []uint64
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
		system.Root.RequestWithCustomSender(pid, message.Subscribe{Owner: true, Now: true, Pull: 128 << 10}, owner)
		synctest.Wait()
		for range n {
			write(record, line)
		}
		for seq := range uint64(ahead) {
			want = append(want, 2+seq)
		}
		for seq := range uint64(1 + n) {
			want = append(want, 1+seq)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(seqs, want) || agains != 1 {
			t.Errorf("it began again %d times, and %v came, want %v", agains, seqs, want)
		}
	})
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
		prints(record, protocol.Stdout, "once")
		if !failed || !slices.Equal(got, []uint64{1}) {
			t.Errorf("failed %v, and the viewer got %v, want seq 1 once", failed, got)
		}
	})
}
