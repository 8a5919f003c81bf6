package actors

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// What a process does that belongs to a group: it is an interval between two runs in
// which the group, and not its own history, says what follows. Before the first run,
// too.

var errGroupIntensity = protocol.Errorf(protocol.CodeInvalidParams, "restart.intensity is not for a process of a group, where that of the group counts: leave it out")

// join is how a process of a group begins.
func (p *process) join(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	p.intake = child.NewIntake(p.retention, p.shared.budget, func() { root.Send(self, factsReady{}) })
	p.phase = restarting
	p.interval = &interval{verdict: supervision.Again, held: true, treeGone: true, closed: true, logged: true}
	p.announce(ctx)
}

// tellGroup tells of the end of a run that is over in every respect, and has room in the
// log for another.
func (p *process) tellGroup(ctx actor.Context) {
	if n := p.interval; n.end != nil && !n.told && (n.hurried || !p.full()) {
		n.told = true
		p.tellEnded(ctx)
	}
}

func (p *process) tellEnded(ctx actor.Context) {
	ctx.Send(p.group, memberEnded{p.id, p.run, *p.interval.end, *p.restart})
}

// report says again what the group may have missed.
func (p *process) report(ctx actor.Context) {
	switch n := p.interval; {
	case p.group == nil:
	case p.phase >= closed:
		ctx.Send(p.group, memberGone{p.id})
	case n != nil && n.told:
		p.tellEnded(ctx)
	case p.phase == running && p.health.ready:
		ctx.Send(p.group, memberReady{p.id, p.run})
	}
}

// ordered is what the group says. It may say it more than once.
func (p *process) ordered(ctx actor.Context, m supervision.MemberStatus) {
	n := p.interval
	held := n != nil && n.held && n.verdict == supervision.Again
	switch m.State {
	case supervision.Waiting:
		if held {
			n.at, n.reason = m.At, m.Reason
		}
	case supervision.Running:
		if held && m.Run == p.run+1 {
			n.held, n.reason, n.at = false, m.Reason, time.Time{}
			n.delay = time.Since(n.ended)
		}
	case supervision.Ending:
		switch {
		case held && m.Run == p.run: // it has ended by itself, and does not wait for room in its log
			n.hurried = true
		case n != nil && m.Run == p.run: // it is being started
			p.endAsked = m.Reason
		case n == nil && m.Run == p.run:
			p.endRun(ctx, m.Reason)
		}
	case supervision.Left:
		if held {
			n.verdict, n.reason = supervision.Over, cmp.Or(m.Reason, "it has left its group")
			if m.GivenUp {
				n.verdict = supervision.GivenUp
			}
		}
	}
}

// endRun ends a run, but not the process, with its grace.
func (p *process) endRun(ctx actor.Context, reason string) {
	if p.lives() && p.endReason == "" {
		p.endReason = reason
	}
	p.killRest = true
	grace := p.killGrace()
	if grace < 0 {
		grace = max(p.shared.KillGrace, 0)
	}
	p.kill(ctx, grace)
}
