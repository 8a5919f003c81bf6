package session

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// group is a group of processes. supervision.Group decides; the session tells the processes, and everybody attached.
type group struct {
	// Made by inputs: group/start, announcements, news of the processes, group/stop and time.
	id, name string                 // the client's, and one that no other group has
	machine  *supervision.Group     // of all members, those that have left included
	members  map[string]groupMember // by process id
	result   []string               // the processes in the answer to group/start: in start order, and the added ones at the end
	tokens   []string               // startTokens, the newest last: at most maxTokens
	// left has the processes that have neither started nor gone. Nil: each group/start was answered, and everybody attached
	// was told. Until then no process gets an order.
	left  map[string]bool
	ended time.Time // zero: the group has not ended

	// Lost with the server, which says everything again. A process follows only orders with a higher serial than its last one.
	orders   map[string]supervision.MemberStatus `lost:"given again"` // the last to each process; cleared to repeat all
	serial   uint64                              // of the newest order
	state    supervision.GroupState              `lost:"told again"` // as everybody was told, like reason; "": nobody was told
	reason   string                              `lost:"told again"`
	failures supervision.Tally                   `lost:"of this server"` // panics over this group
	repairAt time.Time                           `lost:"of this server"` // zero: all is well since the last panic
	wakeAt   env.Alarm                           `lost:"of this server"`
}

// groupMember has the facts about a member that the machine does not need.
type groupMember struct{ actor, label string }

// end is the news of the end of the group. Its name alone is the news that its processes were announced.
func (g *group) end() string { return "end of " + g.name }

// groupDue is the session's own timer: something is due in the group with the name.
type groupDue struct{ name string }

const (
	reasonStopped     = "stopped by request"
	reasonGroupFailed = "its group failed too often"
	reasonReplaced    = "another process has its id now"
	reasonActorFailed = "its actor failed too often"
	reasonLost        = "lost when the server was replaced"
)

// Bounds of a group. Every event in a group costs a look at each process and at each of its dependencies.
const (
	maxGroup   = 1000   // processes
	maxDepends = 10_000 // dependencies of all processes together
	maxTokens  = 64     // remembered startTokens
)

// startGroup handles group/start. A request with a startToken of the group gets the same answer again.
func (s *session) startGroup(ctx actor.Context, r request, params protocol.GroupStartParams) (any, *protocol.Error) {
	g := s.groupIDs[params.GroupID]
	if g == nil || !slices.Contains(g.tokens, params.StartToken) {
		var err *protocol.Error
		if g, err = s.beginGroup(ctx, r, g, params); err != nil {
			return nil, s.refused(r, params.GroupID, err, params.Processes...)
		}
	} else if g.left == nil {
		return s.groupStarted(g), nil
	}
	return s.wait(r, g.name)
}

// beginGroup starts the processes of a group/start, in a new group or in old, which has the groupId. The error says why
// nothing was started.
func (s *session) beginGroup(ctx actor.Context, r request, old *group, params protocol.GroupStartParams) (*group, *protocol.Error) {
	if params.Extend && params.Strategy != protocol.Independent {
		return nil, protocol.WrongParams("extend is for the strategy %s only, and strategy is %q", protocol.Independent, cmp.Or(params.Strategy, protocol.OneForOne))
	}
	s.makeRoom(ctx, len(params.Processes))
	replaced, err := s.mayStartGroup(old, params)
	if err != nil {
		return nil, err
	}
	g := old
	if !old.lives() {
		g = &group{id: params.GroupID, name: message.NewName("g-"), members: make(map[string]groupMember), orders: make(map[string]supervision.MemberStatus)}
	}
	machine, err := machineOf(g, params)
	if err != nil {
		return nil, err
	}
	starts, err := s.newMembers(ctx, params)
	if err != nil {
		return nil, err
	}
	for _, p := range replaced {
		s.replace(ctx, p)
	}
	g.begin(machine, params, starts)
	if g != old {
		s.groups[g.name], s.groupIDs[g.id] = g, g // a former group with the id serves processes that are run again
	}
	for i, start := range starts {
		m := memberOf(params.Processes[i].ProcessID, start)
		m.Group = g.name
		s.processes.Add(m)
		s.tellOthers(ctx, []request{r}, message.ProcessStarting{ID: m.ID})
	}
	for i := range starts {
		s.ask(ctx, s.processes.Get(params.Processes[i].ProcessID))
	}
	return g, nil
}

// mayStartGroup returns the processes that give way to those of a group/start, or why the group/start is refused.
func (s *session) mayStartGroup(old *group, params protocol.GroupStartParams) (replaced []*members.Process, err *protocol.Error) {
	if err := cmp.Or(wireerr.BadName("groupId", params.GroupID), wireerr.BadName("startToken", params.StartToken)); err != nil {
		return nil, err
	}
	if n := len(params.Processes); n > maxGroup && !old.lives() {
		return nil, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "group %s has %d processes, the limit is %d", wireerr.Clip(params.GroupID), n, maxGroup)
	}
	switch {
	case old == nil:
	case !params.Extend:
		return nil, protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "group %s already exists", params.GroupID)
	case !old.lives():
	case old.machine.Strategy() != supervision.Independent:
		return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "group %s has the strategy %s, and extend is for the strategy %s only", params.GroupID, old.machine.Strategy(), protocol.Independent)
	case len(s.waiting[old.end()]) > 0 || old.is(supervision.GroupStopping):
		return nil, protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "group %s is stopping: extend it when it has ended", params.GroupID)
	}
	for _, p := range params.Processes {
		switch had := s.processes.Get(p.ProcessID); {
		case had == nil:
		case params.Extend && had.PID != nil && s.givesWay(had, old):
			replaced = append(replaced, had)
		default:
			return nil, notInGroup(p.ProcessID, errExists)
		}
	}
	if err := s.mayStart(len(params.Processes) - len(replaced)); err != nil {
		return nil, err
	}
	depends := 0
	for i := range params.Processes {
		depends += len(params.Processes[i].DependsOn)
	}
	if depends > maxDepends {
		return nil, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "the dependsOn of group %s have %d entries together, the limit is %d", wireerr.Clip(params.GroupID), depends, maxDepends)
	}
	return replaced, nil
}

// givesWay reports whether an extension of the group g may replace a process: the process has left g, or was in a group that clients
// cannot name any more.
func (s *session) givesWay(p *members.Process, g *group) bool {
	switch is := s.groups[p.Group]; {
	case p.Group == "":
		return false
	case is == nil || is != s.groupIDs[is.id]: // forgotten, or another group has its id
		return true
	default:
		return is == g && g.machine.Status(p.ID).State == supervision.Left
	}
}

// machineOf returns the machine of a group with the processes of a group/start: of g, extended, or of a new group.
func machineOf(g *group, params protocol.GroupStartParams) (machine *supervision.Group, wrong *protocol.Error) {
	var all []supervision.Member
	for _, p := range params.Processes {
		all = append(all, supervision.Member{ID: p.ProcessID, After: p.DependsOn, OnSuccess: p.Ready != nil && p.Ready.Exit})
	}
	intensity, wrong := policy.ParseIntensity("intensity", params.Intensity)
	if wrong != nil {
		return nil, wrong
	}
	if params.Strategy == protocol.Independent && params.Intensity != nil {
		return nil, protocol.WrongParams("intensity is not for the strategy independent, where the restart.intensity of each process counts: leave it out")
	}
	var err error
	if g.machine != nil {
		machine, err = g.machine.Extended(all)
	} else {
		machine, err = supervision.NewGroup(supervision.GroupStrategy(cmp.Or(params.Strategy, protocol.OneForOne)), intensity, all)
	}
	if err != nil {
		return nil, protocol.WrongParams("group %s: %v", wireerr.Clip(params.GroupID), err)
	}
	if n := len(machine.Order()); n > maxGroup {
		return nil, protocol.WrongParams("group %s would have %d processes, those that have left included, the limit is %d: stop the group, and start it again", wireerr.Clip(params.GroupID), n, maxGroup)
	}
	return machine, nil
}

// begin takes the processes of a group/start into the group.
func (g *group) begin(machine *supervision.Group, params protocol.GroupStartParams, starts []message.SpawnRequest) {
	if g.machine == nil {
		g.result = machine.Order()
	}
	g.machine = machine
	if g.left == nil {
		g.left = make(map[string]bool)
	}
	for i, p := range params.Processes {
		g.left[p.ProcessID] = true
		g.members[p.ProcessID] = groupMember{starts[i].Name, p.Label}
		delete(g.orders, p.ProcessID)
		if !slices.Contains(g.result, p.ProcessID) {
			g.result = append(slices.Clip(g.result), p.ProcessID) // an answer may have the old slice
		}
	}
	if params.StartToken != "" {
		g.tokens = append(g.tokens[max(0, len(g.tokens)+1-maxTokens):], params.StartToken)
	}
}

var errExists = protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "it already exists")

// newMembers prepares the processes of a group, in the order of params, or nothing.
func (s *session) newMembers(ctx actor.Context, params protocol.GroupStartParams) (starts []message.SpawnRequest, err *protocol.Error) {
	if err := policy.CheckGroupEnv(params.Processes); err != nil {
		return nil, err
	}
	places, err := s.env.Quotas.Start(s.from, len(params.Processes), time.Now())
	if err != nil {
		return nil, err
	}
	shares := make(process.Environments)
	for i, p := range params.Processes {
		of := s.processOptions(ctx, p, places[i])
		of.Group, of.GroupID, of.Shares, of.Independent = ctx.Self(), params.GroupID, shares, params.Strategy == protocol.Independent
		m, err := process.New(s.env, of)
		if err != nil {
			for _, m := range starts {
				m.Unused()
			}
			for _, p := range places {
				p.Leave()
			}
			return nil, notInGroup(p.ProcessID, err)
		}
		starts = append(starts, m)
	}
	return starts, nil
}

// notInGroup returns the error for a group whose process is refused with err.
func notInGroup(id string, err *protocol.Error) *protocol.Error {
	return err.Reword("process %s of the group: %s", wireerr.Clip(id), err.Message)
}

// replace frees the id of a process of a group, and ends whatever is left of the process.
func (s *session) replace(ctx actor.Context, p *members.Process) {
	s.tellAttached(ctx, message.ProcessRemoved{ID: p.ID, Reason: reasonReplaced})
	s.processes.Retire(p)
	ctx.Send(p.PID, message.Stop{Reason: reasonReplaced, Shutdown: -1})
}

// announced records that a process of a group can be asked, or has gone. After the last process, group/start is answered.
func (s *session) announced(ctx actor.Context, p *members.Process) {
	switch g := s.groups[p.Group]; {
	case g != nil:
		delete(g.left, p.ID)
		s.allAnnounced(ctx, g)
	case p.PID != nil && p.Group != "":
		ctx.Send(p.PID, message.Stop{Reason: reasonGroupFailed, Shutdown: -1})
	}
}

// leavesGroup tells the group of a process that the actor of the process has stopped, or was not spawned.
func (s *session) leavesGroup(ctx actor.Context, p *members.Process) {
	if p.PID == nil {
		s.announced(ctx, p)
	}
	s.inGroup(ctx, p, func(g *group, now time.Time) { g.machine.Gone(now, p.ID, reasonActorFailed, true) })
}

// allAnnounced answers group/start when all processes were announced, and tells everybody attached of the processes. It may be repeated.
func (s *session) allAnnounced(ctx actor.Context, g *group) {
	if g.left == nil || len(g.left) > 0 {
		return
	}
	started := s.groupStarted(g)
	for _, p := range started.Processes {
		s.tellOthers(ctx, s.waiting[g.name], message.ProcessAdded{Process: p})
	}
	s.answer(ctx, g.name, started, nil)
	s.env.At(ctx, env.GroupAnswered)
	g.left = nil
	s.decide(ctx, g, g.machine.Tick)
}

// groupStarted returns the answer to group/start, with the processes that are still there.
func (s *session) groupStarted(g *group) message.GroupStarted {
	started := message.GroupStarted{GroupStartResult: protocol.GroupStartResult{GroupID: g.id, Processes: g.result}}
	for _, id := range g.result {
		if p := s.processes.Get(id); p != nil && p.PID != nil && p.Group == g.name {
			started.Processes = append(started.Processes, message.ProcessRef{ID: id, PID: p.PID})
		}
	}
	return started
}

// decide tells the machine of a group an event, and has the decisions carried out. A panic harms no other group, and no process outside of
// this group: the session goes on, and asks the processes of the group for news that may be lost. A group that fails too often ends.
func (s *session) decide(ctx actor.Context, g *group, event func(now time.Time)) {
	now := time.Now()
	if s.env.Contain(ctx.Self(), "group "+g.id, func() {
		event(now)
		s.env.At(ctx, env.GroupDecided)
		if g.left == nil {
			s.tellGroup(ctx, g, now)
		}
	}) {
		return
	}
	n, exceeded := g.failures.Failed(now, s.env.Strategy.Intensity)
	if exceeded {
		s.groupFailed(ctx, g)
		return
	}
	g.repairAt = now.Add(s.env.Strategy.Backoff.Delay(n, rand.Float64()))
	g.wakeAt.SetTo(ctx, g.repairAt, groupDue{g.name})
}

// repair asks the processes of a group for everything that they have said, and has their orders repeated. It is an event for decide.
func (s *session) repair(ctx actor.Context, g *group) func(time.Time) {
	return func(now time.Time) {
		g.repairAt = time.Time{}
		clear(g.orders)
		for id, m := range g.members {
			switch p := s.processes.Find(m.actor); {
			case p == nil:
				g.machine.Gone(now, id, reasonActorFailed, true)
			case p.PID != nil:
				ctx.Send(p.PID, message.Report{})
			}
		}
		if len(s.waiting[g.end()]) > 0 && g.lives() {
			g.machine.Stop(now, reasonStopped)
		}
		g.machine.Tick(now)
	}
}

// groupDue does what is due in a group.
func (s *session) groupDue(ctx actor.Context, name string) {
	g := s.groups[name]
	if g == nil {
		return
	}
	g.wakeAt.Cancel() // tellGroup sets the alarm again, even for the same time: the clock may have been set back
	if g.repairAt.IsZero() {
		s.decide(ctx, g, g.machine.Tick)
	} else {
		s.decide(ctx, g, s.repair(ctx, g))
	}
}

// member takes news of a process for its group.
func (s *session) member(ctx actor.Context, m any) {
	switch m := m.(type) {
	case message.MemberReady:
		s.inGroup(ctx, s.processes.Find(m.Name), func(g *group, now time.Time) { g.machine.Ready(now, m.ID, m.Run) })
	case message.MemberEnded:
		s.inGroup(ctx, s.processes.Find(m.Name), func(g *group, now time.Time) {
			if m.Anew {
				g.machine.Forget(m.ID)
			}
			g.machine.Ended(now, m.ID, m.Run, m.End, m.Restart, rand.Float64())
		})
	case message.MemberGone:
		s.inGroup(ctx, s.processes.Find(m.Name), func(g *group, now time.Time) {
			g.machine.Gone(now, m.ID, cmp.Or(m.Reason, supervision.EndedByRequest), m.GivenUp)
		})
	case message.MemberRejoins:
		s.inGroup(ctx, s.processes.Find(m.Name), func(g *group, now time.Time) { g.machine.Rejoin(now, m.ID, m.N) })
	case message.MemberBack:
		s.inGroup(ctx, s.processes.Find(m.Name), func(g *group, _ time.Time) { delete(g.orders, m.ID) })
	}
}

// inGroup has the group of a process decide over an event. If another process has the id now, late news mean nothing. A nil p
// is a process that the session has forgotten.
func (s *session) inGroup(ctx actor.Context, p *members.Process, event func(*group, time.Time)) {
	if p == nil {
		return
	}
	if g := s.groups[p.Group]; g != nil && g.members[p.ID].actor == p.Name {
		s.decide(ctx, g, func(now time.Time) { event(g, now) })
	}
}

// tellGroup sends the new decisions of a group to its processes, tells everybody attached a new state, and forgets the group when its retention is
// over and no process can come back.
func (s *session) tellGroup(ctx actor.Context, g *group, now time.Time) {
	for _, id := range g.machine.Order() {
		p, st := s.processes.Find(g.members[id].actor), g.machine.Status(id)
		if st == g.orders[id] || p != nil && p.PID == nil { // an earlier server has left it, and its MemberBack has yet to come
			continue
		}
		g.orders[id] = st
		g.serial++
		if p != nil {
			ctx.Send(p.PID, message.Order{Serial: g.serial, Status: st})
			s.env.At(ctx, env.GroupOrdered)
		}
	}
	state, reason := g.machine.State()
	if state != g.state || reason != g.reason {
		if state != g.state && g == s.groupIDs[g.id] {
			s.tellAttached(ctx, message.GroupChanged{GroupChangedNotification: protocol.GroupChangedNotification{GroupID: g.id, State: string(state), Reason: reason}})
		}
		s.env.At(ctx, env.GroupStateTold)
		s.events.Put(protocol.ServerEvent{Kind: protocol.ServerGroup, GroupID: g.id, State: string(state), Reason: reason})
		g.state, g.reason = state, reason
	}
	wake := g.machine.Wake()
	if state != supervision.GroupEnded {
		g.ended = time.Time{}
	} else {
		s.answer(ctx, g.end(), protocol.Empty{}, nil)
		if g.ended.IsZero() {
			g.ended = now
		}
		if wake = g.ended.Add(max(s.env.ClosedRetention, 0)); !now.Before(wake) {
			if wake = (time.Time{}); !s.anyLeft(g) {
				s.forgetGroup(g)
				return
			}
		}
	}
	if !g.repairAt.IsZero() {
		wake = g.repairAt
	}
	g.wakeAt.SetTo(ctx, wake, groupDue{g.name})
}

// anyLeft reports whether the actor of some process of a group is there.
func (s *session) anyLeft(g *group) bool {
	for _, m := range g.members {
		if s.processes.Find(m.actor) != nil {
			return true
		}
	}
	return false
}

// forgetGroup takes a group from the table.
func (s *session) forgetGroup(g *group) {
	g.wakeAt.Cancel()
	delete(s.groups, g.name)
	if s.groupIDs[g.id] == g {
		delete(s.groupIDs, g.id)
	}
}

// groupFailed gives a group up. Without orders its processes are of no use, and end. processStarted ends processes that start later.
func (s *session) groupFailed(ctx actor.Context, g *group) {
	s.env.Log.Error("group failed too often, its processes are killed", "session", s.id, "group", g.id)
	err := protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "group %s: %s, and its processes are killed", g.id, reasonGroupFailed)
	s.answer(ctx, g.name, nil, err)
	s.answer(ctx, g.end(), nil, err)
	for p := range s.processes.All() {
		if p.Group == g.name && p.PID != nil {
			ctx.Send(p.PID, message.Stop{Reason: reasonGroupFailed, Shutdown: -1})
		}
	}
	s.forgetGroup(g)
}

// stopGroup handles group/stop. The answer comes when the group has ended.
func (s *session) stopGroup(ctx actor.Context, r request, params protocol.GroupStopParams) (any, *protocol.Error) {
	g := s.groupIDs[params.GroupID]
	if g == nil {
		return nil, protocol.Errorf(protocol.KindUnknownGroup, protocol.CodeInvalidRequest, "unknown group id %s", wireerr.Clip(params.GroupID))
	}
	if n := len(s.waiting[g.end()]); n >= repeat.MaxAnswers && !slices.ContainsFunc(s.waiting[g.end()], r.same) {
		r.repeats = nil // no repetition gets this answer
		s.reply(ctx, r, nil, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "%d requests wait for the end of group %s: wait for their answers", n, wireerr.Clip(params.GroupID)))
		return later{}, nil
	}
	s.wait(r, g.end()) // first: if the group has ended, there is the answer
	s.decide(ctx, g, func(now time.Time) {
		if g.lives() { // otherwise tellGroup answers, and the group keeps the reason of its end
			g.machine.Stop(now, reasonStopped)
		}
	})
	return later{}, nil
}

func (g *group) is(state supervision.GroupState) bool {
	is, _ := g.machine.State()
	return is == state
}

// lives reports whether there is a group that has not ended.
func (g *group) lives() bool { return g != nil && !g.is(supervision.GroupEnded) }

// info describes the group to clients.
func (g *group) info() protocol.GroupInfo {
	state, reason := g.machine.State()
	info := protocol.GroupInfo{GroupID: g.id, Strategy: protocol.GroupStrategy(g.machine.Strategy()), State: string(state), Reason: reason, Restarts: g.machine.Restarts()}
	for _, id := range g.machine.Order() {
		st := g.machine.Status(id)
		info.Processes = append(info.Processes, protocol.GroupMember{ProcessID: id, State: st.State.String(), Run: st.Run, Ready: st.Ready, Reason: st.Reason, Label: g.members[id].label})
	}
	return info
}

func (s *session) listGroups() protocol.GroupListResult {
	result := protocol.GroupListResult{Groups: []protocol.GroupInfo{}}
	for _, id := range slices.Sorted(maps.Keys(s.groupIDs)) {
		result.Groups = append(result.Groups, s.groupIDs[id].info())
	}
	return result
}
