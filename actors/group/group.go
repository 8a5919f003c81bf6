// Package group has the actor of a group of processes. The processes start and end together.
package group

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
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
	members  map[string]*actor.PID // by process id

	group   *supervision.Group
	serial  uint64             // of the newest Order
	info    protocol.GroupInfo // the last GroupReport to the session
	tickAt  env.Alarm          // set to group.Next
	endedAt env.Alarm          // set once the group has ended
}

// group is the actor of a group. It decides nothing: it tells supervision.Group each event, and sends the
// decisions to the processes. The processes are its siblings, not its children: they survive its failure.
type group struct {
	*groupRecord
	told    map[string]supervision.MemberStatus // in the last Order of this instance, by process id
	telling bool                                // a tellDue is in the mailbox
}

func (g *group) Receive(ctx actor.Context) {
	now := time.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.told = make(map[string]supervision.MemberStatus)
		for _, pid := range g.members {
			ctx.Watch(pid) // Terminated comes even if the actor is not there
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
		g.group.Ready(now, m.ID, m.Run)
	case message.MemberEnded:
		if m.Anew {
			g.group.Forget(m.ID)
		}
		g.group.Ended(now, m.ID, m.Run, m.End, m.Restart, rand.Float64())
	case message.MemberGone:
		g.group.Gone(now, m.ID, cmp.Or(m.Reason, "ended by request"), m.GivenUp)
	case message.MemberBack:
		delete(g.told, m.ID)
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
		ctx.Stop(ctx.Self())
		return
	default:
		g.env.Unexpected(g.name, m)
		return
	}
	g.env.At(ctx, env.GroupDecided)
	g.follow(ctx, now)
}

// terminated records that the actor with the name, of some process, has stopped.
func (g *group) terminated(now time.Time, name string) {
	for id, pid := range g.members {
		if message.LastName(pid) == name {
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
	if !g.telling {
		g.telling = true
		ctx.Send(ctx.Self(), tellDue{})
	}
	if state, _ := g.group.State(); state == supervision.GroupEnded && !g.endedAt.IsSet() {
		g.endedAt.Set(ctx, max(g.env.ClosedRetention, 0), endedDue{})
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
		info.Processes = append(info.Processes, protocol.GroupMember{ProcessID: id, State: st.State.String(), Run: st.Run, Ready: st.Ready, Reason: st.Reason})
	}
	if info.State != g.info.State || info.Restarts != g.info.Restarts || !slices.Equal(info.Processes, g.info.Processes) {
		ctx.Send(g.session, message.GroupReport{Name: g.name, Info: info})
		g.env.At(ctx, env.GroupStateSaid)
		g.info = info
	}
}

// Options describe a group.
type Options struct {
	Name    string // of the actor
	Params  protocol.GroupStartParams
	Session *actor.PID
	Members map[string]*actor.PID // the actors of the processes, by process id; they need not be there yet
}

// Prepared is a group without an actor.
type Prepared struct {
	Start message.Spawn      // asks for the actor, after the requests for the processes; GroupSpawned answers
	Order []string           // ids of the processes, each after its dependencies
	Info  protocol.GroupInfo // until the first GroupReport
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
	var all []supervision.Member
	for _, p := range o.Params.Processes {
		all = append(all, supervision.Member{ID: p.ProcessID, After: p.DependsOn, OnSuccess: p.Ready != nil && p.Ready.Exit})
	}
	id := o.Params.GroupID
	machine, wrong := supervision.NewGroup(supervision.GroupStrategy(strategy), intensity, all)
	if wrong != nil {
		return Prepared{}, protocol.Errorf(protocol.CodeInvalidParams, "group %s: %v", wireerr.Clip(id), wrong)
	}
	record := &groupRecord{env: e, id: id, name: o.Name, strategy: strategy, session: o.Session, members: o.Members, group: machine}
	return Prepared{
		Start: message.Spawn{
			Name:  o.Name,
			Props: e.Props(func() actor.Actor { return &group{groupRecord: record} }, env.Escalated),
			Label: "group " + id,
			Done:  message.GroupSpawned{Name: o.Name},
		},
		Order: machine.Order(),
		Info:  protocol.GroupInfo{GroupID: id, Strategy: strategy, State: string(supervision.GroupStarting), Processes: []protocol.GroupMember{}},
	}, nil
}
