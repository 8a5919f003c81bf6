// Package group has the actor of a group of processes, which start and end together.
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

type (
	tickDue  struct{} // the time for something has come
	tellDue  struct{} // itself: tell the session, behind all that has come
	endedDue struct{} // its retention is over

)

// groupRecord is what of a group survives its actor. One owner: Receive.
type groupRecord struct {
	// Fixed at spawn.
	env      *env.Env
	id, name string // the client's, and the actor's
	strategy protocol.GroupStrategy
	session  *actor.PID
	members  map[string]*actor.PID // by process id

	group   *supervision.Group
	serial  uint64             // of the newest order
	info    protocol.GroupInfo // as the session was told
	tickAt  env.Alarm
	endedAt env.Alarm
}

// group is the actor that has processes of a session run and end together. It decides
// nothing: it tells supervision.Group what happens, and the processes what follows.
// It lives beside them: they are not its children, and its failure is not theirs.
type group struct {
	*groupRecord
	told    map[string]supervision.MemberStatus // by this instance
	telling bool                                // a tellDue is on its way
}

func (g *group) Receive(ctx actor.Context) {
	now := time.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.told = make(map[string]supervision.MemberStatus)
		for _, pid := range g.members {
			ctx.Watch(pid) // one that is not there is answered with Terminated
			ctx.Send(pid, message.Report{})
		}
		g.group.Tick(now)
	case *actor.Stopping:
		g.tickAt.Stop()
		g.endedAt.Stop()
		return
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes what its sender said before; gone does not
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
	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		g.env.Log.Warn("unexpected message", "actor", g.name, "message", m)
		return
	}
	g.env.At(ctx, env.GroupDecided)
	g.follow(ctx, now)
}

// terminated is the end of a process whose actor has stopped, of whichever it is.
func (g *group) terminated(now time.Time, name string) {
	for id, pid := range g.members {
		if message.LastName(pid) == name {
			g.group.Gone(now, id, "its actor failed too often", true)
		}
	}
}

// follow has done what is to be done by now.
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

// tell tells the session how the group stands, if that is news.
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

// Options say what group to make, and for whom.
type Options struct {
	Name    string // of the actor
	Params  protocol.GroupStartParams
	Session *actor.PID
	Members map[string]*actor.PID // where its processes will be, by their ids
}

// Made is a group that has no actor yet.
type Made struct {
	Start message.Spawn      // answered with groupSpawned; for after its processes were asked for
	Order []string           // of the processes, each after those that it depends on
	Info  protocol.GroupInfo // until the group tells another
}

// New prepares a group, or says what is wrong with it.
func New(e *env.Env, o Options) (Made, *protocol.Error) {
	strategy := o.Params.Strategy
	if strategy == "" {
		strategy = protocol.OneForOne
	}
	intensity, err := policy.ParseIntensity("intensity", o.Params.Intensity)
	if err != nil {
		return Made{}, err
	}
	var all []supervision.Member
	for _, p := range o.Params.Processes {
		all = append(all, supervision.Member{ID: p.ProcessID, After: p.DependsOn, OnSuccess: p.Ready != nil && p.Ready.Exit})
	}
	id := o.Params.GroupID
	machine, wrong := supervision.NewGroup(supervision.GroupStrategy(strategy), intensity, all)
	if wrong != nil {
		return Made{}, protocol.Errorf(protocol.CodeInvalidParams, "group %s: %v", wireerr.Clip(id), wrong)
	}
	record := &groupRecord{env: e, id: id, name: o.Name, strategy: strategy, session: o.Session, members: o.Members, group: machine}
	return Made{
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
