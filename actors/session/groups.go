package session

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/group"
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

// ensemble is a group in the session's table.
type ensemble struct {
	name    string              // of the actor
	tokens  []string            // startTokens, the newest last: at most maxTokens
	start   *message.Spawn      // nil once the actor was asked for
	watched bool                // GroupSpawned has come
	info    protocol.GroupInfo  // of the last GroupReport
	members message.ExtendGroup // all of them, those that have left included
	// extended: members is not what the actor began with. The actor gets members once all are announced.
	extended bool
	told     bool                      // a GroupReport has come
	result   protocol.GroupStartResult // the answer to group/start
	left     map[string]bool           // by id: processes that have neither started nor gone
	asked    []request                 // group/start without an answer; empty once announced
	// announced: left is empty, every group/start was answered, and everybody attached was told.
	announced bool
	stopping  bool          // a group/stop has come
	stops     []stopRequest // without an answer; empty once the group has ended
}

// stopRequest is a group/stop that waits for the end of its group.
type stopRequest struct {
	request
	params protocol.GroupStopParams
}

const (
	reasonStopped     = "stopped by request"
	reasonGroupFailed = "the actor of its group failed too often"
)

// Bounds of a group. Every event in a group costs a look at each process and at each of its dependencies.
const (
	maxGroup   = 1000   // processes
	maxDepends = 10_000 // dependencies of all processes together
	maxTokens  = 64     // remembered startTokens
)

// startGroup handles group/start. A request with the startToken of a group gets the same answer again.
func (s *session) startGroup(ctx actor.Context, r request, params protocol.GroupStartParams) {
	if g := s.groups[params.GroupID]; g != nil && slices.Contains(g.tokens, params.StartToken) {
		if len(g.left) > 0 {
			g.asked = append(g.asked, r)
		} else {
			ctx.Send(r.Sender, message.Reply{Token: r.Token, Result: s.groupStarted(g)})
		}
		return
	}
	refuse := func(err *protocol.Error) {
		s.recordRefused(r.Sender, params.GroupID, err, params.Processes...)
		ctx.Send(r.Sender, message.Reply{Token: r.Token, Err: err})
	}
	if params.Extend && params.Strategy != protocol.Independent {
		refuse(protocol.WrongParams("extend is for the strategy %s only, and strategy is %q", protocol.Independent, cmp.Or(params.Strategy, protocol.OneForOne)))
		return
	}
	s.makeRoom(ctx, len(params.Processes))
	var replaced []*members.Process
	if params.Extend {
		if g := s.groups[params.GroupID]; g != nil && g.info.State != string(supervision.GroupEnded) {
			if err := s.extendGroup(ctx, r, g, params); err != nil {
				refuse(err)
			}
			return
		}
		replaced = s.givesWay(params)
	}
	group, starts, err := s.newGroup(ctx, params, replaced)
	if err != nil {
		refuse(err)
		return
	}
	s.forgetGroup(ctx, params.GroupID, replaced)
	g := &ensemble{
		name:    group.Start.Name,
		info:    group.Info,
		members: group.Extended,
		asked:   []request{r},
		result:  protocol.GroupStartResult{GroupID: params.GroupID, Processes: group.Order},
		left:    make(map[string]bool),
		start:   &group.Start,
	}
	g.startedWith(params.StartToken)
	s.groups[params.GroupID] = g
	s.groupIDs[g.name] = params.GroupID
	s.addMembers(ctx, r, g, params, starts)
	s.askGroup(ctx, g)
}

// startedWith remembers the startToken of a group/start that has begun or extended the group.
func (g *ensemble) startedWith(token string) {
	if token == "" {
		return
	}
	if len(g.tokens) == maxTokens {
		g.tokens = slices.Delete(g.tokens, 0, 1)
	}
	g.tokens = append(g.tokens, token)
}

// addMembers puts processes of a group into the table, and has their actors spawned.
func (s *session) addMembers(ctx actor.Context, r request, g *ensemble, params protocol.GroupStartParams, starts []message.SpawnRequest) {
	for i := range starts {
		g.left[params.Processes[i].ProcessID] = true
	}
	for i, start := range starts {
		m := memberOf(params.Processes[i].ProcessID, start)
		m.Group = g.name
		s.processes.Add(m)
		s.tellStarting(ctx, r, m.ID)
	}
	for i := range starts {
		s.ask(ctx, s.processes.Get(params.Processes[i].ProcessID))
	}
}

// askGroup has the actor of a group spawned, after the actors of its processes. Repeating askGroup does nothing.
func (s *session) askGroup(ctx actor.Context, g *ensemble) {
	s.env.At(ctx, env.GroupTabled)
	if g.start != nil {
		ctx.Request(s.supervisor, *g.start)
		g.start = nil
	}
}

// newGroup prepares a group and all its processes, in the order of params, or nothing. The processes in replaced give way.
func (s *session) newGroup(ctx actor.Context, params protocol.GroupStartParams, replaced []*members.Process) (prepared group.Prepared, starts []message.SpawnRequest, err *protocol.Error) {
	if err := s.mayStartGroup(params, len(replaced)); err != nil {
		return group.Prepared{}, nil, err
	}
	for _, p := range params.Processes {
		if old := s.processes.Get(p.ProcessID); old != nil && !slices.Contains(replaced, old) {
			return group.Prepared{}, nil, notInGroup(p.ProcessID, errExists)
		}
	}
	o := group.Options{Name: message.NewName("g-"), Params: params, Session: ctx.Self(), Events: s.events}
	starts, err = s.newMembers(ctx, o.Name, params, func(pids map[string]*actor.PID) (err *protocol.Error) {
		o.Members = pids
		prepared, err = group.New(s.env, o)
		return err
	})
	return prepared, starts, err
}

var errExists = protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "it already exists")

// newMembers prepares the processes of a group whose actor has the name, in the order of params, or nothing. check gets
// their actors, and may refuse them.
func (s *session) newMembers(ctx actor.Context, name string, params protocol.GroupStartParams, check func(map[string]*actor.PID) *protocol.Error) (starts []message.SpawnRequest, err *protocol.Error) {
	if err := policy.CheckGroupEnv(params.Processes); err != nil {
		return nil, err
	}
	places, err := s.env.Quotas.Start(s.from, len(params.Processes), time.Now())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, m := range starts {
			m.Unused()
		}
		for _, p := range places {
			p.Leave()
		}
	}()
	pids, shares := make(map[string]*actor.PID), make(process.Environments)
	for i, p := range params.Processes {
		of := s.processOptions(ctx, p, places[i])
		of.Group, of.GroupID, of.Shares, of.Independent = s.processPID(name), params.GroupID, shares, params.Strategy == protocol.Independent
		m, err := process.New(s.env, of)
		if err != nil {
			return starts, notInGroup(p.ProcessID, err)
		}
		pids[p.ProcessID] = s.processPID(m.Name)
		starts = append(starts, m)
	}
	return starts, check(pids)
}

// notInGroup returns the error for a group whose process is refused with err.
func notInGroup(id string, err *protocol.Error) *protocol.Error {
	return err.Reword("process %s of the group: %s", wireerr.Clip(id), err.Message)
}

// mayStartGroup refuses a group that exists, or is too large. The group of an extension that comes here has ended, and
// so many processes give way.
func (s *session) mayStartGroup(params protocol.GroupStartParams, replaced int) *protocol.Error {
	if err := cmp.Or(wireerr.BadName("groupId", params.GroupID), wireerr.BadName("startToken", params.StartToken)); err != nil {
		return err
	}
	if n := len(params.Processes); n > maxGroup {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "group %s has %d processes, the limit is %d", wireerr.Clip(params.GroupID), n, maxGroup)
	}
	if s.groups[params.GroupID] != nil && !params.Extend {
		return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "group %s already exists", params.GroupID)
	}
	if err := s.mayStart(len(params.Processes) - replaced); err != nil {
		return err
	}
	return mayDepend(params)
}

// mayDepend refuses too many dependencies in one request.
func mayDepend(params protocol.GroupStartParams) *protocol.Error {
	depends := 0
	for i := range params.Processes {
		depends += len(params.Processes[i].DependsOn)
	}
	if depends > maxDepends {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "the dependsOn of group %s have %d entries together, the limit is %d", wireerr.Clip(params.GroupID), depends, maxDepends)
	}
	return nil
}

// announced records that a process of a group can be asked, or has gone. After the last process,
// group/start is answered.
func (s *session) announced(ctx actor.Context, id, name string) {
	g := s.groups[s.groupIDs[name]]
	if g == nil || g.name != name {
		s.endMembers(ctx, name) // the group has gone before its processes had started
		return
	}
	delete(g.left, id)
	s.allAnnounced(ctx, g)
}

// allAnnounced answers group/start when all processes were announced, and tells everybody attached of the
// processes. It may be repeated.
func (s *session) allAnnounced(ctx actor.Context, g *ensemble) {
	if len(g.left) > 0 || g.announced {
		return
	}
	told := make(map[message.Key]bool)
	for _, r := range g.asked {
		told[message.KeyOf(r.Sender)] = true
		ctx.Send(r.Sender, message.Reply{Token: r.Token, Result: s.groupStarted(g)})
	}
	for _, pid := range s.attached() {
		if told[message.KeyOf(pid)] {
			continue
		}
		for _, p := range s.groupStarted(g).Processes {
			ctx.Send(pid, message.ProcessAdded{Process: p})
		}
	}
	s.env.At(ctx, env.GroupAnswered)
	g.asked, g.announced = nil, true
	s.tellMembers(ctx, g)
}

// groupStarted returns the answer to group/start, with the processes that are still there.
func (s *session) groupStarted(g *ensemble) message.GroupStarted {
	started := message.GroupStarted{GroupStartResult: g.result}
	for _, id := range g.result.Processes {
		if p := s.processes.Get(id); p != nil && p.PID != nil && p.Group == g.name {
			started.Processes = append(started.Processes, message.ProcessRef{ID: id, PID: p.PID})
		}
	}
	return started
}

// notAnnounced records that a process has gone before it was announced.
func (s *session) notAnnounced(ctx actor.Context, p *members.Process) {
	if p.Group != "" && p.PID == nil {
		s.announced(ctx, p.ID, p.Group)
	}
}

// stopGroup handles group/stop. The answer comes when the group has ended.
func (s *session) stopGroup(ctx actor.Context, m message.Request, params protocol.GroupStopParams) {
	if a, ok := s.answers.To(params); ok {
		ctx.Respond(message.Reply{Token: m.Token, Result: a.Result, Err: a.Err}) // the client repeats a request after a cut
		return
	}
	g := s.groups[params.GroupID]
	if g == nil {
		reply := message.Reply{Token: m.Token, Err: protocol.Errorf(protocol.KindUnknownGroup, protocol.CodeInvalidRequest, "unknown group id %s", wireerr.Clip(params.GroupID))}
		s.answers.Add(params, reply.Result, reply.Err)
		ctx.Respond(reply)
		return
	}
	// If a client repeats a request that still waits, only the repetition is answered.
	g.stops = slices.DeleteFunc(g.stops, func(r stopRequest) bool { return r.params == params && params.RequestID != "" })
	if len(g.stops) >= repeat.MaxAnswers {
		ctx.Respond(m.Failed(protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "%d requests wait for the end of group %s: wait for their answers", len(g.stops), wireerr.Clip(params.GroupID))))
		return
	}
	g.stopping = true
	g.stops = append(g.stops, stopRequest{request{Sender: ctx.Sender(), Token: m.Token}, params})
	s.stopNow(ctx, g)
}

// stopNow answers every group/stop if the group has ended, and otherwise has the group stop.
func (s *session) stopNow(ctx actor.Context, g *ensemble) {
	switch {
	case !g.stopping:
	case g.info.State == string(supervision.GroupEnded):
		s.stopped(ctx, g, nil)
		g.stopping = false // a process may come back
	case g.told: // before that the actor may not be there: groupReport calls stopNow again
		ctx.Send(s.processPID(g.name), message.StopGroup{Reason: reasonStopped})
	}
}

// stopped answers every group/stop of a group.
func (s *session) stopped(ctx actor.Context, g *ensemble, err *protocol.Error) {
	for _, r := range g.stops {
		reply := replyOf(r.Token, err)
		s.answers.Add(r.params, reply.Result, reply.Err)
		ctx.Send(r.Sender, reply)
	}
	g.stops = nil
}

// replyOf returns the Reply to a request without a result.
func replyOf(token uint64, err *protocol.Error) message.Reply {
	if err != nil {
		return message.Reply{Token: token, Err: err}
	}
	return message.Reply{Token: token, Result: protocol.Empty{}}
}

// dropStops forgets every group/stop of an actor that has gone, except requests with a requestId: their
// answers are remembered, for clients who repeat them.
func (s *session) dropStops(gone *actor.PID) {
	for _, g := range s.groups {
		g.stops = slices.DeleteFunc(g.stops, func(r stopRequest) bool { return r.Sender.Equal(gone) && r.params.RequestID == "" })
	}
}

func (s *session) listGroups(ctx actor.Context, m message.Request) {
	result := protocol.GroupListResult{Groups: []protocol.GroupInfo{}}
	for _, g := range s.groups {
		result.Groups = append(result.Groups, g.info)
	}
	slices.SortFunc(result.Groups, func(a, b protocol.GroupInfo) int { return strings.Compare(a.GroupID, b.GroupID) })
	ctx.Respond(message.Reply{Token: m.Token, Result: result})
}

// groupReport takes the state of a group, and tells everybody attached if it has changed.
func (s *session) groupReport(ctx actor.Context, m message.GroupReport) {
	g := s.groups[m.Info.GroupID]
	if g == nil || g.name != m.Name || m.Extended < g.members.Serial {
		return // of another group with the id, or of before an extension: another report follows
	}
	first, changed := !g.told, g.info.State != m.Info.State
	if first || changed {
		s.tellAttached(ctx, message.GroupChanged{GroupChangedNotification: protocol.GroupChangedNotification{GroupID: m.Info.GroupID, State: m.Info.State, Reason: m.Info.Reason}})
	}
	s.env.At(ctx, env.GroupStateTold)
	g.told, g.info = true, m.Info
	if first || changed {
		s.stopNow(ctx, g)
	}
}

// groupGone forgets a group whose actor has stopped. If the group had not ended, its actor has failed too
// often: without orders its processes are of no use, and end.
func (s *session) groupGone(ctx actor.Context, name string) {
	id := s.groupIDs[name]
	g := s.groups[id]
	ended := g.info.State == string(supervision.GroupEnded)
	var err *protocol.Error
	if !ended {
		err = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "group %s: %s, and its processes are killed", id, reasonGroupFailed)
	}
	for _, r := range g.asked {
		ctx.Send(r.Sender, replyOf(r.Token, err))
	}
	s.stopped(ctx, g, err)
	if !ended {
		s.endMembers(ctx, name)
	}
	s.env.At(ctx, env.GroupGoneTold)
	delete(s.groups, id)
	delete(s.groupIDs, name)
}

// endMembers ends the processes of a failed group. processStarted ends processes that start later.
func (s *session) endMembers(ctx actor.Context, name string) {
	for p := range s.processes.All() {
		if p.Group == name && p.PID != nil {
			ctx.Send(p.PID, message.Stop{Reason: reasonGroupFailed, Shutdown: -1})
		}
	}
}
