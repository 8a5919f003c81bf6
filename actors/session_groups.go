package actors

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"github.com/oklog/ulid/v2"
)

// ensemble is a group in the session's table.
type ensemble struct {
	name    string
	info    protocol.GroupInfo
	watched bool
	asked   *request // group/start; nil: it has been answered
	result  protocol.GroupStartResult
	left    int // of its processes, how many have not announced themselves
}

func (s *session) startGroup(ctx actor.Context, r request, params protocol.GroupStartParams) {
	name := "g-" + ulid.Make().String()
	group, records, err := s.newGroup(ctx.Self(), name, params)
	if err != nil {
		ctx.Send(r.sender, Reply{Token: r.token, Err: err})
		return
	}
	s.groups[group.id] = &ensemble{
		name:   name,
		info:   protocol.GroupInfo{GroupID: group.id, Strategy: group.strategy, State: string(supervision.GroupStarting), Processes: []protocol.GroupMember{}},
		asked:  &r,
		result: protocol.GroupStartResult{GroupID: group.id, Processes: group.group.Order()},
		left:   len(records),
	}
	s.groupIDs[name] = group.id
	for _, record := range records {
		s.add(ctx, record, &member{group: name})
	}
	ctx.Request(s.supervisor, spawnGroup{group})
}

// newGroup makes the record of a group, and those of its processes, if all of it is
// in order.
func (s *session) newGroup(self *actor.PID, name string, params protocol.GroupStartParams) (*groupRecord, []*processRecord, *protocol.Error) {
	if err := tooLong("groupId", params.GroupID); err != nil {
		return nil, nil, err
	}
	if s.groups[params.GroupID] != nil {
		return nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "group %s already exists", params.GroupID)
	}
	if err := s.mayStart(len(params.Processes)); err != nil {
		return nil, nil, err
	}
	var records []*processRecord
	members := make(map[string]*actor.PID)
	for _, p := range params.Processes {
		record, err := s.newMember(self, p)
		if err != nil {
			return nil, nil, protocol.Errorf(err.Code, "process %s of the group: %s", clip(p.ProcessID), err.Message)
		}
		record.group, record.groupID = s.processPID(name), params.GroupID
		members[record.id] = s.processPID(record.name)
		records = append(records, record)
	}
	group, err := s.groupOf(self, name, params, members)
	return group, records, err
}

func (s *session) newMember(self *actor.PID, p protocol.ProcessStartParams) (*processRecord, *protocol.Error) {
	if s.processes[p.ProcessID] != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "it already exists")
	}
	if p.Restart != nil && p.Restart.Intensity != nil {
		return nil, errGroupIntensity
	}
	record, err := s.newProcess(self, p)
	if err == nil && record.restart == nil {
		record.restart = &supervision.Restart{Policy: supervision.Temporary}
	}
	return record, err
}

// announced answers a group/start once all processes of the group can be asked.
func (s *session) announced(ctx actor.Context, name string) {
	g := s.groups[s.groupIDs[name]]
	if g == nil || g.name != name {
		return
	}
	if g.left--; g.left == 0 && g.asked != nil {
		ctx.Send(g.asked.sender, Reply{Token: g.asked.token, Result: g.result})
		g.asked = nil
	}
}

// notAnnounced tells the group of a process that is gone without having been there.
func (s *session) notAnnounced(ctx actor.Context, id string, p *member) {
	if p.group != "" && p.pid == nil {
		ctx.Send(s.processPID(p.group), memberGone{id})
		s.announced(ctx, p.group)
	}
}

func (s *session) stopGroup(ctx actor.Context, m Request, params protocol.GroupStopParams) {
	g := s.groups[params.GroupID]
	if g == nil {
		ctx.Respond(m.failed(protocol.Errorf(protocol.CodeInvalidRequest, "unknown group id %s", clip(params.GroupID))))
		return
	}
	ctx.RequestWithCustomSender(s.processPID(g.name), m, ctx.Sender())
}

func (s *session) listGroups(ctx actor.Context, m Request) {
	result := protocol.GroupListResult{Groups: []protocol.GroupInfo{}}
	for _, g := range s.groups {
		result.Groups = append(result.Groups, g.info)
	}
	slices.SortFunc(result.Groups, func(a, b protocol.GroupInfo) int { return strings.Compare(a.GroupID, b.GroupID) })
	ctx.Respond(Reply{Token: m.Token, Result: result})
}

func (s *session) groupTold(ctx actor.Context, m groupTold) {
	g := s.groups[m.info.GroupID]
	if g == nil || g.name != m.name {
		return
	}
	if !g.watched { // not before it is there
		g.watched = true
		ctx.Watch(s.processPID(g.name))
	}
	changed := g.info.State != m.info.State || g.info.Processes == nil
	g.info = m.info
	if changed {
		s.tellAttached(ctx, GroupChanged{protocol.GroupChangedNotification{GroupID: m.info.GroupID, State: m.info.State, Reason: m.info.Reason}})
	}
}

// groupGone forgets a group whose actor has stopped. Its processes have ended; or it
// failed, and nobody is left who would say what becomes of them.
func (s *session) groupGone(ctx actor.Context, name string) {
	id := s.groupIDs[name]
	g := s.groups[id]
	delete(s.groups, id)
	delete(s.groupIDs, name)
	const reason = "the actor of its group failed too often"
	if g.asked != nil {
		ctx.Send(g.asked.sender, Reply{Token: g.asked.token, Err: protocol.Errorf(protocol.CodeInternal, "group %s: %s", id, reason)})
	}
	if g.info.State == string(supervision.GroupEnded) {
		return
	}
	for _, p := range s.processes {
		if p.group == name && p.pid != nil {
			ctx.Send(p.pid, stop{reason: reason, shutdown: -1})
		}
	}
}
