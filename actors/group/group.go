// Package group has the actor of a group of processes. The processes start and end together.
package group

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// The group's messages to itself.
type (
	tickDue  struct{} // something is due in supervision.Group
	tellDue  struct{} // tell the session, after all messages in the mailbox
	endedDue struct{} // the retention of an ended group is over
)

// groupRecord is the part of a group's state that survives a restart of the actor. Receive owns it.
type groupRecord struct {
	// Fixed at spawn.
	env      *env.Env
	id, name string // the client's, and the actor's
	strategy protocol.GroupStrategy
	session  *actor.PID
	events   *journal.Source       // of the session; nil: nobody is told
	members  map[string]*actor.PID // by process id
	labels   map[string]string     // by process id

	group    *supervision.Group
	extended uint64                 // Serial of the last ExtendGroup
	serial   uint64                 // of the newest Order
	info     protocol.GroupInfo     // the last GroupReport to the session
	state    supervision.GroupState // as the last event has it, like reason
	reason   string
	tickAt   env.Alarm // set to group.Next
	endedAt  env.Alarm // set once the group has ended
	overdue  bool      // endedAt has come: the group stops as soon as no process can come back
}

// group is the actor of a group. It decides nothing: it tells supervision.Group each event, and sends the
// decisions to the processes. The processes are its siblings, not its children: they survive its failure.
type group struct {
	*groupRecord
	told    map[string]supervision.MemberStatus // in the last Order of this instance, by process id
	gone    map[string]bool                     // processes whose actors have stopped
	telling bool                                // a tellDue is in the mailbox
}

func (g *group) Receive(ctx actor.Context) {
	now := time.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.told, g.gone = make(map[string]supervision.MemberStatus), make(map[string]bool)
		for _, pid := range g.members {
			g.env.Watch(ctx, pid) // Gone or Terminated comes even if the actor is not there
			ctx.Send(pid, message.Report{})
		}
		g.group.Tick(now)
	case *actor.Stopping:
		g.tickAt.Stop()
		g.endedAt.Stop()
		return
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes earlier messages of its sender; Gone does not
		return
	case message.Gone:
		g.terminated(now, message.LastName(m.Who))
	case message.MemberReady:
		if g.has(m.ID, m.Name) {
			g.group.Ready(now, m.ID, m.Run)
		}
	case message.MemberEnded:
		if !g.has(m.ID, m.Name) {
			break
		}
		if m.Anew {
			g.group.Forget(m.ID)
		}
		g.group.Ended(now, m.ID, m.Run, m.End, m.Restart, rand.Float64())
	case message.MemberGone:
		if g.has(m.ID, m.Name) {
			g.group.Gone(now, m.ID, cmp.Or(m.Reason, supervision.EndedByRequest), m.GivenUp)
		}
	case message.MemberRejoins:
		if g.has(m.ID, m.Name) {
			g.group.Rejoin(now, m.ID, m.N)
		}
	case message.MemberBack:
		if g.has(m.ID, m.Name) {
			delete(g.told, m.ID)
		}
	case message.ExtendGroup:
		g.extend(ctx, now, m)
	case message.StopGroup:
		g.group.Stop(now, m.Reason)
	case tickDue:
		g.group.Tick(now)
	case message.Report:
		g.info = protocol.GroupInfo{}
	case tellDue:
		g.telling = false
		g.tell(ctx)
		return
	case endedDue:
		g.overdue = true
	default:
		g.env.Unexpected(ctx, g.name, m)
		return
	}
	g.env.At(ctx, env.GroupDecided)
	g.follow(ctx, now)
}

// has reports whether the process with the id has the actor with the name. If the process was replaced, late messages
// of the old actor mean nothing.
func (g *group) has(id, name string) bool {
	pid := g.members[id]
	return pid != nil && message.LastName(pid) == name
}

// extend takes the members that the session now has. extend may be repeated.
func (g *group) extend(ctx actor.Context, now time.Time, m message.ExtendGroup) {
	old := g.members
	keep := func(id string) bool { return old[id] != nil && old[id].Equal(m.PIDs[id]) }
	if err := g.group.Extend(now, m.Members, keep); err != nil {
		g.env.Log.Error("extend a group", "actor", g.name, "err", err) // the session has checked the members
		return
	}
	g.members, g.labels, g.extended = maps.Clone(m.PIDs), maps.Clone(m.Labels), m.Serial
	maps.DeleteFunc(g.gone, func(id string, _ bool) bool { return !keep(id) })
	g.info = protocol.GroupInfo{} // the session waits for a report
	for id, pid := range g.members {
		if !keep(id) {
			delete(g.told, id)
			g.env.Watch(ctx, pid)
			ctx.Send(pid, message.Report{})
		}
	}
}

// terminated records that the actor with the name, of some process, has stopped.
func (g *group) terminated(now time.Time, name string) {
	for id, pid := range g.members {
		if message.LastName(pid) == name {
			g.gone[id] = true
			g.group.Gone(now, id, "its actor failed too often", true)
		}
	}
}

// follow sends the new decisions of supervision.Group, and sets the alarms.
func (g *group) follow(ctx actor.Context, now time.Time) {
	for _, id := range g.group.Order() {
		if st := g.group.Status(id); st != g.told[id] {
			g.told[id] = st
			g.serial++
			ctx.Send(g.members[id], message.Order{Serial: g.serial, Status: st})
			g.env.At(ctx, env.GroupOrdered)
		}
	}
	if next := g.group.Next(); next.IsZero() {
		g.tickAt.Stop()
	} else {
		g.tickAt.Set(ctx, next.Sub(now), tickDue{})
	}
	g.happened()
	if !g.telling {
		g.telling = true
		ctx.Send(ctx.Self(), tellDue{})
	}
	switch state, _ := g.group.State(); {
	case state != supervision.GroupEnded:
		g.endedAt.Stop()
		g.overdue = false
	case g.overdue && len(g.gone) == len(g.members):
		ctx.Stop(ctx.Self())
	case !g.overdue && !g.endedAt.IsSet():
		g.endedAt.Set(ctx, max(g.env.ClosedRetention, 0), endedDue{})
	}
}

// happened tells the readers of server/events a new state of the group.
func (g *group) happened() {
	state, reason := g.group.State()
	if state != g.state || reason != g.reason {
		g.events.Put(protocol.ServerEvent{Kind: protocol.ServerGroup, GroupID: g.id, State: string(state), Reason: reason})
		g.state, g.reason = state, reason
	}
}

// tell sends the session a GroupReport if the state of the group has changed.
func (g *group) tell(ctx actor.Context) {
	state, reason := g.group.State()
	info := protocol.GroupInfo{
		GroupID:  g.id,
		Strategy: g.strategy,
		State:    string(state),
		Reason:   reason,
		Restarts: g.group.Restarts(),
	}
	for _, id := range g.group.Order() {
		st := g.group.Status(id)
		info.Processes = append(info.Processes, protocol.GroupMember{ProcessID: id, State: st.State.String(), Run: st.Run, Ready: st.Ready, Reason: st.Reason, Label: g.labels[id]})
	}
	if info.State != g.info.State || info.Restarts != g.info.Restarts || !slices.Equal(info.Processes, g.info.Processes) {
		ctx.Send(g.session, message.GroupReport{Name: g.name, Info: info, Extended: g.extended})
		g.env.At(ctx, env.GroupStateSaid)
		g.info = info
	}
}

// Options describe a group.
type Options struct {
	Name    string // of the actor
	Params  protocol.GroupStartParams
	Session *actor.PID
	Events  *journal.Source       // of the session; nil: nobody is told
	Members map[string]*actor.PID // the actors of the processes, by process id; they need not be there yet
}

// Prepared is a group without an actor.
type Prepared struct {
	Start message.Spawn // asks for the actor, after the requests for the processes; GroupSpawned answers
	Order []string      // ids of the processes, each after its dependencies
	// Extended has the members, for a later extension.
	Extended message.ExtendGroup
	Info     protocol.GroupInfo // until the first GroupReport
}

// New prepares a group. The error says why the group is refused.
func New(e *env.Env, o Options) (Prepared, *protocol.Error) {
	strategy := o.Params.Strategy
	if strategy == "" {
		strategy = protocol.OneForOne
	}
	intensity, err := policy.ParseIntensity("intensity", o.Params.Intensity)
	if err != nil {
		return Prepared{}, err
	}
	if strategy == protocol.Independent && o.Params.Intensity != nil {
		return Prepared{}, protocol.WrongParams("intensity is not for the strategy independent, where the restart.intensity of each process counts: leave it out")
	}
	id := o.Params.GroupID
	members, machine, err := Extended(message.ExtendGroup{}, o.Params, o.Members, intensity)
	if err != nil {
		return Prepared{}, err
	}
	record := &groupRecord{env: e, id: id, name: o.Name, strategy: strategy, session: o.Session, events: o.Events, members: maps.Clone(members.PIDs), labels: maps.Clone(members.Labels), group: machine}
	return Prepared{
		Start: message.Spawn{
			Name:  o.Name,
			Props: e.Props(func() actor.Actor { return &group{groupRecord: record} }, env.Escalated),
			Label: "group " + id,
			Done:  message.GroupSpawned{Name: o.Name},
		},
		Order:    machine.Order(),
		Extended: members,
		Info:     protocol.GroupInfo{GroupID: id, Strategy: strategy, State: string(supervision.GroupStarting), Processes: Begun(nil, o.Params)},
	}, nil
}

// Begun returns a listing of the members in old, in which the processes of a group/start wait for their first run. It is
// for the time until the group reports.
func Begun(old []protocol.GroupMember, params protocol.GroupStartParams) []protocol.GroupMember {
	all := slices.Clone(old)
	for _, p := range params.Processes {
		m := protocol.GroupMember{ProcessID: p.ProcessID, State: supervision.Waiting.String(), Label: p.Label}
		if i := slices.IndexFunc(all, func(o protocol.GroupMember) bool { return o.ProcessID == m.ProcessID }); i >= 0 {
			all[i] = m
		} else {
			all = append(all, m)
		}
	}
	return all
}

// Extended returns all members of a group that has the members in old and the processes of a group/start. The processes
// of the group/start replace old members with their ids. The error says why the members are refused.
func Extended(old message.ExtendGroup, params protocol.GroupStartParams, pids map[string]*actor.PID, in supervision.Intensity) (message.ExtendGroup, *supervision.Group, *protocol.Error) {
	all := message.ExtendGroup{Serial: old.Serial, Members: slices.Clone(old.Members), PIDs: maps.Clone(old.PIDs), Labels: maps.Clone(old.Labels)}
	if old.PIDs == nil {
		all.PIDs, all.Labels = make(map[string]*actor.PID), make(map[string]string)
	}
	given := make(map[string]bool)
	for _, p := range params.Processes {
		if given[p.ProcessID] { // NewGroup would not notice if both replaced the same old member
			return message.ExtendGroup{}, nil, protocol.WrongParams("group %s: process %q is there twice", wireerr.Clip(params.GroupID), p.ProcessID)
		}
		given[p.ProcessID] = true
		m := supervision.Member{ID: p.ProcessID, After: p.DependsOn, OnSuccess: p.Ready != nil && p.Ready.Exit}
		if i := slices.IndexFunc(old.Members, func(o supervision.Member) bool { return o.ID == m.ID }); i >= 0 {
			all.Members[i] = m
		} else {
			all.Members = append(all.Members, m)
		}
		all.PIDs[m.ID] = pids[m.ID]
		if delete(all.Labels, m.ID); p.Label != "" {
			all.Labels[m.ID] = p.Label
		}
	}
	machine, err := supervision.NewGroup(supervision.GroupStrategy(cmp.Or(params.Strategy, protocol.OneForOne)), in, all.Members)
	if err != nil {
		return message.ExtendGroup{}, nil, protocol.WrongParams("group %s: %v", wireerr.Clip(params.GroupID), err)
	}
	return all, machine, nil
}
