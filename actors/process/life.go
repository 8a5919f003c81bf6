package process

import (
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file is the shell around life.Life. The shell reports events to the machine, does the actions
// of the machine, and sets its alarm.

func (p *process) lifeConfig() life.Config {
	c := life.Config{
		Grouped:   p.group != nil,
		Restart:   p.launch.Restart,
		KillGrace: max(p.env.KillGrace, 0),
		Keep:      p.keeps(),
		AfterEnd:  p.launch.AfterEnd(),
		Drain:     max(p.env.DrainTimeout, 0),
	}
	if p.feed.Ephemeral { // a program of a sister API: as with the peer, only a shutdown waits
		c.KillGrace, c.ShutdownGrace = 0, c.KillGrace
	}
	if g := p.launch.Params.KillGraceMs; g != nil {
		c.KillGrace = protocol.FromMillis(*g)
	}
	if t := p.launch.Params.TimeoutMs; t != nil {
		c.Timeout = protocol.FromMillis(*t)
	}
	return c
}

// now returns the facts around the process for an input of its life.
func (p *process) now() life.Now {
	h := p.run.handle
	now := life.Now{
		Time:    time.Now(),
		Chance:  rand.Float64(),
		Child:   h != nil,
		Ready:   p.health.Ready(),
		Probing: p.health.isProbing(),
		Watched: p.feed.Watched(),
		Alone:   p.feed.Alone(),
		Trees:   len(p.trees.waiting) > 0,
	}
	if h != nil {
		now.Status, now.Exited = h.Status()
	}
	switch p.life.Phase() { // the others cost something
	case life.Restarting:
		now.Full, now.Paced = p.full(), p.place.Paced(now.Time)
	case life.Closed:
		keep := p.life.Keep()
		now.Served = p.feed.Done(now.Time, p.life.ClosedAt().Add(keep), p.retention(), max(keep, life.StallTime))
	case life.Retired:
		now.TreeEmpty = h == nil || h.TreeEmpty()
	}
	return now
}

// check logs an error of the machine: a bug. The input changed nothing.
func (p *process) check(err error) {
	if err != nil {
		p.log().Error("life of a process", "err", err)
	}
}

// advance does everything due or newly possible, and sets the alarm for the rest.
func (p *process) advance(ctx actor.Context) {
	if p.acting || !p.life.Begun() || p.life.Idle() && p.wake().Equal(p.wakeAt.Due()) {
		return
	}
	p.doDue(ctx)
	last := p.feed.Log.Last()
	for more := true; more; {
		p.act(ctx)
		p.check(p.life.Tick(p.now()))
		if _, more = p.life.Next(); !more && p.feed.Log.Last() > last {
			last, more = p.feed.Log.Last(), true
			p.spread(ctx, time.Time{})
		}
	}
	p.wakeAt.SetTo(ctx, p.wake(), wakeDue{})
}

// uncounted is the last value of counted.
const uncounted = "-"

// count counts the process in its state.
func (p *process) count() {
	if p.counted != uncounted {
		state := p.state()
		p.env.Meters.Processes.Move(p.counted, state)
		p.counted = state
	}
}

// uncount counts the process no more.
func (r *processRecord) uncount() {
	if r.counted != uncounted {
		r.env.Meters.Processes.Move(r.counted, "")
		r.counted = uncounted
	}
}

// doDue does everything due but for the life, which advance asks.
func (p *process) doDue(ctx actor.Context) {
	now := time.Now()
	if due(p.health.Wake(), now) {
		p.health.Tick(p.healthNow())
	}
	p.actHealth(ctx)
	if p.feed.Tick(now) {
		p.held()
	}
	p.answerDue(ctx, now)
	if due(p.stdin.at, now) {
		p.stdin.at = time.Time{}
		p.acceptStdin(ctx)
	}
	if due(p.trees.at, now) {
		p.trees.at = time.Time{}
		p.lookForTree(ctx)
	}
}

// wake returns when advance has something to do, if nothing happens before.
func (p *process) wake() (at time.Time) {
	for _, t := range [...]time.Time{p.life.Wake(), p.health.Wake(), p.feed.Wake(), p.reads.wake(), p.stdin.at, p.trees.at} {
		at = earlier(at, t)
	}
	return at
}

// act does the pending actions. Each case has its effect once, however often the action is done.
func (p *process) act(ctx actor.Context) {
	if _, pending := p.life.Next(); !pending || p.acting {
		return // while acting, the call further up the stack does the actions
	}
	p.acting = true
	env.Act(p.env, ctx, &p.life, func(a life.Action) {
		if !p.doRun(ctx, a) && !p.doLog(ctx, a) {
			p.doTell(ctx, a)
		}
	})
	p.acting = false
}

// doRun does an action about the child.
func (p *process) doRun(ctx actor.Context, a life.Action) bool {
	handle := p.run.handle
	switch a := a.(type) {
	case life.Spawn:
		p.spawn(ctx, a.Run)
	case life.Begin:
		p.begin(ctx)
		if a.Run == 1 && !p.run.begun {
			p.run.begun = true
			p.happened(protocol.ServerEvent{Kind: protocol.ServerStarted, Run: 1, Argv: p.launch.Params.Argv})
		}
	case life.Unwatch:
		p.health.end()
	case life.Finish:
		p.renew(ctx)
	case life.Signal:
		signal := syscall.SIGTERM
		if s, ok := p.launch.Params.StopSignal.Number(); ok {
			signal = s
		}
		p.logErr("stop", handle.Signal(signal))
	case life.Kill:
		p.matchNoMore(ctx)
		p.logErr("SIGKILL", handle.Kill())
	case life.KillTree:
		p.matchNoMore(ctx)
		self, root := ctx.Self(), ctx.ActorSystem().Root
		handle.KillTree(func(err error) { root.Send(self, treeGone{a.Run, err}) })
	case life.Abandon:
		handle.Abandon()
	default:
		return false
	}
	return true
}

// doLog does an action about the log.
func (p *process) doLog(ctx actor.Context, a life.Action) bool {
	log := &p.feed.Log
	log.NowMs = time.Now().UnixMilli()
	switch a := a.(type) {
	case life.LogExited:
		p.launch.RecordEnd(p.life.Run(), a.Status)
		if log.AppendExited(a.Status, p.run.sandbox.Ended(a.Status.ExitCode)) {
			p.happened(protocol.ServerEvent{Kind: protocol.ServerExited, Run: a.Status.Run, Status: &a.Status})
		}
		p.acceptStdin(ctx) // answers the waiting requests, unless another run follows
	case life.LogRestarted:
		lost := int64(0)
		if h := p.run.handle; h != nil {
			lost = h.StdinUnread()
		}
		if log.AppendRestarted(outlog.Restart{Run: a.Run, Reason: a.Reason, Delay: a.Delay, StdinLost: lost}) {
			p.happened(protocol.ServerEvent{Kind: protocol.ServerRestarted, Run: a.Run, Reason: a.Reason})
		}
	case life.LogEvicted:
		if log.AppendEvicted(a.Reason) {
			p.happened(protocol.ServerEvent{Kind: protocol.ServerEvicted, Reason: a.Reason})
		}
	case life.LogClosed:
		p.place.Leave() // before a client is told; the server knows only later whether descendants live
		if !p.launch.AfterEnd() {
			p.launch.Forget()
		}
		ctx.Send(p.session, message.ProcessClosed{Name: p.name})
		if log.AppendClosed() {
			p.happened(protocol.ServerEvent{Kind: protocol.ServerClosed})
			p.trees.seek(p.place != nil)
		}
		p.acceptStdin(ctx) // answers the waiting requests
	case life.Reopen:
		p.trees.at = time.Time{}
		ctx.Send(p.session, message.ProcessReopened{Name: p.name})
		log.Reopen()
		p.awaitHolder()
	case life.DropLog:
		p.feed.Close()
		p.kept.drop(p.feed.Last() + 1)
		p.run.intake.Hold(p.holds())
	case life.Cut:
		p.feed.Cut()
		p.run.intake.Abort() // a pump that waits for a reader's credit waits in vain
		p.spread(ctx, time.Time{})
	default:
		return false
	}
	return true
}

// happened tells the readers of server/events.
func (p *process) happened(e protocol.ServerEvent) {
	e.ProcessID, e.Instance, e.GroupID = p.id, p.instance(), p.launch.GroupID()
	p.events.Put(e)
	m := &p.env.Meters
	m.Events.Add(string(e.Kind), 1)
	if st := e.Status; st != nil {
		m.Finished.Add(resultOf(st), 1)
		if st.OOMKilled {
			m.OOM.Add(1)
		}
	}
}

// resultOf returns the result of a run, in exec-server's words.
func resultOf(st *protocol.ExitStatus) string {
	switch {
	case st.Reason != "":
		return "terminated"
	case st.ExitCode == 0:
		return "success"
	}
	return "failed"
}

// doTell does an action that sends a message or writes to the server's log. Who gets a message twice is not disturbed.
func (p *process) doTell(ctx actor.Context, a life.Action) {
	switch a := a.(type) {
	case life.Announce:
		p.announce(ctx)
	case life.AnswerTrees:
		p.answerTrees(ctx, a.Err)
	case life.TellReady:
		ctx.Send(p.group, message.MemberReady{ID: p.id, Name: p.name, Run: a.Run})
	case life.TellEnded:
		ctx.Send(p.group, message.MemberEnded{ID: p.id, Name: p.name, Run: a.Run, End: a.End, Restart: a.Restart, Anew: a.Anew})
	case life.TellGone:
		ctx.Send(p.group, message.MemberGone{ID: p.id, Name: p.name, Reason: a.Reason, GivenUp: a.GivenUp})
	case life.TellRejoins:
		ctx.Send(p.group, message.MemberRejoins{ID: p.id, Name: p.name, N: a.N})
	case life.TellRetired:
		ctx.Request(p.session, message.ProcessRetired{ID: p.id, Name: p.name, Last: p.feed.Last(), Acked: p.feed.Acked()})
	case life.Unstarted:
		p.env.Log.Warn("the server cannot start a run, and tries again", "actor", p.name, "run", a.Run, "every", life.StartRetry, "err", a.Err)
	case life.StopActor:
		ctx.Stop(ctx.Self())
	default:
		p.log().Error("unexpected action", "action", a)
	}
}

// spawn asks for a child for a run.
func (p *process) spawn(ctx actor.Context, run int) {
	if p.run.asked == run && !p.run.answered() {
		return // an instance that has failed since has asked: two children are worse than none
	}
	p.stdin.at = time.Time{}
	p.stdin.NextRun()
	p.run.sandbox.Begin()
	p.renew(ctx)
	if run > 1 { // the session has counted the first
		p.place.Restarted(time.Now())
	}
	r, in, traced := p.processRecord, p.run.intake, p.traceStart(run)
	p.run.asked = run
	p.kept.dropInput()
	root, self := ctx.ActorSystem().Root, ctx.Self()
	p.outbox.Then(func() {
		p.launch.Start(root, self, run, in, traced, func(h child.Handle, err error) {
			if !in.Started(h, err) {
				r.orphan(h, in)
			}
		})
	})
}

// renew makes an intake for the next run, unless no run has used the present one. The new intake takes
// over the charge for the log before the old one closes: otherwise nothing would be charged for the log.
func (p *process) renew(ctx actor.Context) {
	r, old := p.processRecord, p.run
	if old.intake != nil && !old.answered() {
		return
	}
	in := p.newIntake(ctx)
	if old.intake != nil {
		in.Succeed(old.intake)
	}
	p.run = run{intake: in, sandbox: old.sandbox, containment: old.containment}
	in.Hold(p.holds())
	switch {
	case old.handle != nil:
		p.outbox.Then(func() { r.finish(old.handle, old.intake, nil, nil) })
	case old.intake != nil:
		old.intake.Close()
	}
}

// spawned passes the answer to a start on to the life, if there is an answer.
func (p *process) spawned(ctx actor.Context) {
	if !p.life.Spawning() {
		return
	}
	if p.run.handle != nil || p.run.err != nil {
		p.tracedBirth(p.run.err)
	}
	switch err := p.run.err; {
	case p.run.handle != nil:
		p.run.sandbox = p.run.sandbox.Started(p.run.handle.Sandbox())
		p.check(p.life.Spawned(p.now()))
	case err == nil: // no answer yet
	case launch.OfCommand(err):
		if p.life.Phase() == life.Restarting { // else the answer to process/start says so
			p.log().Info("a run could not be started", "run", p.life.Run(), "err", err)
		}
		p.life.StartFailed(p.now(), err)
	default:
		p.life.NotStarted(p.now(), err)
	}
}

// begin watches a run whose child is there. begin may be repeated.
func (p *process) begin(ctx actor.Context) {
	p.launch.Runs()
	if p.launch.Restart != nil {
		if p.launch.Spec.TTY && p.launch.Spec.Size != (protocol.Size{}) && (p.life.Run() > 1 || p.group != nil) {
			p.logErr("resize", p.run.handle.Resize(p.launch.Spec.Size)) // requests may have come since the child was asked for
		}
	} else {
		p.launch.ForgetRun()
	}
	now := p.healthNow()
	now.Blind = 0 // of an earlier run
	p.health.begin(now, p.launch.Params.Ready)
	p.actHealth(ctx)
	p.acceptStdin(ctx)
}

// exited reports the end of a run to the life. exited may be repeated.
func (p *process) exited(ctx actor.Context, st protocol.ExitStatus) {
	if p.life.Reason() == "" && st.ExitCode == 0 {
		p.health.Exited(p.healthNow())
		p.actHealth(ctx)
	}
	p.check(p.life.Exited(p.now(), st))
	p.act(ctx)
}

// full reports whether the owner has to have some of the log first: ends cost, too.
func (p *process) full() bool {
	extra := int64(0)
	if p.spool != nil {
		extra = child.SpoolOverhead
	}
	return p.feed.Full(extra)
}
