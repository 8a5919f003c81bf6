package session

import (
	"cmp"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/group"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"github.com/oklog/ulid/v2"
)

// ensemble is a group in the session's table.
type ensemble struct {
	name    string
	token   string         // startToken
	start   *message.Spawn // nil once its actor has been asked for
	watched bool           // groupSpawned has come
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
			ctx.Send(r.Sender, message.Reply{Token: r.Token, Result: s.groupStarted(g)})
		}
		return
	}
	group, starts, err := s.newGroup(ctx, params)
	if err != nil {
		ctx.Send(r.Sender, message.Reply{Token: r.Token, Err: err})
		return
	}
	g := &ensemble{
		name:   group.Start.Name,
		token:  params.StartToken,
		info:   group.Info,
		asked:  []request{r},
		result: protocol.GroupStartResult{GroupID: params.GroupID, Processes: group.Order},
		left:   make(map[string]bool),
		start:  &group.Start,
	}
	s.groups[params.GroupID] = g
	s.groupIDs[g.name] = params.GroupID
	for i := range starts {
		g.left[params.Processes[i].ProcessID] = true
	}
	for i, start := range starts {
		m := memberOf(params.Processes[i].ProcessID, start)
		m.Group = g.name
		s.processes.Add(m)
	}
	for i := range starts {
		s.ask(ctx, s.processes.Get(params.Processes[i].ProcessID))
	}
	s.askGroup(ctx, g)
}

// askGroup has the actor of a group spawned, once, behind those of its processes.
func (s *session) askGroup(ctx actor.Context, g *ensemble) {
	s.env.At(ctx, env.GroupTabled)
	if g.start != nil {
		ctx.Request(s.supervisor, *g.start)
		g.start = nil
	}
}

// newGroup prepares a group and all its processes, in the order of params, or none of them.
func (s *session) newGroup(ctx actor.Context, params protocol.GroupStartParams) (_ group.Made, starts []message.SpawnRequest, err *protocol.Error) {
	if err := s.mayStartGroup(params); err != nil {
		return group.Made{}, nil, err
	}
	defer func() {
		for _, m := range starts {
			if err != nil {
				m.Unused()
			}
		}
	}()
	o := group.Options{Name: "g-" + ulid.Make().String(), Params: params, Session: ctx.Self(), Members: make(map[string]*actor.PID)}
	shares := make(process.Environments)
	for _, p := range params.Processes {
		if s.processes.Get(p.ProcessID) != nil {
			return group.Made{}, starts, notInGroup(p.ProcessID, protocol.Errorf(protocol.CodeInvalidRequest, "it already exists"))
		}
		of := s.processOptions(ctx, p)
		of.Group, of.GroupID, of.Shares = s.processPID(o.Name), params.GroupID, shares
		m, err := process.New(s.env, of)
		if err != nil {
			return group.Made{}, starts, notInGroup(p.ProcessID, err)
		}
		o.Members[p.ProcessID] = s.processPID(m.Name)
		starts = append(starts, m)
	}
	group, err := group.New(s.env, o)
	return group, starts, err
}

// notInGroup is err, which refuses a process, as an error of its group.
func notInGroup(id string, err *protocol.Error) *protocol.Error {
	return protocol.Errorf(err.Code, "process %s of the group: %s", wireerr.Clip(id), err.Message)
}

// mayStartGroup refuses a group for which there is no place.
func (s *session) mayStartGroup(params protocol.GroupStartParams) *protocol.Error {
	if err := cmp.Or(wireerr.LongName("groupId", params.GroupID), wireerr.LongName("startToken", params.StartToken)); err != nil {
		return err
	}
	if n := len(params.Processes); n > maxGroup {
		return protocol.Errorf(protocol.CodeInvalidParams, "group %s has %d processes, the limit is %d", wireerr.Clip(params.GroupID), n, maxGroup)
	}
	if s.groups[params.GroupID] != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "group %s already exists", params.GroupID)
	}
	if err := s.mayStart(len(params.Processes)); err != nil {
		return err
	}
	depends := 0
	for i := range params.Processes {
		depends += len(params.Processes[i].DependsOn)
	}
	if depends > maxDepends {
		return protocol.Errorf(protocol.CodeInvalidParams, "the dependsOn of group %s have %d entries together, the limit is %d", wireerr.Clip(params.GroupID), depends, maxDepends)
	}
	return nil
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
}

// groupStarted are those of a group's processes that are still there.
func (s *session) groupStarted(g *ensemble) message.GroupStarted {
	started := message.GroupStarted{GroupStartResult: g.result}
	for _, id := range g.result.Processes {
		if p := s.processes.Get(id); p != nil && p.PID != nil && p.Group == g.name {
			started.Processes = append(started.Processes, message.ProcessRef{ID: id, PID: p.PID})
		}
	}
	return started
}

// notAnnounced is for a process that is gone without having been there.
func (s *session) notAnnounced(ctx actor.Context, p *members.Process) {
	if p.Group != "" && p.PID == nil {
		s.announced(ctx, p.ID, p.Group)
	}
}

func (s *session) stopGroup(ctx actor.Context, m message.Request, params protocol.GroupStopParams) {
	if a, ok := s.answers.To(params); ok {
		ctx.Respond(message.Reply{Token: m.Token, Result: a.Result, Err: a.Err}) // it was done before a cut
		return
	}
	g := s.groups[params.GroupID]
	if g == nil {
		reply := message.Reply{Token: m.Token, Err: protocol.Errorf(protocol.CodeInvalidRequest, "unknown group id %s", wireerr.Clip(params.GroupID))}
		s.answers.Add(params, reply.Result, reply.Err)
		ctx.Respond(reply)
		return
	}
	// Sent again while it waits, the newest is answered.
	g.stops = slices.DeleteFunc(g.stops, func(r stopRequest) bool { return r.params == params && params.RequestID != "" })
	if len(g.stops) >= repeat.MaxAnswers {
		ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInvalidRequest, "%d requests wait for the end of group %s: wait for their answers", len(g.stops), wireerr.Clip(params.GroupID))))
		return
	}
	g.stopping = true
	g.stops = append(g.stops, stopRequest{request{Sender: ctx.Sender(), Token: m.Token}, params})
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
		reply := replyOf(r.Token, err)
		s.answers.Add(r.params, reply.Result, reply.Err)
		ctx.Send(r.Sender, reply)
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

func (s *session) groupReport(ctx actor.Context, m message.GroupReport) {
	g := s.groups[m.Info.GroupID]
	if g == nil || g.name != m.Name {
		return
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

// endMembers ends the processes of a group that failed, as far as they are there.
func (s *session) endMembers(ctx actor.Context, name string) {
	for p := range s.processes.All() {
		if p.Group == name && p.PID != nil {
			ctx.Send(p.PID, message.Stop{Reason: reasonGroupFailed, Shutdown: -1})
		}
	}
}
