package actors

import (
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Messages to a group actor, beside the Request of group/stop; the first three are
// from its processes, and said again when asked to.
type (
	memberReady struct {
		id  string
		run int
	}
	memberEnded struct { // a run has, and all that it left is gone
		id      string
		run     int
		end     supervision.End
		restart supervision.Restart
	}
	memberGone struct{ id string } // it closes, or its actor stops

	tickDue  struct{} // the time for something has come
	endedDue struct{} // its retention is over
)

// Messages of a group to its processes.
type (
	// order is what a process is to do. It comes again when that changes, and may come
	// oftener.
	order struct{ status supervision.MemberStatus }
	// report asks for what was last said, after a restart of the group.
	report struct{}
)

func (memberReady) IgnoreDeadLetterLogging() {}
func (memberEnded) IgnoreDeadLetterLogging() {}
func (memberGone) IgnoreDeadLetterLogging()  {}
func (order) IgnoreDeadLetterLogging()       {}
func (report) IgnoreDeadLetterLogging()      {}

// groupRecord is what of a group survives its actor. One owner: Receive.
type groupRecord struct {
	// Fixed at spawn.
	shared   *shared
	id, name string // the client's, and the actor's
	strategy protocol.GroupStrategy
	session  *actor.PID
	members  map[string]*actor.PID // by process id

	group   *supervision.Group
	info    protocol.GroupInfo // as the session was told
	stops   []request          // group/stop
	tickAt  alarm
	endedAt alarm
}

// group is the actor that has processes of a session run and end together. It decides
// nothing: it tells supervision.Group what happens, and the processes what follows.
// It lives beside them: they are not its children, and its failure is not theirs.
type group struct {
	*groupRecord
	told map[string]supervision.MemberStatus // by this instance
}

func (g *group) Receive(ctx actor.Context) {
	now := time.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.told = make(map[string]supervision.MemberStatus)
		for _, pid := range g.members {
			ctx.Send(pid, report{}) // of a message that was lost with the last instance
		}
		g.group.Tick(now)
	case *actor.Stopping:
		g.tickAt.stop()
		g.endedAt.stop()
		return
	case memberReady:
		g.group.Ready(now, m.id, m.run)
	case memberEnded:
		g.group.Ended(now, m.id, m.run, m.end, m.restart, rand.Float64())
	case memberGone:
		g.group.Gone(now, m.id)
	case tickDue:
		g.group.Tick(now)
	case endedDue:
		ctx.Stop(ctx.Self())
		return
	case Request:
		if _, ok := m.Params.(protocol.GroupStopParams); !ok {
			ctx.Respond(m.failed(protocol.Errorf(protocol.CodeInternal, "a group does not answer %T", m.Params)))
			return
		}
		g.stops = append(g.stops, request{ctx.Sender(), m.Token})
		g.group.Stop(now, "stopped by request")
	default:
		return
	}
	g.follow(ctx, now)
}

// follow has done what is to be done by now.
func (g *group) follow(ctx actor.Context, now time.Time) {
	for id, pid := range g.members {
		if st := g.group.Status(id); st != g.told[id] {
			g.told[id] = st
			ctx.Send(pid, order{st})
		}
	}
	if next := g.group.Next(); next.IsZero() {
		g.tickAt.stop()
	} else {
		g.tickAt.set(ctx, next.Sub(now), tickDue{})
	}
	g.tell(ctx)
	if state, _ := g.group.State(); state != supervision.GroupEnded {
		return
	}
	for _, r := range g.stops {
		ctx.Send(r.sender, Reply{Token: r.token, Result: protocol.Empty{}})
	}
	g.stops = nil
	if g.endedAt.timer == nil {
		g.endedAt.set(ctx, max(g.shared.ClosedRetention, 0), endedDue{})
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
	same := len(g.info.Processes) > 0
	for i, id := range g.group.Order() {
		st := g.group.Status(id)
		m := protocol.GroupMember{ProcessID: id, State: st.State.String(), Run: st.Run, Ready: st.Ready, Reason: st.Reason}
		info.Processes = append(info.Processes, m)
		same = same && g.info.Processes[i] == m
	}
	if same && g.info.State == info.State && g.info.Restarts == info.Restarts {
		return
	}
	g.info = info
	ctx.Send(g.session, groupTold{g.name, info})
}

// groupOf makes a group of params, for processes that have the names of their actors.
func (s *session) groupOf(self *actor.PID, name string, params protocol.GroupStartParams, members map[string]*actor.PID) (*groupRecord, *protocol.Error) {
	strategy := params.Strategy
	if strategy == "" {
		strategy = protocol.OneForOne
	}
	intensity, err := intensityOf("intensity", params.Intensity)
	if err != nil {
		return nil, err
	}
	var all []supervision.Member
	for _, p := range params.Processes {
		all = append(all, supervision.Member{ID: p.ProcessID, After: p.DependsOn, OnSuccess: p.Ready != nil && p.Ready.Exit})
	}
	machine, wrong := supervision.NewGroup(supervision.GroupStrategy(strategy), intensity, all)
	if wrong != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "group %s: %v", clip(params.GroupID), wrong)
	}
	return &groupRecord{shared: s.shared, id: params.GroupID, name: name, strategy: strategy, session: self, members: members, group: machine}, nil
}
