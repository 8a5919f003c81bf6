package process

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// starts has the specs and the children of all starts of a process, probes included.
type starts struct {
	pid      *actor.PID
	record   *processRecord
	specs    []child.Spec
	children []*fake.Child
	refused  atomic.Pointer[error] // what each start ends with; nil: a child
	log      string                // events at a time of the test
}

// startAsSession starts a process as a session does, in /w.
func startAsSession(t *testing.T, spawn func(actor.Producer) *actor.PID, params protocol.ProcessStartParams, fault func(*actor.PID, any)) *starts {
	t.Helper()
	return startIn(t, nil, spawn, params, fault)
}

// startIn starts a process of a group; nil: of none.
func startIn(t *testing.T, group *actor.PID, spawn func(actor.Producer) *actor.PID, params protocol.ProcessStartParams, fault func(*actor.PID, any)) *starts {
	t.Helper()
	p := new(starts)
	e := fake.Env(nil)
	e.Faults = faults.New(fault, nil)
	e.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
		if err := p.refused.Load(); err != nil {
			done(nil, *err)
			return
		}
		c := &fake.Child{Born: time.Now(), Intake: in}
		p.specs, p.children = append(p.specs, spec), append(p.children, c)
		done(c, nil)
	}
	params.ProcessID, params.Argv, params.Cwd = "p", []string{"true"}, "file:///w"
	session := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
	var refused *protocol.Error
	if p.record, refused = newRecord(e, Options{Request: Request{Name: "p-1", Params: params, Session: session, Gauge: new(message.Gauge)}, Group: group}); refused != nil {
		t.Fatal(refused)
	}
	p.pid = spawn(func() actor.Actor { return &process{p.record} })
	synctest.Wait()
	return p
}

// write has the newest child write each text.
func (p *starts) write(s protocol.Stream, texts ...string) {
	for _, text := range texts {
		credit, _ := p.record.run.intake.Take(1 << 10)
		p.record.run.intake.Put(s, []byte(text), nil, credit, 0)
	}
	synctest.Wait()
}

// exit ends the newest child.
func (p *starts) exit(code int) { exit(p.children[len(p.children)-1], code) }

func exit(c *fake.Child, code int) {
	c.Mu.Lock()
	c.Ended = true
	c.Mu.Unlock()
	c.Intake.Exited(protocol.ExitStatus{ExitCode: code})
	c.Intake.Closed()
	synctest.Wait()
}

// deniedOf returns the sandboxDenied of process/read.
func deniedOf(system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, pid *actor.PID) bool {
	var answer message.Reply
	from := spawn(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if r, ok := ctx.Message().(message.Reply); ok {
				answer = r
			}
		})
	})
	system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessReadParams{ProcessID: "p"}}, from)
	synctest.Wait()
	read, _ := answer.Result.(protocol.ProcessReadResult)
	return read.SandboxDenied
}

// denied returns Denied of each end in the log.
func (p *starts) denied() (denied []bool) {
	entries, _ := p.record.feed.Log.Read(new(outlog.Cursor), 1<<20, nil)
	for _, e := range entries {
		if e.Kind == outlog.Exited {
			denied = append(denied, e.Denied)
		}
	}
	return denied
}

func restricted() json.RawMessage { return protocol.ReadOnlySandbox("/w").JSON() }

// Each run of a process with a sandbox is confined, and each probe.
func TestEachStartIsConfined(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		probe := func() *protocol.Probe { return &protocol.Probe{Argv: []string{"probe"}, EveryMs: 1000} }
		p := startAsSession(t, spawn, protocol.ProcessStartParams{
			Sandbox:  restricted(),
			Restart:  &protocol.Restart{Policy: "permanent"},
			Ready:    &protocol.Ready{Probe: probe()},
			Liveness: &protocol.Liveness{Probe: probe()},
		}, nil)
		p.exit(0) // of the first probe: the process is ready
		time.Sleep(time.Second)
		synctest.Wait()
		p.exit(0) // of the second
		exit(p.children[0], 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		var names []string
		for _, spec := range p.specs {
			names = append(names, spec.Name)
			if !reflect.DeepEqual(spec.Sandbox, protocol.ReadOnlySandbox("/w")) {
				t.Errorf("%s has the sandbox %+v", spec.Name, spec.Sandbox)
			}
		}
		for _, name := range []string{"p-1", "p-1.2", "p-1.ready1.1", "p-1.probe1"} {
			if !slices.Contains(names, name) {
				t.Errorf("there was no start of %s, only of %q", name, names)
			}
		}
	})
}

// A policy without a directory has that of the process.
func TestSandboxHasTheDirectoryOfTheProcess(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		p := startAsSession(t, spawn, protocol.ProcessStartParams{Sandbox: protocol.ReadOnlySandbox().JSON()}, nil)
		if got := p.specs[0].Sandbox.Cwd; got != "/w" {
			t.Errorf("%q", got)
		}
	})
}

// Only a start with a sandbox has the sandboxType of Linux, and a disabled sandbox does not confine.
func TestSandboxType(t *testing.T) {
	for sandbox, want := range map[string]string{
		"":     "none",
		"null": "none",
		`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`: "linuxSeccomp",
	} {
		fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			params := protocol.ProcessStartParams{}
			if sandbox != "" {
				params.Sandbox = json.RawMessage(sandbox)
			}
			p := startAsSession(t, spawn, params, nil)
			if got := p.record.run.sandbox.Type(); got != want || p.specs[0].Sandbox != nil && !p.specs[0].Sandbox.Disabled {
				t.Errorf("%s: sandboxType %s, sandbox %+v", sandbox, got, p.specs[0].Sandbox)
			}
			p.write(protocol.Stderr, "permission denied")
			p.exit(1)
			if denied := p.denied(); !slices.Equal(denied, []bool{false}) {
				t.Errorf("%s: denied %v", sandbox, denied)
			}
		})
	}
}

// Each run has a guess of its own, and process/read has that of the run that has ended.
func TestDeniedOfEachRun(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		p := startAsSession(t, spawn, protocol.ProcessStartParams{Sandbox: restricted(), Restart: &protocol.Restart{Policy: "transient"}}, nil)
		next := func() {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		p.write(protocol.Stdout, "Permission")
		p.write(protocol.Stdout, " denied")
		p.exit(1)
		next()
		p.exit(1)
		next()
		p.write(protocol.Stdout, "permission denied")
		p.exit(0)
		if want, got := []bool{true, false, false}, p.denied(); !slices.Equal(got, want) || deniedOf(system, spawn, p.pid) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// A failure of the actor does not lose the output that was searched.
func TestDeniedOutlivesAFailure(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		failures, fails := 0, false
		p := startAsSession(t, spawn, protocol.ProcessStartParams{Sandbox: restricted()}, func(_ *actor.PID, m any) {
			if m == env.FactLogged && fails {
				failures, fails = failures+1, false
				panic("injected")
			}
		})
		for _, text := range []string{"s", "e", "ccomp"} { // seccomp, if each is heard once
			fails = true
			p.write(protocol.Stderr, text)
		}
		p.exit(1)
		if denied := p.denied(); failures != 3 || !slices.Equal(denied, []bool{true}) {
			t.Errorf("%d failures, denied %v", failures, denied)
		}
	})
}

// A sandbox counts for the memory of a session while runs may follow.
func TestSandboxCountsAsKept(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		s := protocol.ReadOnlySandbox("/w")
		for i := range 100 {
			s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: fmt.Sprintf("/%0100d", i), Access: protocol.SandboxDeny})
		}
		p := startAsSession(t, spawn, protocol.ProcessStartParams{Sandbox: s.JSON(), Restart: &protocol.Restart{Policy: "permanent"}}, nil)
		if kept := p.record.gauge.KeptBytes.Load(); kept < 100*100 {
			t.Errorf("%d bytes are kept", kept)
		}
		once := startAsSession(t, spawn, protocol.ProcessStartParams{Sandbox: s.JSON()}, nil)
		if kept := once.record.gauge.KeptBytes.Load(); kept != 0 || once.record.launch.Spec.Sandbox != nil || once.record.launch.Params.Sandbox != nil {
			t.Errorf("%d bytes are kept of a process that is not run again, the sandbox %v", kept, once.record.launch.Spec.Sandbox)
		}
	})
}
