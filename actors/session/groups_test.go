package session

import (
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// stage is a session with a group, in fake time. The test plays the owner and the processes "a" and "b" of the group; "b" starts after
// "a". After synctest.Wait, the test may read every field.
type stage struct {
	t       *testing.T
	root    *actor.RootContext
	session *actor.PID
	record  *sessionRecord
	group   *group
	fault   func(any) // at each Place; nil: none

	mu      sync.Mutex                 // the processes and the owner run at the same time
	orders  map[string][]message.Order // since the last call of wants, by the process
	serials map[string]uint64          // of the newest Order to each process
	stops   map[string]message.Stop
	asked   int // Reports to the processes
	states  []string
	replies []message.Reply
}

func onStage(t *testing.T, test func(s *stage)) { onStageOf(t, supervision.OneForAll, test) }

func onStageOf(t *testing.T, strategy supervision.GroupStrategy, test func(s *stage)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		s := &stage{t: t, root: system.Root, orders: make(map[string][]message.Order), serials: make(map[string]uint64), stops: make(map[string]message.Stop)}
		owner := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				s.mu.Lock()
				defer s.mu.Unlock()
				switch m := ctx.Message().(type) {
				case message.GroupChanged:
					s.states = append(s.states, m.State)
				case message.Reply:
					s.replies = append(s.replies, m)
				}
			})
		})
		e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}
		e.Strategy = &supervision.Strategy{Intensity: supervision.Intensity{Restarts: 2, Period: time.Minute}, Backoff: supervision.Backoff{Initial: time.Second}}
		e.Faults = faults.New(func(_ *actor.PID, m any) {
			if s.fault != nil {
				s.fault(m)
			}
		}, nil)
		machine, err := supervision.NewGroup(strategy, supervision.Intensity{Restarts: 5, Period: time.Minute},
			[]supervision.Member{{ID: "a"}, {ID: "b", After: []string{"a"}}})
		if err != nil {
			t.Fatal(err)
		}
		s.record = newRecord(e, Options{ID: "s", Life: lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), First: message.AttachRequest{Sender: owner}, Registry: owner})
		s.group = &group{id: "g", name: "g-1", machine: machine, members: make(map[string]groupMember), orders: make(map[string]supervision.MemberStatus)}
		s.record.groups["g-1"], s.record.groupIDs["g"] = s.group, s.group
		for _, id := range []string{"a", "b"} {
			pid := spawn(func() actor.Actor {
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
					case message.Stop:
						s.stops[id] = m
					}
				})
			})
			p := &members.Process{ID: id, Name: message.LastName(pid), PID: pid, Group: "g-1"}
			s.record.processes.Add(p)
			s.group.members[id] = groupMember{actor: p.Name}
		}
		s.session = spawn(func() actor.Actor { return &session{s.record} })
		s.send(groupDue{"g-1"}) // the first Tick
		test(s)
	})
}

func (s *stage) send(m any) {
	s.root.Send(s.session, m)
	synctest.Wait()
}

func (s *stage) ready(id string) { s.send(message.MemberReady{ID: id, Name: s.name(id), Run: 1}) }
func (s *stage) gone(id string)  { s.send(message.MemberGone{ID: id, Name: s.name(id)}) }

// end ends the actor of a process.
func (s *stage) end(id string) { s.send(message.Gone{Who: actor.NewPID("", s.name(id))}) }

// there reports whether the group is there after a while.
func (s *stage) there(after time.Duration) bool {
	time.Sleep(after)
	s.root.RequestWithCustomSender(s.session, message.Request{Params: message.GroupListRequest{}}, s.record.registry)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.replies) - 1
	list := s.replies[last].Result.(protocol.GroupListResult)
	s.replies = s.replies[:last]
	return len(list.Groups) > 0
}

// name returns the name of the actor of a process.
func (s *stage) name(id string) string { return s.group.members[id].actor }

// wants checks the states in the orders that a process got since the last call.
func (s *stage) wants(id string, want ...supervision.MemberState) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
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

// told checks the states of the group that the owner was told since the last call.
func (s *stage) told(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.states, want) {
		s.t.Errorf("the owner was told %q, want %q", s.states, want)
	}
	s.states = nil
}

// A process starts when the processes before it are ready, and the owner hears of each step, once.
func TestOrdersFollowReadiness(t *testing.T) {
	onStage(t, func(s *stage) {
		s.wants("a", supervision.Running)
		s.wants("b") // it waits without an order
		s.told("starting")
		for range 2 {
			s.ready("a")
		}
		s.wants("a", supervision.Running) // which says that a is ready
		s.wants("b", supervision.Running)
		s.told()
		s.ready("b")
		s.told("ready")
		want := protocol.GroupInfo{GroupID: "g", Strategy: protocol.OneForAll, State: "ready", Processes: []protocol.GroupMember{{ProcessID: "a", State: "running", Run: 1, Ready: true}, {ProcessID: "b", State: "running", Run: 1, Ready: true}}}
		if got := s.group.info(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		clear(s.orders)
		s.send(message.MemberBack{ID: "b", Name: s.name("b")}) // its actor has failed
		s.wants("a")
		s.wants("b", supervision.Running)
	})
}

// As long as a group/start has no answer, no process gets an order, and nobody is told a state. Then the orders come.
func TestOrdersWaitForTheAnswer(t *testing.T) {
	onStage(t, func(s *stage) {
		clear(s.orders)
		s.states = nil
		s.group.left = map[string]bool{"b": true}
		s.ready("a")
		s.stop(7)
		s.wants("a")
		s.wants("b")
		s.told()
		b := s.record.processes.Get("b")
		pid := b.PID
		b.PID = nil
		s.send(message.ProcessStarted{ID: "b", Name: b.Name, Ref: message.ProcessRef{ID: "b", PID: pid}})
		s.wants("a", supervision.Running) // which says that a is ready
		s.wants("b", supervision.Ending)  // of a run that has not begun
		s.told("stopping")
	})
}

// A stopped group ends its processes in the reverse order, and is forgotten when its retention is over and no process can come
// back. group/stop is answered when the last process has ended.
func TestStoppedGroupEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		s.ready("a")
		s.ready("b")
		clear(s.orders)
		s.stop(7)
		s.wants("a")
		s.wants("b", supervision.Ending)
		s.gone("b")
		s.wants("a", supervision.Ending)
		if len(s.replies) > 0 {
			t.Errorf("answered too early: %+v", s.replies)
		}
		s.gone("a")
		if info := s.group.info(); info.State != "ended" || info.Reason != reasonStopped || info.Processes[0].Reason != supervision.EndedByRequest {
			t.Errorf("%+v", info)
		}
		s.stop(8)
		if len(s.replies) != 2 || s.replies[0].Token != 7 || s.replies[1].Token != 8 || s.replies[1].Err != nil {
			t.Errorf("answered with %+v", s.replies)
		}
		s.told("starting", "ready", "stopping", "ended")
		if !s.there(s.record.env.ClosedRetention-1) || !s.there(time.Hour) {
			t.Error("the group was forgotten although its processes may come back")
		}
		s.end("a")
		if !s.there(0) {
			t.Error("the group was forgotten although b may come back")
		}
		s.record.processes.Retire(s.record.processes.Get("b")) // a retired process is there until its actor stops
		s.send(groupDue{"g-1"})
		if !s.there(0) {
			t.Error("the group was forgotten although the actor of b is there")
		}
		s.end("b")
		if s.there(0) {
			t.Error("the group is left after the retention and its processes")
		}
	})
}

// stop sends a group/stop of the owner.
func (s *stage) stop(token uint64) { s.stopAs("", token) }

// stopAs sends a group/stop of the owner with a requestId; "": none.
func (s *stage) stopAs(id string, token uint64) {
	params := protocol.GroupStopParams{GroupID: "g", Repeatable: protocol.Repeatable{RequestID: id}}
	s.root.RequestWithCustomSender(s.session, message.Request{Token: token, Params: params}, s.record.registry)
	synctest.Wait()
}

// Of a group/stop that is repeated while it waits, only the repetition is answered. A later repetition gets the same answer.
func TestRepeatedStopOfAGroup(t *testing.T) {
	onStage(t, func(s *stage) {
		s.stopAs("r", 1)
		s.stopAs("other", 2)
		s.stopAs("r", 3)
		for _, id := range []string{"a", "b"} {
			s.gone(id)
			s.end(id)
		}
		s.there(time.Hour)
		s.stopAs("r", 4) // the group is forgotten
		s.stopAs("new", 5)
		var tokens []uint64
		for _, r := range s.replies {
			if (r.Err == nil) != (r.Token < 5) {
				t.Errorf("%+v", r)
			}
			tokens = append(tokens, r.Token)
		}
		if want := []uint64{2, 3, 4, 5}; !slices.Equal(tokens, want) {
			t.Errorf("%v are answered, want %v", tokens, want)
		}
	})
}

// An ended group stays for the retention, also if its processes are gone before.
func TestEndedGroupIsKept(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, id := range []string{"a", "b"} {
			s.gone(id)
			s.end(id)
		}
		if !s.there(s.record.env.ClosedRetention - 1) {
			t.Error("the group was forgotten before its retention was over")
		}
		if s.there(2) {
			t.Error("the group is left after its retention")
		}
	})
}

// A session that is stopped leaves no timer of a group.
func TestStoppedSessionLeavesNoTimerOfAGroup(t *testing.T) {
	onStage(t, func(s *stage) {
		s.gone("a")
		s.gone("b")
		if !s.group.wakeAt.IsSet() {
			t.Error("no timer is set while an ended group is kept")
		}
		s.root.StopFuture(s.session).Wait()
		if s.group.wakeAt.IsSet() {
			t.Error("a timer is set after the session")
		}
	})
}

// The end of a process's actor is the end of the process, after everything that the process said.
func TestActorOfAProcessFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.ready("a")
		s.end("b")
		want := protocol.GroupMember{ProcessID: "b", State: "left", Run: 1, Reason: reasonActorFailed}
		if got := s.group.info().Processes[1]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A process that has left comes back, also to a group that has ended, and to one that gave its id to another. The order that
// follows says so.
func TestProcessComesBack(t *testing.T) {
	onStage(t, func(s *stage) {
		s.ready("a")
		s.gone("a")
		s.gone("b")
		time.Sleep(s.record.env.ClosedRetention + 1)
		s.told("starting", "ended")
		clear(s.orders)
		s.send(message.MemberRejoins{ID: "a", Name: "p-old", N: 1})
		s.wants("a")
		s.send(message.MemberRejoins{ID: "a", Name: s.name("a"), N: 1})
		if all := s.orders["a"]; len(all) != 1 || all[0].Status.Rejoined != 1 || all[0].Status.State != supervision.Running || all[0].Status.Run != 2 {
			t.Errorf("ordered %+v", all)
		}
		s.told("starting")
		s.gone("a")
		s.record.groupIDs["g"] = new(group) // another group has the id: only the processes know this one
		s.states = nil
		clear(s.orders)
		s.send(message.MemberRejoins{ID: "a", Name: s.name("a"), N: 2})
		s.wants("a", supervision.Running)
		s.told()
		s.record.groupIDs["g"] = s.group
		for _, id := range []string{"a", "b"} {
			s.gone(id)
			s.end(id)
		}
		if !s.there(s.record.env.ClosedRetention - 1) {
			t.Error("the group was forgotten before the retention after its last end was over")
		}
		if s.there(2) {
			t.Error("the group is left after the retention")
		}
	})
}

// The answer to an extension has the new processes at the end, also if others start after them.
func TestAnswerToAnExtension(t *testing.T) {
	g := &group{members: make(map[string]groupMember)}
	begin := func(all ...supervision.Member) {
		t.Helper()
		var params protocol.GroupStartParams
		for _, m := range all {
			params.Processes = append(params.Processes, protocol.ProcessStartParams{ProcessID: m.ID, DependsOn: m.After})
		}
		params.Strategy = protocol.Independent
		machine, err := machineOf(g, params)
		if err != nil {
			t.Fatal(err)
		}
		g.begin(machine, params, make([]message.SpawnRequest, len(all)))
	}
	begin(supervision.Member{ID: "web", After: []string{"db"}}, supervision.Member{ID: "db"})
	begin(supervision.Member{ID: "db", After: []string{"disk"}}, supervision.Member{ID: "disk"})
	if want := []string{"db", "web", "disk"}; !slices.Equal(g.result, want) {
		t.Errorf("the answer has %q, want %q", g.result, want)
	}
	if want := []string{"disk", "db", "web"}; !slices.Equal(g.machine.Order(), want) {
		t.Errorf("the processes start in the order %q, want %q", g.machine.Order(), want)
	}
}

// The group ignores late news of an actor that does not have the process any more, and does not wait for it.
func TestNewsOfAReplacedProcess(t *testing.T) {
	onStageOf(t, supervision.Independent, func(s *stage) {
		old := s.record.processes.Get("a")
		s.gone("a")
		s.record.processes.Retire(old)
		next := &members.Process{ID: "a", Name: "p-new", PID: old.PID, Group: "g-1"}
		s.record.processes.Add(next)
		machine, err := s.group.machine.Extended([]supervision.Member{{ID: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		s.group.begin(machine, protocol.GroupStartParams{Processes: []protocol.ProcessStartParams{{ProcessID: "a"}}}, []message.SpawnRequest{{Spawn: message.Spawn{Name: "p-new"}}})
		s.group.left = nil
		s.send(groupDue{"g-1"})
		clear(s.orders)
		s.send(message.MemberReady{ID: "a", Name: old.Name, Run: 1})
		s.send(message.MemberEnded{ID: "a", Name: old.Name, Run: 1, End: supervision.End{Requested: true}})
		s.send(message.MemberGone{ID: "a", Name: old.Name})
		s.wants("a")
		if m := s.group.info().Processes[0]; m.State != "running" || m.Ready {
			t.Errorf("a is %+v", m)
		}
	})
}

// A panic over a group harms nobody else. The processes of the group are asked for news that may be lost, a group/stop is not lost, and
// a group that fails too often ends.
func TestGroupFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.ready("a")
		s.ready("b")
		clear(s.orders)
		s.fault = func(any) { s.fault = nil; panic("once") }
		s.stop(7)
		s.wants("b")
		time.Sleep(time.Second)
		synctest.Wait()
		if s.asked != 2 {
			t.Errorf("%d processes were asked to report, want 2", s.asked)
		}
		s.wants("a", supervision.Running)
		s.wants("b", supervision.Ending)

		s.fault = func(m any) {
			if m == env.GroupDecided {
				panic("always")
			}
		}
		s.end("b")
		if s.there(time.Hour) {
			t.Error("the group is left")
		}
		if len(s.replies) != 1 || s.replies[0].Token != 7 || s.replies[0].Err == nil {
			t.Errorf("answered with %+v", s.replies)
		}
		if stop := s.stops["a"]; stop.Reason != reasonGroupFailed || stop.Shutdown >= 0 {
			t.Errorf("a was told %+v", stop)
		}
	})
}
