package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/group"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// A group/start with extend adds processes to a group that exists. The session checks the extended group, and has the new
// processes spawned. When the actors of all new processes have announced themselves, the actor of the group gets all members.

const reasonReplaced = "another process has its id now"

// extendGroup adds processes to a group that has not ended, or returns why not.
func (s *session) extendGroup(ctx actor.Context, r request, g *ensemble, params protocol.GroupStartParams) *protocol.Error {
	if err := wireerr.BadName("startToken", params.StartToken); err != nil {
		return err
	}
	switch {
	case g.info.Strategy != protocol.Independent:
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "group %s has the strategy %s, and extend is for the strategy %s only", params.GroupID, g.info.Strategy, protocol.Independent)
	case g.stopping || g.info.State == string(supervision.GroupStopping):
		return protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "group %s is stopping: extend it when it has ended", params.GroupID)
	}
	var replaced []*members.Process
	for _, p := range params.Processes {
		old := s.processes.Get(p.ProcessID)
		if old == nil {
			continue
		}
		if !g.hasLeft(old) && !s.orphaned(old) {
			return notInGroup(p.ProcessID, errExists)
		}
		replaced = append(replaced, old)
	}
	if err := s.mayStart(len(params.Processes) - len(replaced)); err != nil {
		return err
	}
	if err := mayDepend(params); err != nil {
		return err
	}
	var all message.ExtendGroup
	starts, err := s.newMembers(ctx, g.name, params, func(pids map[string]*actor.PID) (err *protocol.Error) {
		if all, _, err = group.Extended(g.members, params, pids, supervision.Intensity{}); err == nil && len(all.Members) > maxGroup {
			err = protocol.WrongParams("group %s would have %d processes, those that have left included, the limit is %d: stop the group, and start it again", wireerr.Clip(params.GroupID), len(all.Members), maxGroup)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range replaced {
		s.replace(ctx, p)
	}
	all.Serial++
	g.startedWith(params.StartToken)
	g.members, g.extended, g.announced = all, true, false
	g.asked = append(g.asked, r)
	g.info.Processes = group.Begun(g.info.Processes, params)
	g.result.Processes = g.result.Processes[:len(g.result.Processes):len(g.result.Processes)]
	for _, p := range params.Processes {
		if !slices.Contains(g.result.Processes, p.ProcessID) {
			g.result.Processes = append(g.result.Processes, p.ProcessID)
		}
	}
	s.addMembers(ctx, r, g, params, starts)
	return nil
}

// hasLeft reports whether a process has left the group, as far as the session knows.
func (g *ensemble) hasLeft(p *members.Process) bool {
	left := supervision.Left.String()
	return p.Group == g.name && p.PID != nil && slices.ContainsFunc(g.info.Processes, func(m protocol.GroupMember) bool { return m.ProcessID == p.ID && m.State == left })
}

// orphaned reports whether a process was in a group that has ended and is forgotten.
func (s *session) orphaned(p *members.Process) bool {
	_, known := s.groupIDs[p.Group]
	return p.Group != "" && p.PID != nil && !known
}

// givesWay returns the processes of ended groups whose ids the next group has. An ended group may have been forgotten
// before its processes, which wait for their owner.
func (s *session) givesWay(params protocol.GroupStartParams) (replaced []*members.Process) {
	g := s.groups[params.GroupID]
	for _, p := range params.Processes {
		old := s.processes.Get(p.ProcessID)
		if old != nil && (s.orphaned(old) || g != nil && g.hasLeft(old)) {
			replaced = append(replaced, old)
		}
	}
	return replaced
}

// forgetGroup forgets the group with the id, if any, which has ended, and the processes that give way to the next group.
func (s *session) forgetGroup(ctx actor.Context, id string, replaced []*members.Process) {
	for _, p := range replaced {
		s.replace(ctx, p)
	}
	if g := s.groups[id]; g != nil {
		delete(s.groups, id)
		delete(s.groupIDs, g.name)
	}
}

// replace frees the id of a process of a group, and ends whatever is left of the process.
func (s *session) replace(ctx actor.Context, p *members.Process) {
	s.tellAttached(ctx, message.ProcessRemoved{ID: p.ID, Reason: reasonReplaced})
	s.processes.Retire(p)
	ctx.Send(p.PID, message.Stop{Reason: reasonReplaced, Shutdown: -1})
}

// tellMembers tells the actor of an extended group its members. tellMembers may be repeated.
func (s *session) tellMembers(ctx actor.Context, g *ensemble) {
	if g.extended && len(g.left) == 0 {
		ctx.Send(s.processPID(g.name), g.members)
	}
}
