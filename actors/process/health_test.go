package process

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// info asks a process for its process/info.
func infoOf(system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, pid *actor.PID) (info protocol.ProcessInfoResult) {
	asker := spawn(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(message.Reply); ok {
				info, _ = m.Result.(protocol.ProcessInfoResult)
			}
		})
	})
	system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessInfoParams{ProcessID: "p"}}, asker)
	synctest.Wait()
	return info
}

// probes answers the starts of probes: with the exit code that result returns, or with its error.
func probes(r *processRecord, result func(n int) (int, error)) *atomic.Int64 {
	start, count := r.env.StartChild, new(atomic.Int64)
	r.env.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
		if !strings.Contains(spec.Name, ".probe") {
			start(spec, in, done)
			return
		}
		code, err := result(int(count.Add(1)))
		if err != nil {
			done(nil, err)
			return
		}
		c := &fake.Child{Born: time.Now(), Intake: in, Ended: true}
		in.Exited(protocol.ExitStatus{ExitCode: code})
		in.Closed()
		done(c, nil)
	}
	return count
}

// If the server cannot start a probe, the program is not to blame.
func TestProbesThatCannotBeMade(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		var fail atomic.Pointer[error]
		refuse := func(err error) { fail.Store(&err) }
		refuse(fmt.Errorf("%w: file descriptors: %w", child.ErrLimit, syscall.EMFILE))
		var count *atomic.Int64
		params := protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"true"}, EveryMs: 1000, Failures: 3}}}
		pid, _, c := fakeProcessOf(params, spawn, func(r *processRecord) {
			count = probes(r, func(int) (int, error) {
				if err := *fail.Load(); err != nil {
					return 0, err
				}
				return 1, nil
			})
		})
		for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, child.ErrLimit, child.ErrClosed} {
			refuse(fmt.Errorf("start: %w", err))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if info := infoOf(system, spawn, pid); !strings.Contains(info.ProbeError, err.Error()) {
				t.Errorf("%v: process/info says %q", err, info.ProbeError)
			}
		}
		if _, killed := c.Was(); killed != 0 || count.Load() < 50 {
			t.Fatalf("after %d probes that could not be made it was killed after %v", count.Load(), killed)
		}
		refuse(nil) // they fail by themselves now
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if _, killed := c.Was(); killed == 0 {
			t.Error("after 3 probes that failed it lives")
		}
		system.Root.Stop(pid)
		synctest.Wait()
	})
}

// Where starts have a rate, probes do not follow each other faster than once a second.
func TestProbesAreNoWayAroundTheRate(t *testing.T) {
	for rate, want := range map[float64]int64{0: 1000, 5: 10} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			places, refused := quota.New(quota.Limits{Processes: 1, Starts: rate}, nil, nil, nil).Start("alice", 1, time.Now())
			if refused != nil {
				t.Fatal(refused)
			}
			var count *atomic.Int64
			params := protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"true"}, EveryMs: 10}}}
			pid, _, _ := fakeProcessOf(params, spawn, func(r *processRecord) {
				r.place = places[0]
				count = probes(r, func(int) (int, error) { return 0, nil })
			})
			time.Sleep(10*time.Second + time.Millisecond)
			synctest.Wait()
			if n := count.Load(); n != want {
				t.Errorf("at a rate of %v there were %d probes in 10 s, want %d", rate, n, want)
			}
			system.Root.Stop(pid)
			synctest.Wait()
		})
	}
}

// A probe whose command cannot be started has failed.
func TestProbesThatAreNone(t *testing.T) {
	for _, err := range []error{child.ErrNoProgram, rules.ErrRefused} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			params := protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"true"}, EveryMs: 1000, Failures: 3}}}
			pid, _, c := fakeProcessOf(params, spawn, func(r *processRecord) {
				probes(r, func(int) (int, error) { return 0, fmt.Errorf("%w: x", err) })
			})
			time.Sleep(3500 * time.Millisecond)
			synctest.Wait()
			if _, killed := c.Was(); killed == 0 {
				t.Errorf("%v: it lives", err)
			}
			system.Root.Stop(pid)
			synctest.Wait()
		})
	}
}

// If the server cannot start a run, the program is not to blame, and the server tries again.
func TestRestartsThatCannotBeMade(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		var lacking atomic.Bool
		var starts atomic.Int64
		var inner *fake.Child
		params := protocol.ProcessStartParams{Restart: &protocol.Restart{Policy: "permanent"}}
		pid, record, c := fakeProcessOf(params, spawn, func(r *processRecord) {
			r.launch.Restart = &supervision.Restart{Policy: supervision.Permanent, Intensity: supervision.Intensity{Restarts: 2, Period: time.Hour}}
			start := r.env.StartChild
			r.env.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
				starts.Add(1)
				if lacking.Load() {
					done(nil, fmt.Errorf("%w: file descriptors: %w", child.ErrLimit, syscall.EMFILE))
					return
				}
				inner.Mu.Lock()
				inner.Ended, inner.Killed = false, 0
				inner.Mu.Unlock()
				start(spec, in, done)
			}
			inner = &fake.Child{}
		})
		inner = c
		lacking.Store(true)
		c.End()
		time.Sleep(time.Minute)
		synctest.Wait()
		info := infoOf(system, spawn, pid)
		if record.life.Phase() != life.Restarting || starts.Load() < 50 || info.Run != 1 || len(info.WaitsFor) != 1 || !strings.Contains(info.WaitsFor[0].Reason, "the server could not start it") {
			t.Fatalf("after %d starts it is %v, and waits for %+v", starts.Load(), record.life.Phase(), info.WaitsFor)
		}
		lacking.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if info := infoOf(system, spawn, pid); record.life.Phase() != life.Running || info.Run != 2 {
			t.Errorf("it is %v, run %d", record.life.Phase(), info.Run)
		}

		lacking.Store(true) // a process can be ended while its next run waits
		c.End()
		time.Sleep(10 * time.Second)
		system.Root.Send(pid, message.Stop{Reason: "test", Shutdown: -1})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if record.life.Phase() != life.Closed {
			t.Errorf("stopped, it is %v", record.life.Phase())
		}
	})
}

// Time in which the server could not look whether a run is ready does not count.
func TestReadinessThatCannotBeLookedFor(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		var blind atomic.Bool
		blind.Store(true)
		look := health.LookFor
		health.LookFor = func(*protocol.Ready) func(context.Context) error {
			return func(context.Context) error {
				if blind.Load() {
					return fmt.Errorf("dial: %w", syscall.EMFILE)
				}
				return syscall.ECONNREFUSED
			}
		}
		defer func() { health.LookFor = look }()
		pid, _, c := fakeProcess(protocol.ProcessStartParams{Ready: &protocol.Ready{TCP: "127.0.0.1:1", TimeoutMs: ms(10 * time.Second)}}, spawn)
		time.Sleep(5 * time.Minute)
		info := infoOf(system, spawn, pid)
		if _, killed := c.Was(); killed != 0 || len(info.WaitsFor) != 1 || !strings.Contains(info.WaitsFor[0].Reason, "too many open files") || info.WaitsFor[0].InMs == 0 {
			t.Fatalf("killed after %v; it waits for %+v", killed, info.WaitsFor)
		}
		blind.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, killed := c.Was(); killed != 0 {
			t.Errorf("killed after %v, and had 5 s", killed)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if _, killed := c.Was(); killed == 0 {
			t.Error("it had all its time, was not ready, and lives")
		}
		system.Root.Stop(pid)
		synctest.Wait()
	})
}

// A match of a line that does not end holds up the output of its own process, and neither its requests nor its end.
func TestSlowReadyLine(t *testing.T) {
	for _, ends := range []bool{false, true} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			pid, record, c := fakeProcess(protocol.ProcessStartParams{Ready: &protocol.Ready{Line: "up"}}, spawn)
			matching, mayEnd := false, make(chan struct{})
			record.health.pattern = func() *regexp.Regexp {
				matching = true
				<-mayEnd
				return regexp.MustCompile("up")
			}
			for _, line := range []string{"up\n", "more\n"} {
				prints(record, protocol.Stdout, line)
			}
			if info := infoOf(system, spawn, pid); !matching || info.State != string(protocol.StateRunning) || info.OutputBytes != 3 {
				t.Errorf("during the match (%v) the process says %+v", matching, info)
			}
			if ends {
				system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessTerminateParams{ProcessID: "p"}}, record.session)
				synctest.Wait()
				if info := infoOf(system, spawn, pid); info.State != string(protocol.StateClosed) {
					t.Errorf("after its end the process says %+v; it has ended: %v", info, c.Exited())
				}
			}
			close(mayEnd)
			synctest.Wait()
			if info := infoOf(system, spawn, pid); info.OutputBytes != 8 {
				t.Errorf("after the match the process says %+v", info)
			}
			system.Root.Stop(pid)
			synctest.Wait()
		})
	}
}

// While the server holds a program back, the program is neither late, nor silent, nor to blame for
// its probes. Afterwards its time goes on from where the time stood.
func TestHeldBackDoesNotCount(t *testing.T) {
	for name, test := range map[string]struct {
		params protocol.ProcessStartParams
		probe  int // exit code
	}{
		"not ready": {params: protocol.ProcessStartParams{Ready: &protocol.Ready{Line: "never", TimeoutMs: ms(10 * time.Second)}}},
		"silent":    {params: protocol.ProcessStartParams{Liveness: &protocol.Liveness{SilenceMs: 10_000}}},
		"probed":    {params: protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"false"}, EveryMs: 3000, Failures: 3}}}, probe: 1},
	} {
		t.Run(name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				const kept = 64 << 10
				pid, record, c := fakeProcessOf(test.params, spawn, func(r *processRecord) {
					r.feed.Retention = kept
					probes(r, func(int) (int, error) { return test.probe, nil })
				})
				held := make(chan struct{})
				go func() {
					defer close(held)
					for put := 0; put <= kept; { // more than the retention: the program has to wait
						credit, ok := c.Intake.Take(16 << 10)
						if !ok {
							return
						}
						c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
						put += credit.N
					}
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				select {
				case <-held:
					t.Fatal("nobody is held back: this tests nothing")
				default:
				}
				if _, killed := c.Was(); killed != 0 {
					t.Fatalf("nobody has read its output, and it was killed after %v", killed)
				}
				owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
				system.Root.RequestWithCustomSender(pid, message.Subscribe{Owner: true, Explicit: true}, owner)
				system.Root.RequestWithCustomSender(pid, message.Pull{Bytes: kept * 2}, owner)
				synctest.Wait()
				system.Root.RequestWithCustomSender(pid, message.Ack{From: 0, To: record.feed.Log.Last()}, owner)
				synctest.Wait()
				<-held
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if _, killed := c.Was(); killed != 0 {
					t.Fatalf("it was killed %v after it could write again", 5*time.Second)
				}
				time.Sleep(8 * time.Second)
				synctest.Wait()
				if _, killed := c.Was(); killed == 0 {
					t.Error("it could write, did not, and lives")
				}
				system.Root.Stop(pid)
				synctest.Wait()
			})
		})
	}
}

// Looks at a filesystem without an answer hold a bounded number of threads, for a session and in
// all, for any number of processes. When the filesystem answers, all are ready.
func TestLooksThatHang(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const sessions, each = 10, 20
		var waiting atomic.Int64
		answers := make(chan struct{})
		look := health.LookFor
		health.LookFor = func(*protocol.Ready) func(context.Context) error {
			return func(context.Context) error {
				waiting.Add(1)
				<-answers
				return nil
			}
		}
		defer func() { health.LookFor = look }()
		common := &env.Env{
			Config:       config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults(),
			OutputBudget: budget.NewOutput(0, func() {}),
			StartChild: func(_ child.Spec, in *child.Intake, done func(child.Handle, error)) {
				done(&fake.Child{Born: time.Now(), Intake: in}, nil)
			},
		}
		var records []*processRecord
		var pids []*actor.PID
		start := func(g *message.Gauge) {
			pid, record, _ := fakeProcessOf(protocol.ProcessStartParams{Ready: &protocol.Ready{File: "file:///x", TimeoutMs: ms(time.Minute)}}, spawn, func(r *processRecord) {
				r.env, r.gauge = common, share{Gauge: g}
			})
			pids, records = append(pids, pid), append(records, record)
		}
		for s := range sessions {
			g := new(message.Gauge)
			for range each {
				start(g)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := waiting.Load(), int64(min((s+1)*looksEach, looksAll)); got != want {
				t.Fatalf("of %d sessions %d looks wait, want %d", s+1, got, want)
			}
		}
		close(answers)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, r := range records {
			if !r.health.Ready() {
				t.Fatal("its file can be seen, and it is not ready")
			}
		}
		for _, pid := range pids {
			system.Root.Stop(pid)
		}
		synctest.Wait()
	})
}
