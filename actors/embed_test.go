package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
)

// newSystem returns the actor system of a host. At the end of the test, the system is as before.
func newSystem(t *testing.T) *actor.ActorSystem {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	before := actorCount(system)
	t.Cleanup(func() {
		waitFor(t, "no actor to be left", func() bool { return actorCount(system) == before })
		system.Shutdown()
	})
	return system
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// stopAndWait stops an actor, and waits for its end. A single StopFuture waits 10 s, which is short on a busy machine.
func stopAndWait(root *actor.RootContext, pid *actor.PID) {
	for root.StopFuture(pid).Wait() != nil {
	}
}

// mailbox is an actor that only passes its messages on.
type mailbox chan any

func (m mailbox) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case actors.Attached, actors.Reply, actors.Delivery, actors.Evicted, actors.ProcessAdded, actors.Resubscribe, actors.Refused:
		m <- msg
	}
}

// take returns the next message of type T, and drops all messages before.
func take[T any](t *testing.T, m mailbox) T {
	t.Helper()
	for deadline := time.After(limit); ; {
		select {
		case msg := <-m:
			if v, ok := msg.(T); ok {
				return v
			}
		case <-deadline:
			var zero T
			t.Fatalf("no %T", zero)
		}
	}
}

// under spawns a troupe under an actor of the host.
func under(t *testing.T, system *actor.ActorSystem, config actors.Config) (host *actor.PID, troupe *actors.Troupe) {
	t.Helper()
	config.Log = newLog(t)
	props, troupe, err := actors.Props(config)
	if err != nil {
		t.Fatal(err)
	}
	host = system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.SpawnNamed(props, "below")
		}
	}))
	troupe.PID() // waits for the start
	return host, troupe
}

func TestStartAndPropsSideBySide(t *testing.T) {
	t.Parallel()
	system := newSystem(t)
	top, err := actors.Start(system, actors.Config{Log: newLog(t), KillGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := actors.Start(system, actors.Config{Log: newLog(t)}); err == nil {
		t.Error("a second troupe of the same name was started")
	}
	host, below := under(t, system, actors.Config{KillGrace: -1})
	for _, troupe := range []*actors.Troupe{top, below} {
		p := connect(t, troupe)
		p.open("")
		p.start("a", "", "echo", "hello")
		if out, code := p.untilClosed("a", 0); out != "hello\n" || code != 0 {
			t.Errorf("%s: got %q, exit code %d", troupe.PID().Id, out, code)
		}
	}
	if err := top.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	p := connect(t, below) // the troupe below goes on
	p.open("")
	p.start("a", "", "sleep", "1000")
	if err := below.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := system.Root.StopFuture(host).Wait(); err != nil {
		t.Error(err)
	}
}

func TestShutdownConcurrently(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	p := connect(t, troupe)
	p.open("")
	p.start("a", "", "sleep", "1000")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			stop := troupe.Kill
			if i%2 == 0 {
				stop = func() error { return troupe.Shutdown(context.Background()) }
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A host stops its actor and forgets Shutdown: no process is left behind.
func TestHostStops(t *testing.T) {
	t.Parallel()
	system := newSystem(t)
	host, troupe := under(t, system, actors.Config{})
	r := newResumer(t, troupe, protocol.RoleOwner, "")
	r.start("a", protocol.ProcessStartParams{Argv: []string{"sh", "-c", "sleep 1000 & wait"}})
	pids := make(map[string]int)
	r.pids(pids)
	if err := system.Root.StopFuture(host).Wait(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the process to be gone", func() bool { return !alive(pids["a"]) })
	if err := troupe.Shutdown(context.Background()); err != nil { // late, but harmless
		t.Error(err)
	}
}

func TestTouchesNothingGlobal(t *testing.T) {
	log, meters, gatherer := slog.Default(), otel.GetMeterProvider(), prometheus.DefaultGatherer
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("life", func(t *testing.T) {
		p := connect(t, start(t, actors.Config{}))
		p.open("")
		p.start("a", "", "true")
		p.untilClosed("a", 0)
	})
	if slog.Default() != log {
		t.Error("the default logger was replaced")
	}
	if otel.GetMeterProvider() != meters {
		t.Error("the meter provider was replaced")
	}
	if now, err := gatherer.Gather(); err != nil || len(now) != len(families) {
		t.Errorf("%d metric families were %d, %v", len(now), len(families), err)
	}
	for _, path := range []string{"/", "/metrics", "/debug/pprof/"} {
		r, err := http.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := http.DefaultServeMux.Handler(r); pattern != "" {
			t.Errorf("http.DefaultServeMux has a handler for %s", pattern)
		}
	}
}

// TestSessionChangesHands opens a session as an actor of the host, goes on with it
// as a client of the wire, and then as an actor again.
func TestSessionChangesHands(t *testing.T) {
	t.Parallel()
	system := newSystem(t)
	root := system.Root
	host, below := under(t, system, actors.Config{KillGrace: -1})
	defer func() {
		if err := below.Kill(); err != nil {
			t.Error(err)
		}
		if err := root.StopFuture(host).Wait(); err != nil {
			t.Error(err)
		}
	}()

	spawn := func() (mailbox, *actor.PID) {
		m := make(mailbox, 100)
		return m, root.Spawn(actor.PropsFromProducer(func() actor.Actor { return m }))
	}
	first, firstPID := spawn()
	root.RequestWithCustomSender(below.PID(), actors.Attach{Token: 1}, firstPID)
	session := take[actors.Attached](t, first)
	root.RequestWithCustomSender(session.Session, actors.Request{Token: 2, Params: protocol.ProcessStartParams{
		ProcessID: "cat", Argv: []string{"cat"}, PipeStdin: true, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"},
	}}, firstPID)
	reply := take[actors.Reply](t, first)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	cat := reply.Result.(actors.StartResult).Process
	write := func(m mailbox, sender *actor.PID, id string) {
		root.RequestWithCustomSender(cat.PID, actors.Request{Token: 3, Params: protocol.ProcessWriteParams{ProcessID: "cat", WriteID: id, Chunk: []byte(id + "\n")}}, sender)
		if reply := take[actors.Reply](t, m); reply.Result != (protocol.ProcessWriteResult{Status: protocol.WriteAccepted}) {
			t.Errorf("write %s: %+v", id, reply)
		}
	}
	root.RequestWithCustomSender(cat.PID, actors.Subscribe{Pull: 1 << 20, Owner: true}, firstPID)
	write(first, firstPID, "one")
	d := take[actors.Delivery](t, first)
	last := d.Entries[len(d.Entries)-1].Seq
	if text := string(d.Entries[0].Data); text != "one\n" {
		t.Errorf("the actor read %q", text)
	}
	root.RequestWithCustomSender(cat.PID, actors.Ack{From: 0, To: last}, firstPID)

	// A client may take the session over, and goes on after the last entry of the actor.
	client := connect(t, below)
	m := client.call("initialize", fmt.Sprintf(`{"clientName":"c","resumeSessionId":%q}`, session.SessionID))
	if m.Error == nil || m.Error.Code != protocol.CodeAlreadyAttached {
		t.Errorf("resumed what an actor has: %+v", m)
	}
	client.open(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true,"resumeFrom":{"cat":%d}`, session.SessionID, last))
	take[actors.Evicted](t, first)
	// Later messages of the old owner come too late.
	root.RequestWithCustomSender(cat.PID, actors.Request{Params: protocol.ProcessWriteParams{ProcessID: "cat", WriteID: "late", Chunk: []byte("late\n")}}, firstPID)
	client.send(`{"id":"w","method":"process/write","params":{"processId":"cat","writeId":"two","chunk":"dHdvCg=="}}`)
	for text := ""; text != "two\n"; {
		m, ok := client.next()
		if !ok {
			t.Fatal("the connection ended")
		}
		if text += string(m.Params.Chunk); !strings.HasPrefix("two\n", text) {
			t.Fatalf("the client read %q", text)
		}
	}
	client.close()

	// The session is detached when its connection has ended; another actor resumes.
	second, secondPID := spawn()
	root.RequestWithCustomSender(below.PID(), actors.Attach{Token: 4, SessionID: session.SessionID, Takeover: true}, secondPID)
	again := take[actors.Attached](t, second)
	if len(again.Processes) != 1 || !again.Processes[0].PID.Equal(cat.PID) {
		t.Errorf("the session has %v, want %v", again.Processes, cat)
	}
	root.RequestWithCustomSender(cat.PID, actors.Subscribe{Pull: 1 << 20, Owner: true}, secondPID)
	text := ""
	for _, e := range take[actors.Delivery](t, second).Entries {
		text += string(e.Data)
	}
	if text != "one\ntwo\n" {
		t.Errorf("the second actor read %q", text)
	}
	write(second, secondPID, "three")
	for _, pid := range []*actor.PID{firstPID, secondPID} {
		if err := root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
	}
}

// A host may end a troupe that it has never spawned, and then nothing of the troupe is left.
func TestKillBeforeTheStart(t *testing.T) {
	system := newSystem(t)
	used := func() (goroutines, descriptors int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	goroutines, descriptors := used()
	for range 10 {
		props, troupe, err := actors.Props(actors.Config{Log: newLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
		if pid := troupe.PID(); pid != nil {
			t.Errorf("an actor %s", pid.Id)
		}
		p := connect(t, troupe)
		if m, ok := p.next(); ok {
			t.Errorf("a client got %+v", m)
		}
		late := system.Root.Spawn(props)
		waitFor(t, "the actor spawned too late to stop", func() bool { _, is := system.ProcessRegistry.GetLocal(late.Id); return !is })
	}
	waitFor(t, "goroutines and descriptors to be as before", func() bool {
		g, d := used()
		return g <= goroutines && d <= descriptors
	})
}

// Kill ends the grace of a Shutdown that waits for a program.
func TestKillDuringShutdown(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: time.Hour})
	p := connect(t, troupe)
	p.open("")
	p.start("a", "", "sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	for m, ok := p.next(); ok && len(m.Params.Chunk) == 0; m, ok = p.next() {
	}
	ended := make(chan error, 1)
	go func() { ended <- troupe.Shutdown(context.Background()) }()
	for m, ok := p.next(); ok && m.Method != "session/expiring"; m, ok = p.next() {
	}
	if err := troupe.Kill(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An owner hears of the end of its session once, however the session ends.
func TestEvictedOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*actors.Troupe, func(any)){
		"shutdown": func(troupe *actors.Troupe, _ func(any)) { troupe.Shutdown(context.Background()) },
		"close":    func(_ *actors.Troupe, ask func(any)) { ask(protocol.SessionCloseParams{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, actors.Config{KillGrace: -1})
			session := h.attach(t, actors.Attach{}).Session
			for _, id := range []string{"a", "b"} {
				if r := h.ask(t, session, program(id)); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			end(h.troupe, func(params any) { h.root.RequestWithCustomSender(session, actors.Request{Params: params}, h.self) })
			take[actors.Evicted](t, h.mailbox)
			if err := h.troupe.Shutdown(context.Background()); err != nil { // the last message of the session is sent
				t.Error(err)
			}
			if err := h.root.PoisonFuture(h.self).Wait(); err != nil { // and has come
				t.Error(err)
			}
			for len(h.mailbox) > 0 {
				if again, is := (<-h.mailbox).(actors.Evicted); is {
					t.Errorf("once more: %+v", again)
				}
			}
		})
	}
}
