package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// lone is a session. The test plays its registry, its supervisor, its owner and its processes.
type lone struct {
	t       *testing.T
	root    *actor.RootContext
	session *actor.PID
	test    *actor.PID
	heard   chan any
	closes  context.Context // done when the session closes
	record  *sessionRecord
}

func newLone(t *testing.T, life *lifetime.Life, processes ...*members.Process) *lone {
	return newLoneOf(t, "", life, processes...)
}

// newLoneOf returns a session of the identity name.
func newLoneOf(t *testing.T, name string, life *lifetime.Life, processes ...*members.Process) *lone {
	return newLoneIn(t, config.Config{}, name, life, processes...)
}

// newLoneIn returns a session of a server with options.
func newLoneIn(t *testing.T, c config.Config, name string, life *lifetime.Life, processes ...*members.Process) *lone {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // its goroutine lives as long
	l := &lone{t: t, root: system.Root, heard: make(chan any, 100)}
	l.test = l.root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case actor.SystemMessage:
		default:
			l.heard <- ctx.Message()
		}
	}))
	c.Log = quiet
	record := newRecord(&env.Env{Config: c.WithDefaults()}, Options{
		ID: "s", Life: life, Registry: l.test,
		First: message.AttachRequest{Attach: message.Attach{Identity: identity.Identity{Name: name}}, Sender: l.test},
	})
	record.supervisor = l.test
	l.closes, l.record = record.closes, record
	for _, p := range processes {
		p.PID = l.test
		record.processes.Add(p)
	}
	l.session = l.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &session{record} }))
	t.Cleanup(func() {
		l.root.StopFuture(l.session).Wait()
		l.root.StopFuture(l.test).Wait()
		system.Shutdown()
	})
	return l
}

func (l *lone) send(m any) { l.root.RequestWithCustomSender(l.session, m, l.test) }

// hear waits for a message of a type.
func hear[M any](l *lone) (m M) {
	l.t.Helper()
	for patience := time.After(time.Minute); ; {
		select {
		case is := <-l.heard:
			if m, ok := is.(M); ok {
				return m
			}
		case <-patience:
			l.t.Fatalf("no %T came", m)
		}
	}
}

// When an unknown actor announces a process, the session stops the actor: nobody else would.
func TestOrphanIsStopped(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-2"})
	l.send(message.ProcessStarted{ID: "p", Name: "p-1", Ref: message.ProcessRef{ID: "p", PID: l.test}})
	if stop := hear[message.Stop](l); stop.Reason != "given up by its session" {
		t.Errorf("%+v", stop)
	}
}

// A client that attaches late hears of a process that was given up.
func TestRemovalIsRemembered(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	l.send(message.ProcessEnded{Name: "p-1", Last: 7, Acked: 5})
	l.send(message.Gone{Who: actor.NewPID(l.test.Address, "elsewhere/p-1")})
	want := message.ProcessRemoved{ID: "p", Reason: "its actor failed too often", Last: 7, Acked: 5}
	if got := hear[message.ProcessRemoved](l); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	l.send(message.Attach{})
	if got := hear[message.Attached](l); len(got.Removed) != 1 || got.Removed[0] != want || len(got.Processes) != 0 {
		t.Errorf("%+v, want %+v removed", got, want)
	}
}

// A session without an owner tells the registry, and ends when its TTL is over.
func TestSessionExpires(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: time.Millisecond}))
	hear[message.Attached](l)
	l.send(message.Gone{Who: l.test})
	if got := hear[message.Standing](l); got.Since.IsZero() || !got.Empty {
		t.Errorf("%+v", got)
	}
	select {
	case <-l.closes.Done():
		if got, want := context.Cause(l.closes).Error(), "session s is closing: session expired: no owner for 1ms"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Error("the session does not end")
	}
}

// A session that is stopped before its time leaves no timer.
func TestStoppedSessionLeavesNoTimer(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		registry := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		record := newRecord(&env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}, Options{
			Life:     lifetime.New(time.Now(), lifetime.Limits{TTL: -1, Age: time.Hour}),
			First:    message.AttachRequest{Sender: registry},
			Registry: registry,
		})
		record.supervisor = registry
		pid := spawn(func() actor.Actor { return &session{record} })
		synctest.Wait()
		if !record.wakeAt.IsSet() {
			t.Error("no timer is set while the session lives")
		}
		system.Root.StopFuture(pid).Wait()
		if record.wakeAt.IsSet() {
			t.Error("a timer is set after the session")
		}
	})
}

// A session tells the registry when its last process has gone, and when an owner comes.
func TestStandingIsTold(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	hear[message.Attached](l)
	l.send(message.Gone{Who: l.test})
	if got := hear[message.Standing](l); got.Since.IsZero() || got.Empty {
		t.Errorf("without an owner: %+v", got)
	}
	l.send(message.Gone{Who: actor.NewPID(l.test.Address, "session/p-1")})
	if got := hear[message.Standing](l); got.Since.IsZero() || !got.Empty {
		t.Errorf("without a process: %+v", got)
	}
	l.send(message.Attach{})
	if got := hear[message.Standing](l); !got.Since.IsZero() {
		t.Errorf("with an owner: %+v", got)
	}
}

// An owner that takes over gets the session. The old owner is told, and the processes ignore it from then on.
func TestTakeover(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	hear[message.Attached](l)
	answers := make(chan any, 10)
	other := l.root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case message.Reply, message.Attached:
			answers <- m
		}
	}))
	defer func() { l.root.StopFuture(other).Wait() }()
	l.root.RequestWithCustomSender(l.session, message.Attach{Token: 1}, other)
	if m, ok := (<-answers).(message.Reply); !ok || m.Token != 1 || m.Err.Code != protocol.CodeAlreadyAttached {
		t.Errorf("without takeover: %+v", m)
	}
	l.root.RequestWithCustomSender(l.session, message.Attach{Token: 2, Takeover: true}, other)
	if m, ok := (<-answers).(message.Attached); !ok || m.Token != 2 || m.Role != protocol.RoleOwner || len(m.Processes) != 1 {
		t.Errorf("with takeover: %+v", m)
	}
	hear[message.Evicted](l)
	if m := hear[message.ViewerGone](l); !m.PID.Equal(l.test) || !m.Evicted {
		t.Errorf("the process was told %+v", m)
	}
	for _, params := range []any{protocol.ProcessStartParams{ProcessID: "q", Argv: []string{"true"}, Cwd: "file:///"}, protocol.GroupStartParams{GroupID: "g"},
		protocol.GroupStopParams{GroupID: "g"}, protocol.SessionCloseParams{}} {
		l.send(message.Request{Params: params})
		if m := hear[message.Reply](l); m.Err != wireerr.ErrEvicted {
			t.Errorf("a late %T of the old owner: %v", params, m.Err)
		}
	}
	if n := l.record.processes.Len(); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
}

// A closing session stops its processes, each with its own grace, and answers when they have ended.
func TestCloseIsAnswered(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	l.send(message.Request{Token: 7, Params: protocol.SessionCloseParams{}})
	if m := hear[message.Stop](l); m.Reason != message.ReasonClosed || m.Shutdown != lifetime.OwnGrace {
		t.Errorf("%+v", m)
	}
	l.send(message.ProcessEnded{Name: "p-1", Left: errors.New("cat (pid 5) survived")})
	l.send(message.Gone{Who: actor.NewPID(l.test.Address, "s/p-1")})
	if m := hear[message.Reply](l); m.Token != 7 || m.Err == nil || !strings.Contains(m.Err.Message, "cat (pid 5) survived") {
		t.Errorf("%+v", m)
	}
	if m := hear[message.Evicted](l); m.Reason != message.ReasonClosed {
		t.Errorf("%+v", m)
	}
}

// At a shutdown of the server its grace counts, and clients may still attach.
func TestDrain(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	l.send(message.Drain{})
	if m := hear[message.Expiring](l); m.InMs != 2000 || m.Reason != message.ReasonShutdown {
		t.Errorf("%+v", m)
	}
	if m := hear[message.Stop](l); m.Reason != message.ReasonShutdown || m.Shutdown != 2*time.Second {
		t.Errorf("%+v", m)
	}
	l.send(message.Attach{Token: 3, Role: protocol.RoleObserver})
	if m := hear[message.Attached](l); m.Token != 3 {
		t.Errorf("%+v", m)
	}
}

// A session with a process does not make room for another session.
func TestBusySessionStays(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	l.send(message.Gone{Who: l.test})
	hear[message.Standing](l)
	l.send(message.Evict{Reason: "room", IfIdle: true})
	if m := hear[message.Standing](l); m.Since.IsZero() || m.Empty {
		t.Errorf("%+v", m)
	}
	l.send(message.Evict{Reason: "memory"})
	if m := hear[message.Stop](l); m.Reason != "memory" {
		t.Errorf("%+v", m)
	}
}

// session/close is answered after the captures of shells have ended, and names programs not seen gone.
func TestCloseWaitsForCaptures(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}))
	failed := make(chan func(child.Handle, error), 1)
	e := fake.Env(nil)
	e.StartChild = func(_ child.Spec, _ *child.Intake, done func(child.Handle, error)) { failed <- done }
	capture := l.record.shells.Look(time.Now(), shellstate.Key{}, nil)
	shellstate.Start{Capture: capture, Shell: "bash", Session: l.session}.Begin(e, l.root, child.Spec{Argv: []string{"bash", "-lc", ""}})
	done := <-failed
	l.send(message.Request{Token: 1, Params: protocol.SessionCloseParams{}})
	l.send(message.Request{Token: 2, Params: message.SessionInfoRequest{}})
	if got := hear[message.Reply](l); got.Token != 2 {
		t.Errorf("%+v", got)
	}
	l.send(message.CaptureOver{Left: errors.New("program 7")}) // of another capture
	done(nil, errors.New("closed"))
	if got := hear[message.Reply](l); got.Token != 1 || got.Err == nil || !strings.Contains(got.Err.Message, "program 7") {
		t.Errorf("%+v", got)
	}
}

// newExtensible returns a full session with a group of two processes: p has left, and q has not.
func newExtensible(t *testing.T) *lone {
	l := newLoneIn(t, config.Config{MaxProcesses: 2}, "", lifetime.New(time.Now(), lifetime.Limits{TTL: -1}),
		&members.Process{ID: "p", Name: "p-1", Group: "g-1"}, &members.Process{ID: "q", Name: "p-2", Group: "g-1"})
	hear[message.Attached](l)
	machine, err := supervision.NewGroup(supervision.Independent, supervision.Intensity{}, []supervision.Member{{ID: "p"}, {ID: "q"}})
	if err != nil {
		t.Fatal(err)
	}
	machine.Tick(time.Now())
	machine.Gone(time.Now(), "p", supervision.EndedByRequest, false)
	g := &group{id: "g", name: "g-1", machine: machine, members: map[string]groupMember{"p": {actor: "p-1"}, "q": {actor: "p-2"}}, orders: make(map[string]supervision.MemberStatus)}
	l.record.groups, l.record.groupIDs = map[string]*group{"g-1": g}, map[string]*group{"g": g}
	return l
}

// extend asks for other processes with the ids in the group of newExtensible.
func (l *lone) extend(ids ...string) {
	params := protocol.GroupStartParams{GroupID: "g", Strategy: protocol.Independent, Extend: true}
	for _, id := range ids {
		params.Processes = append(params.Processes, protocol.ProcessStartParams{ProcessID: id, Argv: []string{"true"}, Cwd: "file:///"})
	}
	l.send(message.Request{Token: 1, Params: params})
}

// stopOrReply returns the next Stop or Reply, whichever comes first.
func (l *lone) stopOrReply() any {
	for {
		switch m := hear[any](l).(type) {
		case message.Stop, message.Reply:
			return m
		}
	}
}

// An extension of a full session replaces a process that has left its group, and no other process.
func TestExtensionReplaces(t *testing.T) {
	l := newExtensible(t)
	for ids, text := range map[string]string{"q": "process q of the group: it already exists", "r": "max-processes is 2 here"} {
		l.extend(ids)
		if m := hear[message.Reply](l); m.Err == nil || !strings.Contains(m.Err.Message, text) {
			t.Errorf("another %s: %+v, want %q", ids, m, text)
		}
	}
	l.extend("p")
	if m := l.stopOrReply(); m != (message.Stop{Reason: reasonReplaced, Shutdown: -1}) {
		t.Fatalf("%+v", m)
	}
	if m := hear[message.SpawnRequest](l); !strings.HasPrefix(m.Name, "p-") {
		t.Errorf("%+v", m)
	}
}

// An extension that names a process twice is refused, also if the process has left the group.
func TestExtensionNamesAProcessTwice(t *testing.T) {
	l := newExtensible(t)
	l.extend("p", "p")
	if m, ok := l.stopOrReply().(message.Reply); !ok || m.Err == nil || !strings.Contains(m.Err.Message, `process "p" is there twice`) {
		t.Errorf("%+v", m)
	}
}

// A closing session also stops the actors of processes that clients cannot name any more.
func TestRetiredProcessesAreStopped(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	l.send(message.ProcessRetired{ID: "p", Name: "p-1"})
	hear[message.Forgotten](l)
	l.send(message.Request{Token: 7, Params: protocol.SessionCloseParams{}})
	l.send(message.Request{Token: 8, Params: message.SessionInfoRequest{}})
	if m := l.stopOrReply(); m != (message.Stop{Reason: message.ReasonClosed}) {
		t.Fatalf("%+v", m)
	}
	hear[message.Reply](l)
	l.send(message.Gone{Who: actor.NewPID(l.test.Address, "s/p-1")})
	if m := hear[message.Reply](l); m.Token != 7 || m.Err != nil {
		t.Errorf("%+v", m)
	}
}

// failsOnce returns options with which a session fails once at a place, when armed is true.
func failsOnce(at env.Place, armed *atomic.Bool) config.Config {
	return config.Config{Faults: faults.New(func(_ *actor.PID, m any) {
		if m == at && armed.CompareAndSwap(true, false) {
			panic("injected")
		}
	}, nil)}
}

// A client is not attached after the session has failed over its Attach, and hears nothing more: the guard has answered with an error.
func TestAttachFailsHalfWay(t *testing.T) {
	var armed atomic.Bool
	l := newLoneIn(t, failsOnce(env.OwnerSet, &armed), "", lifetime.New(time.Now(), lifetime.Limits{TTL: -1}))
	hear[message.Attached](l)
	l.send(message.Gone{Who: l.test})
	half := l.other()
	armed.Store(true)
	half.send(message.Attach{Token: 1})
	half.send(message.Request{Token: 2, Params: message.SessionInfoRequest{}})
	if m, ok := hear[any](half).(message.Reply); !ok || m.Token != 2 || m.Result.(protocol.SessionInfoResult).Role != "" || m.Result.(protocol.SessionInfoResult).Attached {
		t.Errorf("%+v", m)
	}
	l.send(message.Attach{Token: 3})
	if m := hear[message.Attached](l); m.Token != 3 {
		t.Errorf("%+v", m)
	}
}

// Whoever opens a session that fails over the Attach gets a single answer.
func TestOpeningFailsHalfWay(t *testing.T) {
	for _, at := range []env.Place{env.OwnerSet, env.Undone(access.Admit{})} {
		var armed atomic.Bool
		armed.Store(true)
		l := newLoneIn(t, failsOnce(at, &armed), "", lifetime.New(time.Now(), lifetime.Limits{TTL: -1}))
		hear[message.Attached](l)
		l.send(message.Request{Token: 2, Params: message.SessionInfoRequest{}})
		if m, ok := hear[any](l).(message.Reply); !ok || m.Token != 2 || m.Result.(protocol.SessionInfoResult).Role != protocol.RoleOwner || armed.Load() {
			t.Errorf("%s: %+v", at, m)
		}
	}
}
