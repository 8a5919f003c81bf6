package actors

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// What a process does that belongs to a group: it is in an interval between two runs in
// which the group, and not its own history, says what follows. Before the first run,
// too.

var errGroupIntensity = protocol.Errorf(protocol.CodeInvalidParams, "restart.intensity is not for a process of a group, where that of the group counts: leave it out")

// join is how a process of a group begins.
func (p *process) join(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	p.intake = child.NewIntake(p.feed.Retention, p.shared.OutputBudget, p.spool, func() { root.Send(self, factsReady{}) })
	p.phase, p.interval = restarting, &interval{verdict: supervision.Again, held: true, treeGone: true, closed: true, logged: true}
	p.announce(ctx)
}

// ordered keeps the newest order: a failure may put an older one behind it.
func (p *process) ordered(ctx actor.Context, m message.Order) {
	if m.Serial > p.order.Serial {
		p.order = m
		p.shared.At(ctx, env.OrderTaken)
		p.obey(ctx)
	}
}

// obey does what the group wants, as far as that can be done now. May be repeated.
func (p *process) obey(ctx actor.Context) {
	m, n := p.order.Status, p.interval
	held := n != nil && n.held && n.verdict == supervision.Again
	between := n != nil && !n.spawning && n.verdict == supervision.Again
	switch m.State {
	case supervision.Waiting:
		if held {
			n.at, n.reason = m.At, m.Reason
		}
	case supervision.Running:
		if held && m.Run > p.run {
			p.run = m.Run - 1 // one that was ended before it had begun has no other trace
			n.held, n.reason, n.at = false, m.Reason, time.Time{}
			n.delay = time.Since(n.ended)
		}
	case supervision.Ending:
		switch {
		case n == nil && p.phase == running && m.Run == p.run && !p.endOrdered:
			p.endRun(ctx, m.Reason)
			p.endOrdered = true // once: a second SIGTERM may mean something else
		case between && m.Run > p.run && n.told < m.Run: // not begun, and perhaps never heard of
			n.held, n.told = true, m.Run
			p.tellOver(ctx, m.Run)
		case n == nil && p.phase == exited && !p.endOrdered: // it was terminated, and others hold its streams
			p.killRest = true
			p.handleNow().Abandon()
			p.killTree(ctx)
			p.endOrdered = true
		case n == nil && p.unread == p.run && m.Run > p.run:
			p.tellOver(ctx, m.Run)
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

// tellEnded tells the group of the end of a run, once.
func (p *process) tellEnded(ctx actor.Context) {
	n := p.interval
	if n.end == nil || n.told >= p.run {
		return
	}
	n.told = p.run
	ctx.Send(p.group, message.MemberEnded{ID: p.id, Run: p.run, End: *n.end, Restart: *p.restart, Anew: p.restartSet})
	p.restartSet = false
}

// report says again what the group may have missed.
func (p *process) report(ctx actor.Context) {
	switch n := p.interval; {
	case p.group == nil:
	case p.phase >= closed:
		m := message.MemberGone{ID: p.id, Reason: p.leaving}
		m.GivenUp = m.Reason != ""
		ctx.Send(p.group, m)
	case n != nil && n.held && n.told > p.run: // it was ended before it had begun
		p.tellOver(ctx, n.told)
	case n != nil && n.held:
		n.told = 0 // advance tells it
	case p.unread == p.run && p.phase == running:
		p.endedUnread(ctx)
	case p.phase == running && p.health.ready:
		ctx.Send(p.group, message.MemberReady{ID: p.id, Run: p.run})
	}
}

// endRun ends a run, but not the process, with its grace.
func (p *process) endRun(ctx actor.Context, reason string) {
	p.shared.At(ctx, env.RunEnding)
	grace := p.killGrace()
	if grace < 0 {
		grace = max(p.shared.KillGrace, 0)
	}
	p.killRest = true
	switch {
	case !p.lives():
		p.killNow(ctx)
	case p.endReason != "": // it has had its SIGTERM
		p.killAt.Sooner(ctx, grace, killDue{p.run})
	default:
		p.endReason = reason
		p.kill(ctx, grace)
	}
}

// endedUnread tells the group of a run that it ended, and of which nothing is left but
// output that nobody takes: the others do not wait for its owner.
func (p *process) endedUnread(ctx actor.Context) {
	if p.group != nil && p.interval == nil && p.endOrdered && p.phase == running {
		p.unread = p.run
		if st, ok := p.handleNow().Status(); ok && p.endReason == "" { // it had ended by itself
			ctx.Send(p.group, message.MemberEnded{ID: p.id, Run: p.run, End: p.endOf(st), Restart: *p.restart, Anew: p.restartSet})
			return
		}
		p.tellOver(ctx, p.run)
	}
}

// tellOver tells the group that a run is over, of whose end nothing more is known.
func (p *process) tellOver(ctx actor.Context, run int) {
	ctx.Send(p.group, message.MemberEnded{ID: p.id, Run: run, End: supervision.End{Requested: true}, Restart: *p.restart})
}
