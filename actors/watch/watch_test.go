package watch

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/notices"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/watch/mirror"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// world is the registry, a session with a process, and two connections, in actors of the test.
type world struct {
	mu             sync.Mutex
	lists, failing int // requests for the list; of which so many fail
	looks          int // at the process
	usages         int
	state          string // of the process
	process        *actor.PID
	session        *actor.PID
	pieces         map[string][]message.WatchPiece // by connection
}

func (w *world) Receive(ctx actor.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := ctx.Message().(type) {
	case message.Request:
		reply := message.Reply{Token: m.Token}
		switch params := m.Params.(type) {
		case message.SessionListRequest:
			if w.lists++; w.lists <= w.failing {
				reply.Err = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "failed")
			} else {
				reply.Result = []*actor.PID{w.session}
			}
		case message.SummaryRequest:
			reply.Result = message.Summary{SessionSummary: protocol.SessionSummary{SessionID: "s1", Identity: "ann"}, Started: []message.ProcessRef{{ID: "web", PID: w.process}}}
		case message.InspectRequest:
			if w.looks++; params.Usage {
				w.usages++
			}
			if w.looks == 1 { // the actor of the process has failed
				reply.Err = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "failed")
			} else {
				reply.Result = protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: "web", State: w.state}}
			}
		}
		ctx.Respond(reply)
	case message.WatchPiece:
		w.pieces[ctx.Self().Id] = append(w.pieces[ctx.Self().Id], m)
	}
}

// counts returns how often the actor has asked.
func (w *world) counts() (lists, looks, usages int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists, w.looks, w.usages
}

// took returns what a connection has got since the last call: the serials, the states of the process, and marks of the state.
func (w *world) took(who string) (text string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pieces[who] {
		text += fmt.Sprint(p.Serial, ":")
		if p.Anew {
			text += " anew"
		}
		for _, s := range p.Sessions {
			text += " " + s.SessionID
			for _, p := range s.List {
				text += "/" + p.State
			}
		}
		if p.Whole {
			text += " whole"
		}
		text += ";"
	}
	delete(w.pieces, who)
	return text
}

// A connection gets the state, and then what changes, a piece for each PullPiece. Without a viewer, the actor asks nobody. A new instance of the actor begins anew.
func TestWatch(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, _ func(actor.Producer) *actor.PID, _ func(string) int) {
		e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}
		w := &world{state: "running", failing: 1, pieces: make(map[string][]message.WatchPiece)}
		var pids []*actor.PID
		spawn := func(name string, produce actor.Producer) *actor.PID {
			pid, err := system.Root.SpawnNamed(actor.PropsFromProducer(produce), name)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
			return pid
		}
		defer func() {
			for _, pid := range pids {
				system.Root.StopFuture(pid).Wait()
			}
		}()
		registry := spawn("registry", func() actor.Actor { return w })
		w.session, w.process = spawn("s1/session", func() actor.Actor { return w }), spawn("s1/p-1", func() actor.Actor { return w })
		ann, bob := spawn("ann", func() actor.Actor { return w }), spawn("bob", func() actor.Actor { return w })
		kept := &record{viewers: make(map[message.Key]*viewer)}
		it := spawn("watch", func() actor.Actor { return &watch{env: e, registry: registry, record: kept} })
		mark := &notices.Mark{Session: "s1", Process: "p-1", PID: w.process, Of: w.session}
		become := func(state string) {
			w.mu.Lock()
			w.state = state
			w.mu.Unlock()
			e.Notices.Changed(mark, true)
		}
		send := func(from *actor.PID, m any) {
			system.Root.RequestWithCustomSender(it, m, from)
			synctest.Wait()
		}
		want := func(who, text string) {
			t.Helper()
			if got := w.took(who); got != text {
				t.Errorf("%s got %q, want %q", who, got, text)
			}
		}

		become("running")
		time.Sleep(time.Hour)
		if lists, _, _ := w.counts(); lists > 0 || e.Notices.On() {
			t.Error("the actor asks although nobody watches")
		}
		send(ann, message.WatchServer{Who: identity.Identity{Name: "ann"}, Every: time.Second, Serial: 1})
		send(ann, message.PullPiece{Serial: 1})
		want("ann", "")
		time.Sleep(listPause)
		want("ann", "1: anew s1 whole;") // the process will answer
		send(ann, message.PullPiece{Serial: 1})
		time.Sleep(2 * time.Second)
		want("ann", "1: s1/running;")
		become("exited")
		time.Sleep(settles)
		want("ann", "")
		send(ann, message.PullPiece{Serial: 1})
		want("ann", "1: s1/exited;")
		send(ann, message.PullPiece{Serial: 1})
		time.Sleep(mirror.Pause)
		become("restarting")
		time.Sleep(settles)
		want("ann", "1: s1/restarting;")

		send(bob, message.WatchServer{Who: identity.Identity{Name: "bob"}, Every: 200 * time.Millisecond, Serial: 7})
		send(bob, message.PullPiece{Serial: 6}) // of an earlier watch
		want("bob", "")
		send(bob, message.PullPiece{Serial: 7})
		want("bob", "7: anew whole;")
		send(ann, message.WatchServer{Who: identity.Identity{Name: "ann"}, Every: time.Second, Serial: 2})
		send(ann, message.PullPiece{Serial: 2})
		want("ann", "2: anew s1/restarting whole;")

		send(ann, message.PullPiece{Serial: 2})
		pids = pids[:len(pids)-1]
		system.Root.StopFuture(it).Wait() // as a failure: the record stays
		if e.Notices.On() {
			t.Error("nobody reads the board")
		}
		it = spawn("watch again", func() actor.Actor { return &watch{env: e, registry: registry, record: kept} })
		want("ann", "2: anew s1/restarting whole;")
		want("bob", "")

		_, _, before := w.counts()
		time.Sleep(time.Minute)
		if _, _, n := w.counts(); n-before < 5 || n-before > 20 {
			t.Errorf("%d looks at an idle process in a minute", n-before)
		}
		send(ann, message.WatchServer{Serial: 3})
		if !e.Notices.On() {
			t.Error("bob watches, and nobody reads the board")
		}
		system.Root.Send(it, message.Gone{Who: bob})
		lists, looks, _ := w.counts()
		become("exited")
		time.Sleep(time.Hour)
		if l, n, _ := w.counts(); e.Notices.On() || l != lists || n != looks || len(kept.viewers) > 0 {
			t.Errorf("the actor goes on without viewers: %d lists, %d looks", l-lists, n-looks)
		}
		want("bob", "")
		want("ann", "")
		send(ann, message.WatchServer{Who: identity.Identity{Name: "ann"}, Every: time.Second, Serial: 4})
		send(ann, message.PullPiece{Serial: 4})
		want("ann", "4: anew s1/exited whole;")
		send(ann, message.WatchServer{Serial: 5})
	})
}
