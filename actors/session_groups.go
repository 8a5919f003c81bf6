package actors

import (
	"cmp"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"github.com/oklog/ulid/v2"
)

// ensemble is a group in the session's table.
type ensemble struct {
	name    string
	token   string       // startToken
	record  *groupRecord // nil once its actor has been asked for
	watched bool         // groupSpawned has come
	info    protocol.GroupInfo
	told    bool // info is the group's
	result  protocol.GroupStartResult
	left    map[string]bool // of its processes, by id: those that have not announced themselves
	asked   []request       // group/start, until then
	// Those who asked have been answered, and the others who are attached told.
	announced bool
	stopping  bool          // a group/stop has come
	stops     []stopRequest // group/stop, until it has ended
}

const (
	reasonStopped     = "stopped by request"
	reasonGroupFailed = "the actor of its group failed too often"
)

// maxGroup bounds the processes of a group: what happens to one of them costs a look at
// each, and at what each depends on: hence maxDepends, of all together.
const (
	maxGroup   = 1000
	maxDepends = 10_000
)

func (s *session) startGroup(ctx actor.Context, r request, params protocol.GroupStartParams) {
	if g := s.groups[params.GroupID]; g != nil && params.StartToken != "" && params.StartToken == g.token {
		if len(g.left) > 0 {
			g.asked = append(g.asked, r)
		} else {
			ctx.Send(r.sender, message.Reply{Token: r.token, Result: s.groupStarted(g)})
		}
		return
	}
	name := "g-" + ulid.Make().String()
	group, records, err := s.newGroup(ctx.Self(), name, params)
	if err != nil {
		ctx.Send(r.sender, message.Reply{Token: r.token, Err: err})
		return
	}
	s.groups[group.id] = &ensemble{
		name:   name,
		token:  params.StartToken,
		info:   protocol.GroupInfo{GroupID: group.id, Strategy: group.strategy, State: string(supervision.GroupStarting), Processes: []protocol.GroupMember{}},
		asked:  []request{r},
		result: protocol.GroupStartResult{GroupID: group.id, Processes: group.group.Order()},
		left:   make(map[string]bool),
		record: group,
	}
	s.groupIDs[name] = group.id
	for _, record := range records {
		s.groups[group.id].left[record.id] = true
	}
	for _, record := range records {
		s.add(record, &member{group: name})
	}
	for _, record := range records {
		s.ask(ctx, s.processes[record.id])
	}
	s.askGroup(ctx, s.groups[group.id])
}

// askGroup has the actor of a group spawned, once, behind those of its processes.
func (s *session) askGroup(ctx actor.Context, g *ensemble) {
	s.shared.At(ctx, env.GroupTabled)
	if g.record != nil {
		ctx.Request(s.supervisor, spawnGroup{g.record})
		g.record = nil
	}
}

// newGroup makes the record of a group, and those of its processes, if all of it is
// in order.
func (s *session) newGroup(self *actor.PID, name string, params protocol.GroupStartParams) (*groupRecord, []*processRecord, *protocol.Error) {
	if err := cmp.Or(wireerr.LongName("groupId", params.GroupID), wireerr.LongName("startToken", params.StartToken)); err != nil {
		return nil, nil, err
	}
	if n := len(params.Processes); n > maxGroup {
		return nil, nil, protocol.Errorf(protocol.CodeInvalidParams, "group %s has %d processes, the limit is %d", wireerr.Clip(params.GroupID), n, maxGroup)
	}
	if s.groups[params.GroupID] != nil {
		return nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "group %s already exists", params.GroupID)
	}
	if err := s.mayStart(len(params.Processes)); err != nil {
		return nil, nil, err
	}
	depends := 0
	for i := range params.Processes {
		depends += len(params.Processes[i].DependsOn)
	}
	if depends > maxDepends {
		return nil, nil, protocol.Errorf(protocol.CodeInvalidParams, "the dependsOn of group %s have %d entries together, the limit is %d", wireerr.Clip(params.GroupID), depends, maxDepends)
	}
	var records []*processRecord
	refused := true
	defer func() {
		for _, r := range records {
			if refused {
				r.release()
			}
		}
	}()
	envs := make(environments)
	members := make(map[string]*actor.PID)
	for _, p := range params.Processes {
		record, err := s.newMember(self, p, envs)
		if err != nil {
			return nil, nil, protocol.Errorf(err.Code, "process %s of the group: %s", wireerr.Clip(p.ProcessID), err.Message)
		}
		record.group, record.groupID = s.processPID(name), params.GroupID
		members[record.id] = s.processPID(record.name)
		records = append(records, record)
	}
	group, err := s.groupOf(self, name, params, members)
	refused = err != nil
	return group, records, err
}

func (s *session) newMember(self *actor.PID, p protocol.ProcessStartParams, envs environments) (*processRecord, *protocol.Error) {
	if s.processes[p.ProcessID] != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "it already exists")
	}
	if p.Restart != nil && p.Restart.Intensity != nil {
		return nil, errGroupIntensity
	}
	for _, id := range p.DependsOn {
		if err := wireerr.LongName("dependsOn", id); err != nil {
			return nil, err
		}
	}
	record, err := s.newProcess(self, p, envs)
	if err == nil && record.restart == nil {
		record.restart = &supervision.Restart{Policy: supervision.Temporary}
	}
	return record, err
}

// announced answers a group/start once all processes of the group can be asked, and
// tells all who are attached of them.
func (s *session) announced(ctx actor.Context, id, name string) {
	g := s.groups[s.groupIDs[name]]
	if g == nil || g.name != name {
		s.endMembers(ctx, name) // it was given up before they were there
		return
	}
	delete(g.left, id)
	s.allAnnounced(ctx, g)
}

// allAnnounced answers a group/start. May be repeated.
func (s *session) allAnnounced(ctx actor.Context, g *ensemble) {
	if len(g.left) > 0 || g.announced {
		return
	}
	told := make(map[message.Who]bool)
	for _, r := range g.asked {
		told[message.WhoOf(r.sender)] = true
		ctx.Send(r.sender, message.Reply{Token: r.token, Result: s.groupStarted(g)})
	}
	for _, pid := range s.attached() {
		if told[message.WhoOf(pid)] {
			continue
		}
		for _, p := range s.groupStarted(g).Processes {
			ctx.Send(pid, message.ProcessAdded{Process: p})
		}
	}
	s.shared.At(ctx, env.GroupAnswered)
	g.asked, g.announced = nil, true
}

// groupStarted are those of a group's processes that are still there.
func (s *session) groupStarted(g *ensemble) message.GroupStarted {
	started := message.GroupStarted{GroupStartResult: g.result}
	for _, id := range g.result.Processes {
		if p := s.processes[id]; p != nil && p.pid != nil && p.group == g.name {
			started.Processes = append(started.Processes, message.ProcessRef{ID: id, PID: p.pid})
		}
	}
	return started
}

// notAnnounced is for a process that is gone without having been there.
func (s *session) notAnnounced(ctx actor.Context, id string, p *member) {
	if p.group != "" && p.pid == nil {
		s.announced(ctx, id, p.group)
	}
}

func (s *session) stopGroup(ctx actor.Context, m message.Request, params protocol.GroupStopParams) {
	if reply, ok := s.answers.to(params, m.Token); ok {
		ctx.Respond(reply) // it was done before a cut
		return
	}
	g := s.groups[params.GroupID]
	if g == nil {
		reply := message.Reply{Token: m.Token, Err: protocol.Errorf(protocol.CodeInvalidRequest, "unknown group id %s", wireerr.Clip(params.GroupID))}
		s.answers.add(params, reply)
		ctx.Respond(reply)
		return
	}
	// Sent again while it waits, the newest is answered.
	g.stops = slices.DeleteFunc(g.stops, func(r stopRequest) bool { return r.params == params && params.RequestID != "" })
	if len(g.stops) >= maxAnswers {
		ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInvalidRequest, "%d requests wait for the end of group %s: wait for their answers", len(g.stops), wireerr.Clip(params.GroupID))))
		return
	}
	g.stopping = true
	g.stops = append(g.stops, stopRequest{request{ctx.Sender(), m.Token}, params})
	s.stopNow(ctx, g)
}

// stopNow answers those who wait for the end of a group, or has it come.
func (s *session) stopNow(ctx actor.Context, g *ensemble) {
	switch {
	case !g.stopping:
	case g.info.State == string(supervision.GroupEnded):
		s.stopped(ctx, g, nil)
	case g.told: // else it may not be there yet
		ctx.Send(s.processPID(g.name), message.StopGroup{Reason: reasonStopped})
	}
}

// stopRequest is a group/stop that waits.
type stopRequest struct {
	request
	params protocol.GroupStopParams
}

// stopped answers those who wait for the end of a group.
func (s *session) stopped(ctx actor.Context, g *ensemble, err *protocol.Error) {
	for _, r := range g.stops {
		reply := replyOf(r.token, err)
		s.answers.add(r.params, reply)
		ctx.Send(r.sender, reply)
	}
	g.stops = nil
}

func replyOf(token uint64, err *protocol.Error) message.Reply {
	if err != nil {
		return message.Reply{Token: token, Err: err}
	}
	return message.Reply{Token: token, Result: protocol.Empty{}}
}

// dropStops forgets the group/stop of one who has gone, unless it can be sent again: then
// its answer is remembered.
func (s *session) dropStops(gone *actor.PID) {
	for _, g := range s.groups {
		g.stops = slices.DeleteFunc(g.stops, func(r stopRequest) bool { return r.sender.Equal(gone) && r.params.RequestID == "" })
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

func (s *session) groupTold(ctx actor.Context, m message.GroupTold) {
	g := s.groups[m.Info.GroupID]
	if g == nil || g.name != m.Name {
		return
	}
	first, changed := !g.told, g.info.State != m.Info.State
	if first || changed {
		s.tellAttached(ctx, message.GroupChanged{GroupChangedNotification: protocol.GroupChangedNotification{GroupID: m.Info.GroupID, State: m.Info.State, Reason: m.Info.Reason}})
	}
	s.shared.At(ctx, env.GroupStateTold)
	g.told, g.info = true, m.Info
	if first || changed {
		s.stopNow(ctx, g)
	}
}

// groupGone forgets a group whose actor has stopped. Its processes have ended; or it
// failed, and nobody is left who would say what becomes of them.
func (s *session) groupGone(ctx actor.Context, name string) {
	id := s.groupIDs[name]
	g := s.groups[id]
	ended := g.info.State == string(supervision.GroupEnded)
	var err *protocol.Error
	if !ended {
		err = protocol.Errorf(protocol.CodeInternal, "group %s: %s, and its processes are killed", id, reasonGroupFailed)
	}
	for _, r := range g.asked {
		ctx.Send(r.sender, replyOf(r.token, err))
	}
	s.stopped(ctx, g, err)
	if !ended {
		s.endMembers(ctx, name)
	}
	s.shared.At(ctx, env.GroupGoneTold)
	delete(s.groups, id)
	delete(s.groupIDs, name)
}

// endMembers ends the processes of a group that failed, as far as they are there.
func (s *session) endMembers(ctx actor.Context, name string) {
	for _, p := range s.processes {
		if p.group == name && p.pid != nil {
			ctx.Send(p.pid, message.Stop{Reason: reasonGroupFailed, Shutdown: -1})
		}
	}
}
