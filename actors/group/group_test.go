package group

import (
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// stage is a group in fake time. The test plays the session and the processes "a" and "b"; "b" starts after
// "a". After synctest.Wait, the test may read every field.
type stage struct {
	t       *testing.T
	root    *actor.RootContext
	spawn   func(actor.Producer) *actor.PID
	record  *groupRecord
	group   *actor.PID
	members map[string]*actor.PID

	mu      sync.Mutex                 // the processes run at the same time
	orders  map[string][]message.Order // since the last call of wants
	serials map[string]uint64          // of the newest Order to each process
	reports []protocol.GroupInfo
	asked   int // Reports to the processes
}

func onStage(t *testing.T, test func(s *stage)) { onStageOf(t, supervision.OneForAll, test) }

func onStageOf(t *testing.T, strategy supervision.GroupStrategy, test func(s *stage)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		s := &stage{t: t, root: system.Root, spawn: spawn, members: make(map[string]*actor.PID), orders: make(map[string][]message.Order), serials: make(map[string]uint64)}
		for _, id := range []string{"a", "b"} {
			s.members[id] = spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					s.mu.Lock()
					defer s.mu.Unlock()
					switch m := ctx.Message().(type) {
					case message.Order:
						s.orders[id] = append(s.orders[id], m)
						if last := s.serials[id]; m.Serial <= last {
							t.Errorf("order %d comes after order %d", m.Serial, last)
						}
						s.serials[id] = m.Serial
					case message.Report:
						s.asked++
					}
				})
			})
		}
		session := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.GroupReport); ok && m.Name == "g-1" {
					s.reports = append(s.reports, m.Info)
				}
			})
		})
		e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}
		machine, err := supervision.NewGroup(strategy, supervision.Intensity{Restarts: 5, Period: time.Minute},
			[]supervision.Member{{ID: "a"}, {ID: "b", After: []string{"a"}}})
		if err != nil {
			t.Fatal(err)
		}
		s.record = &groupRecord{env: e, id: "g", name: "g-1", strategy: protocol.GroupStrategy(strategy), session: session, members: s.members, group: machine}
		s.group = spawn(func() actor.Actor { return &group{groupRecord: s.record} })
		synctest.Wait()
		test(s)
	})
}

func (s *stage) send(m any) {
	s.root.Send(s.group, m)
	synctest.Wait()
}

// there reports whether the actor of the group is there after a while.
func (s *stage) there(after time.Duration) bool {
	time.Sleep(after)
	synctest.Wait()
	_, there := s.root.ActorSystem().ProcessRegistry.GetLocal(s.group.Id)
	return there
}

// name returns the name of the actor of a process.
func (s *stage) name(id string) string { return message.LastName(s.members[id]) }

// wants checks the states in the orders that a process got since the last call.
func (s *stage) wants(id string, want ...supervision.MemberState) {
	s.t.Helper()
	got := s.orders[id]
	delete(s.orders, id)
	if len(got) != len(want) {
		s.t.Errorf("%s got the orders %+v, want %v", id, got, want)
		return
	}
	for i := range got {
		if got[i].Status.State != want[i] {
			s.t.Errorf("%s got the orders %+v, want %v", id, got, want)
		}
	}
}

// last returns the newest report to the session.
func (s *stage) last() protocol.GroupInfo { return s.reports[len(s.reports)-1] }

// A process starts when the processes before it are ready, and the session hears of each step.
func TestOrdersFollowReadiness(t *testing.T) {
	onStage(t, func(s *stage) {
		if s.asked != 2 {
			t.Errorf("%d processes were asked to report, want 2", s.asked)
		}
		s.wants("a", supervision.Running)
		s.wants("b") // it waits without an order
		if got := s.last(); got.GroupID != "g" || got.State != string(supervision.GroupStarting) || len(got.Processes) != 2 {
			t.Errorf("%+v", got)
		}
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		s.wants("b", supervision.Running)
		s.send(message.MemberReady{ID: "b", Name: s.name("b"), Run: 1})
		if got := s.last(); got.State != string(supervision.GroupReady) {
			t.Errorf("%+v", got)
		}
	})
}

// A repeated message changes nothing. A process or session that asks gets the last news again.
func TestNewsIsRepeatedOnRequest(t *testing.T) {
	onStage(t, func(s *stage) {
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		s.wants("a", supervision.Running, supervision.Running) // the second says that a is ready
		s.wants("b", supervision.Running)
		reports := len(s.reports)
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		s.wants("a")
		s.wants("b")
		if len(s.reports) != reports {
			t.Error("the session was told old news")
		}
		s.send(message.MemberBack{ID: "b", Name: s.name("b")})
		s.wants("a")
		s.wants("b", supervision.Running)
		s.send(message.Report{})
		if len(s.reports) != reports+1 {
			t.Errorf("%d reports after a Report, want 1", len(s.reports)-reports)
		}
	})
}

// A stopped group ends its processes in the reverse order, and its actor when the retention is over.
func TestStoppedGroupEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		s.send(message.MemberReady{ID: "b", Name: s.name("b"), Run: 1})
		clear(s.orders)
		s.send(message.StopGroup{Reason: "enough"})
		s.wants("a")
		s.wants("b", supervision.Ending)
		s.send(message.MemberGone{ID: "b", Name: s.name("b")})
		s.wants("a", supervision.Ending)
		s.send(message.MemberGone{ID: "a", Name: s.name("a")})
		if got := s.last(); got.State != string(supervision.GroupEnded) || got.Reason != "enough" || got.Processes[0].Reason != supervision.EndedByRequest {
			t.Errorf("%+v", got)
		}
		if !s.there(s.record.env.ClosedRetention - 1) {
			t.Error("the actor ended before the retention was over")
		}
		if !s.there(time.Hour) {
			t.Error("the actor ended although its processes may come back")
		}
		for _, id := range []string{"a", "b"} {
			s.root.StopFuture(s.members[id]).Wait()
		}
		if s.there(0) {
			t.Error("the actor is left after the retention and its processes")
		}
	})
}

// An ended group stays for the retention, also if its processes are gone before.
func TestEndedGroupIsKept(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, id := range []string{"a", "b"} {
			s.send(message.MemberGone{ID: id, Name: s.name(id)})
			s.root.StopFuture(s.members[id]).Wait()
		}
		for _, c := range []struct {
			after time.Duration
			there bool
		}{{s.record.env.ClosedRetention - 1, true}, {2, false}} {
			if there := s.there(c.after); there != c.there {
				t.Errorf("%v later the actor is there: %v, want %v", c.after, there, c.there)
			}
		}
	})
}

// The end of a process's actor is the end of the process, after everything that the process said.
func TestActorOfAProcessFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		s.root.StopFuture(s.members["b"]).Wait()
		synctest.Wait()
		want := protocol.GroupMember{ProcessID: "b", State: "left", Run: 1, Reason: "its actor failed too often"}
		if got := s.last().Processes[1]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A process that has left comes back, also to a group that has ended. The order that follows says so.
func TestProcessComesBack(t *testing.T) {
	onStage(t, func(s *stage) {
		s.send(message.MemberReady{ID: "a", Name: s.name("a"), Run: 1})
		for _, id := range []string{"a", "b"} {
			s.send(message.MemberGone{ID: id, Name: s.name(id)})
		}
		time.Sleep(s.record.env.ClosedRetention + 1)
		if state := s.last().State; state != string(supervision.GroupEnded) {
			t.Errorf("the group is %s", state)
		}
		clear(s.orders)
		s.send(message.MemberRejoins{ID: "a", Name: "p-old", N: 1})
		s.wants("a")
		s.send(message.MemberRejoins{ID: "a", Name: s.name("a"), N: 1})
		if all := s.orders["a"]; len(all) != 1 || all[0].Status.Rejoined != 1 || all[0].Status.State != supervision.Running || all[0].Status.Run != 2 {
			t.Errorf("ordered %+v", all)
		}
		if m := s.last().Processes[0]; m.State != "running" || m.Run != 2 {
			t.Errorf("a is %+v", m)
		}
		for _, id := range []string{"a", "b"} {
			s.send(message.MemberGone{ID: id, Name: s.name(id)})
			s.root.StopFuture(s.members[id]).Wait()
		}
		if !s.there(s.record.env.ClosedRetention - 1) {
			t.Error("the actor ended before the retention after its second end was over")
		}
		if s.there(2) {
			t.Error("the actor is left after the retention")
		}
	})
}

// Each extension is reported, also if it changes nothing. An ended group waits for the actor that a process has now, and
// not for the one that the process had.
func TestExtendedGroup(t *testing.T) {
	onStageOf(t, supervision.Independent, func(s *stage) {
		s.root.StopFuture(s.members["a"]).Wait()
		synctest.Wait()
		next := s.spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		all := message.ExtendGroup{Members: []supervision.Member{{ID: "a"}, {ID: "b"}}, PIDs: map[string]*actor.PID{"a": next, "b": s.members["b"]}}
		for all.Serial = 1; all.Serial < 4; all.Serial++ {
			before := len(s.reports)
			if s.send(all); len(s.reports) == before {
				t.Errorf("extension %d was not reported", all.Serial)
			}
		}
		s.send(message.StopGroup{Reason: "enough"})
		s.members = all.PIDs
		for id := range s.members {
			s.send(message.MemberGone{ID: id, Name: s.name(id)})
		}
		s.root.StopFuture(s.members["b"]).Wait()
		if !s.there(time.Hour) {
			t.Error("the actor ended although a may come back")
		}
		s.root.StopFuture(next).Wait()
		if s.there(0) {
			t.Error("the actor is left after the retention and its processes")
		}
	})
}

// The group ignores late news of an actor that does not have the process any more.
func TestNewsOfAReplacedProcess(t *testing.T) {
	onStage(t, func(s *stage) {
		s.wants("a", supervision.Running)
		s.send(message.MemberReady{ID: "a", Name: "p-old", Run: 1})
		s.send(message.MemberEnded{ID: "a", Name: "p-old", Run: 1, End: supervision.End{Requested: true}})
		s.send(message.MemberGone{ID: "a", Name: "p-old"})
		s.wants("a")
		if m := s.last().Processes[0]; m.State != "running" || m.Ready {
			t.Errorf("a is %+v", m)
		}
	})
}

// Whoever names a stopped group keeps none of its memory.
func TestStoppedGroupIsCollected(t *testing.T) {
	e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}
	machine, err := supervision.NewGroup(supervision.OneForAll, supervision.Intensity{Restarts: 5, Period: time.Minute}, []supervision.Member{{ID: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	member, session := actor.NewPID("nonhost", "a"), actor.NewPID("nonhost", "session")
	record := &groupRecord{env: e, id: "g", name: "g-1", session: session, members: map[string]*actor.PID{"a": member}, group: machine}
	fake.CollectedOnceStopped(t, "a stopped group", e.Props(func() actor.Actor { return &group{groupRecord: record} }, env.Escalated), weak.Make(record))
}
