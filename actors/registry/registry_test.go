package registry

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// stage is a registry in fake time. The test plays the sessions actor, the sessions and the clients.
type stage struct {
	t        *testing.T
	root     *actor.RootContext
	registry *actor.PID
	record   *record
	quotas   *quota.Quotas // nil without a cluster
	client   *actor.PID
	replies  []message.Reply       // to the client
	failures int                   // ListSessions that still fail
	ids      []string              // of the sessions, in the order of their requests
	heard    map[string][]any      // by each session
	pids     map[string]*actor.PID // of the sessions
	drained  int
	left     int // calls

	// mu guards all fields that actors write. The test holds mu except during wait.
	mu sync.Mutex
}

func onStage(t *testing.T, c config.Config, test func(s *stage)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		c.Log = slog.New(slog.DiscardHandler)
		s := &stage{t: t, root: system.Root, heard: make(map[string][]any), pids: make(map[string]*actor.PID)}
		s.client = spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.replies = append(s.replies, m)
				}
			})
		})
		sessions := spawn(func() actor.Actor { return actor.ReceiveFunc(s.sessions) })
		s.record = &record{drained: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.drained++
		}}
		s.record.leaves.left = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.left++
		}
		e := &env.Env{Config: c.WithDefaults(), Quotas: quota.New(quota.Limits{Sessions: c.MaxSessionsEach, Elsewhere: c.Elsewhere}, nil, nil, nil)}
		s.quotas = e.Quotas
		s.registry = spawn(func() actor.Actor {
			return &registry{env: e, record: s.record, sessions: sessions}
		})
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		test(s)
	})
}

// sessions is the sessions actor.
func (s *stage) sessions(ctx actor.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := ctx.Message().(type) {
	case message.SpawnRequest:
		s.ids = append(s.ids, m.Name)
		s.pids[m.Name], _ = ctx.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ours := ctx.Message().(actor.SystemMessage); !ours {
				s.mu.Lock()
				s.heard[m.Name] = append(s.heard[m.Name], ctx.Message())
				s.mu.Unlock()
			}
		}), m.Name)
	case message.SessionSpawned:
		ctx.Respond(m)
	case message.ListSessions:
		if s.failures--; s.failures >= 0 {
			ctx.Respond(message.SessionListFailed{})
			return
		}
		ctx.Respond(message.SessionList{Supervisors: slices.Clone(ctx.Children())})
	}
}

// send sends the registry a message, and waits until the actors are done.
func (s *stage) send(m any) {
	s.wait(func() { s.root.RequestWithCustomSender(s.registry, m, s.client) })
}

// wait runs f, and lets the actors finish their work.
func (s *stage) wait(f func()) {
	s.mu.Unlock()
	f()
	synctest.Wait()
	s.mu.Lock()
}

// wants checks the messages that a session got since the last call.
func (s *stage) wants(session int, want ...any) {
	s.t.Helper()
	id := s.ids[session]
	if got := s.heard[id]; !slices.EqualFunc(got, want, func(a, b any) bool {
		if evict, ok := a.(message.Evict); ok {
			evict.Reason = ""
			a = evict
		}
		return reflect.DeepEqual(a, b)
	}) {
		s.t.Errorf("session %d got %+v, want %+v", session, got, want)
	}
	delete(s.heard, id)
}

// refused checks that the client got so many errors, the last with the text.
func (s *stage) refused(n int, text string) {
	s.t.Helper()
	if len(s.replies) != n || n > 0 && (s.replies[n-1].Err == nil || !strings.Contains(s.replies[n-1].Err.Message, text)) {
		s.t.Errorf("the client got %+v, want %d errors, the last with %q", s.replies, n, text)
	}
}

// stop ends a session.
func (s *stage) stop(session int) {
	pid := s.pids[s.ids[session]]
	s.wait(func() { s.root.StopFuture(pid).Wait() })
}

// A full server evicts the session that has been without an owner and without a process the longest. The
// new session opens when the evicted session has ended.
func TestFullServerEvictsTheOldest(t *testing.T) {
	onStage(t, config.Config{MaxSessions: 3}, func(s *stage) {
		for range 3 {
			s.send(message.Attach{})
		}
		now := time.Now()
		s.send(message.Standing{ID: s.ids[0], Since: now.Add(-3 * time.Minute)}) // has a process
		s.send(message.Standing{ID: s.ids[1], Since: now.Add(-1 * time.Minute), Empty: true})
		s.send(message.Standing{ID: s.ids[2], Since: now.Add(-2 * time.Minute), Empty: true})
		s.send(message.Attach{})
		s.wants(0)
		s.wants(1)
		s.wants(2, message.Evict{IfIdle: true})
		if len(s.ids) != 3 {
			t.Fatal("a fourth session opened before another one had ended")
		}
		s.stop(2)
		if len(s.ids) != 4 {
			t.Fatal("no session opened in the place of the evicted one")
		}
		s.refused(0, "")
	})
}

// Sessions on other nodes of a cluster count for the limit of an owner key. Only an idle session on this node makes room.
func TestSessionsElsewhere(t *testing.T) {
	elsewhere := 1
	c := config.Config{MaxSessionsEach: 2, Elsewhere: func(key string) config.Elsewhere {
		if key != "alice" {
			return config.Elsewhere{}
		}
		return config.Elsewhere{Account: config.Account{Sessions: elsewhere}, Nodes: 1}
	}}
	onStage(t, c, func(s *stage) {
		s.send(message.Attach{From: "alice"})
		s.send(message.Attach{From: "alice"})
		s.refused(1, "max-sessions-each is 2 in this cluster, and alice has 2 sessions: 1 here and 1 on other nodes: close one")
		s.send(message.Attach{From: "bob"})
		s.send(message.Attach{From: "bob"})
		if len(s.ids) != 3 {
			t.Errorf("%d sessions, want one of alice and two of bob", len(s.ids))
		}
		s.send(message.Standing{ID: s.ids[0], From: "alice", Since: time.Now().Add(-time.Minute), Empty: true})
		s.send(message.Attach{From: "alice"})
		s.wants(0, message.Evict{IfIdle: true})
		s.stop(0)
		if len(s.ids) != 4 {
			t.Error("the idle session has made no room")
		}
		s.accounts("map[alice:{1 0 0} bob:{2 0 0}]")
		elsewhere = 2
		s.stop(3)
		s.accounts("map[bob:{2 0 0}]")
		s.send(message.Attach{From: "alice"})
		s.refused(2, "alice has 2 sessions: 0 here and 2 on other nodes")

		s.send(message.Attach{From: "carol"})
		pid := s.pids[s.ids[1]]
		next := &registry{env: &env.Env{Config: c.WithDefaults(), Quotas: s.quotas}, record: s.record, sessions: actor.NewPID(pid.Address, strings.TrimSuffix(pid.Id, "/"+s.ids[1]))}
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
		s.stop(4) // nobody tells the next registry
		s.wait(func() { s.registry = s.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return next })) })
		s.send(message.Standing{ID: s.ids[1], From: "bob"})
		s.send(message.Standing{ID: s.ids[2], From: "bob"})
		s.accounts("map[bob:{2 0 0}]")
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
	})
}

// accounts checks the sessions that other nodes are told of.
func (s *stage) accounts(want string) {
	s.t.Helper()
	if got := fmt.Sprint(s.quotas.Accounts()); got != want {
		s.t.Errorf("other nodes are told of %s, want %s", got, want)
	}
}

// If the session that was to make room stays, the next one is asked; if none is left, the client is refused.
func TestNoSessionMakesRoom(t *testing.T) {
	onStage(t, config.Config{MaxSessions: 2}, func(s *stage) {
		s.send(message.Attach{})
		s.send(message.Attach{})
		since := time.Now().Add(-time.Minute)
		s.send(message.Standing{ID: s.ids[0], Since: since, Empty: true})
		s.send(message.Standing{ID: s.ids[1], Since: since.Add(1), Empty: true})
		s.send(message.Attach{})
		s.wants(0, message.Evict{IfIdle: true})
		s.wants(1)
		s.send(message.Standing{ID: s.ids[0]}) // its owner was faster
		s.wants(1, message.Evict{IfIdle: true})
		s.refused(0, "")
		s.send(message.Standing{ID: s.ids[1], Since: since.Add(1), Empty: true}) // old news: it is not asked again
		s.wait(func() { time.Sleep(roomTime) })                                  // the other one does not answer
		s.wants(1)
		s.refused(1, "max-sessions is 2 here, and the server has 2 sessions")
	})
}

// A registry that leaves opens no session, tells those there until when they may go on, and says that none is left. Taken back, it opens sessions again.
func TestLeave(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		until := time.Now().Add(time.Minute)
		s.send(message.Attach{})
		s.send(message.Leave{Until: until})
		s.wants(0, message.Leave{Until: until})
		s.send(message.Attach{})
		s.refused(1, "being drained")
		s.send(message.Attach{SessionID: s.ids[0]}) // whoever has a session goes on
		if n := len(s.replies); n != 1 {
			t.Errorf("%d refusals, want 1", n)
		}
		s.send(message.Leave{})
		s.wants(0, message.Leave{})
		s.send(message.Attach{})
		s.stop(0)
		s.stop(1)
		if s.left != 0 {
			t.Error("a server that stays has left")
		}
		s.send(message.Attach{})
		s.send(message.Leave{Until: until})
		s.wants(2, message.Leave{Until: until})
		if s.left != 0 {
			t.Error("left, with a session")
		}
		s.stop(2)
		if s.left == 0 {
			t.Error("no session, and not left")
		}
	})
}

// A draining registry tells every session, opens none, and says once that no session is left.
func TestDrain(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		s.send(message.Attach{})
		s.send(message.Attach{})
		s.send(message.DrainAll{})
		s.wants(0, message.Drain{})
		s.wants(1, message.Drain{})
		s.send(message.Attach{})
		s.refused(1, "shutting down")
		s.wants(0) // once
		s.stop(0)
		if s.drained != 0 {
			t.Error("drained, with a session left")
		}
		s.stop(1)
		s.send(message.DrainAll{})
		if s.drained != 1 {
			t.Errorf("drained %d times, want once", s.drained)
		}
	})
}

// A session that waits for room does not open while the server shuts down.
func TestDrainRefusesThoseThatWait(t *testing.T) {
	onStage(t, config.Config{MaxSessions: 1}, func(s *stage) {
		s.send(message.Attach{})
		s.send(message.Standing{ID: s.ids[0], Since: time.Now(), Empty: true})
		s.send(message.Attach{})
		s.send(message.DrainAll{})
		s.refused(1, "shutting down")
		s.stop(0)
		if len(s.ids) != 1 || s.drained != 1 {
			t.Errorf("%d sessions, drained %d times", len(s.ids), s.drained)
		}
	})
}

// Without the list of sessions a registry opens none, and does not say that none is left.
func TestListOfSessionsIsAwaited(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		s.send(message.Attach{})
		kept := s.ids[0]
		s.failures = 3
		next := &registry{env: &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}, record: s.record,
			sessions: actor.NewPID(s.pids[kept].Address, strings.TrimSuffix(s.pids[kept].Id, "/"+kept))}
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
		s.registry = s.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return next }))
		s.send(message.Attach{})
		s.send(message.Attach{SessionID: kept})
		s.send(message.DrainAll{})
		if len(s.ids) != 1 || s.drained != 0 || len(s.replies) != 0 {
			t.Errorf("before the list: %d sessions, drained %d times, %+v", len(s.ids), s.drained, s.replies)
		}
		s.wait(func() { time.Sleep(3 * listPause) })
		if known := slices.Collect(maps.Keys(next.known)); !slices.Equal(known, []string{kept}) {
			t.Errorf("knows %v, want %v", known, kept)
		}
		// The session's actor may not be spawned yet: its supervisor gets the Attach, until there is an answer.
		s.wants(0, message.TellStanding{}, message.Drain{}, message.Attach{SessionID: kept})
		s.send(message.Standing{ID: kept})
		s.send(message.Attach{SessionID: kept})
		s.wants(0)
		s.refused(1, "shutting down")
		s.wait(func() { s.root.StopFuture(s.registry).Wait() })
	})
}

// An Attach without a session to attach to is answered with the reason.
func TestAttachIsRefused(t *testing.T) {
	day, none := uint64(24*time.Hour/time.Millisecond), uint64(0)
	over := day + 1
	for text, m := range map[string]message.Attach{
		"unknown session id s":                    {SessionID: "s"},
		"role observer joins an existing session": {Role: protocol.RoleObserver},
		"role controller joins an existing":       {Role: protocol.RoleController},
		"session.name has 1025 bytes":             {Options: protocol.SessionOptions{Name: strings.Repeat("a", 1025)}},
		"session.detachedTtlMs is 86400001, this": {Options: protocol.SessionOptions{DetachedTTLMs: &over}},
		"session.detachedTtlMs is 0, this":        {Options: protocol.SessionOptions{DetachedTTLMs: &none}},
		"session.idleMs is 0, this":               {Options: protocol.SessionOptions{IdleMs: &none}},
		"session.maxAgeMs is 86400001, this":      {Options: protocol.SessionOptions{MaxAgeMs: &over}},
	} {
		onStage(t, config.Config{IdleTimeout: time.Hour, MaxAge: 24 * time.Hour}, func(s *stage) {
			s.send(m)
			s.refused(1, text)
		})
	}
	onStage(t, config.Config{MaxAge: 24 * time.Hour}, func(s *stage) {
		s.send(message.Attach{Options: protocol.SessionOptions{DetachedTTLMs: &day, IdleMs: &none, MaxAgeMs: &day}})
		s.refused(0, "")
	})
}

// The registry asks a session nothing for clients for whom the session does not exist: the answer would tell by its time
// that there is a session.
func TestAttachToSessionsOfOthers(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		s.send(message.Attach{From: "alice", Identity: identity.Identity{Name: "alice"}})
		id := s.ids[0]
		refusals := 0
		for _, c := range []struct {
			who    identity.Identity
			exists bool
		}{
			{identity.Identity{Name: "alice"}, true},
			{identity.Identity{Name: "mallory"}, false},
			{identity.Identity{Name: "mallory", Observes: []string{"bob"}}, false},
			{identity.Identity{Name: "bob", Observes: []string{"alice"}}, true},
			{identity.Identity{Name: "root", Operator: true}, true},
			{identity.Identity{Name: "share:1", Guest: &identity.Guest{Session: id}}, true},
			{identity.Identity{Name: "share:2", Guest: &identity.Guest{Session: "other"}}, false},
			{identity.Identity{}, true}, // a server without credentials
		} {
			for _, role := range []protocol.Role{"", protocol.RoleObserver} {
				s.send(message.Attach{SessionID: id, Role: role, Takeover: role == "", Identity: c.who})
				if !c.exists {
					refusals++
				}
				s.refused(refusals, "unknown session id "+id)
			}
		}
	})
}

// The news of an ephemeral session that was abandoned comes back to its supervisor, after a Drain.
func TestAbandonedComesBack(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		s.send(message.Attach{Ephemeral: true})
		s.root.Send(s.registry, message.DrainAll{})
		s.send(message.Abandoned{ID: s.ids[0]})
		s.wants(0, message.Drain{}, message.Abandoned{ID: s.ids[0]})
	})
}

// The registry retires after a time without sessions that have an owner or a process. Idle sessions do not count.
func TestRetire(t *testing.T) {
	onStage(t, config.Config{}, func(s *stage) {
		again := func(want time.Duration) {
			t.Helper()
			var answer any
			s.wait(func() {
				answer, _ = s.root.RequestFuture(s.registry, message.Retire{For: time.Minute}, time.Second).Result()
			})
			if m, _ := answer.(message.Retiring); m.Again != want {
				t.Errorf("%+v, want again in %v", answer, want)
			}
		}
		again(time.Minute)
		s.wait(func() { time.Sleep(59 * time.Second) })
		again(time.Second)
		s.send(message.Attach{})
		s.wait(func() { time.Sleep(time.Hour) })
		again(time.Minute) // it has an owner
		now := time.Now()
		s.send(message.Standing{ID: s.ids[0], Since: now})
		s.wait(func() { time.Sleep(time.Hour) })
		again(time.Minute) // it has a process
		s.send(message.Standing{ID: s.ids[0], Since: now, Empty: true})
		s.wait(func() { time.Sleep(20 * time.Second) })
		again(40 * time.Second)
		s.wait(func() { time.Sleep(40 * time.Second) })
		again(0)
	})
}
