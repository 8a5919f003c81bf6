package actors

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// reasonTerminated is that of an end by process/terminate.
const reasonTerminated = "terminated by request"

const (
	// flushTime is how long a process that is being stopped waits for its viewers to
	// fetch the end of its output.
	flushTime = 2 * time.Second
	// A retired process looks whether its tree has ended: after minLinger, and twice as long each
	// time up to maxLinger.
	minLinger = 50 * time.Millisecond
	maxLinger = 10 * time.Second
)

// errUnseen is of a tree that somebody else goes on killing.
var errUnseen = errors.New("its programs are being killed, and were not yet seen gone")

func (p *process) terminate(ctx actor.Context, m protocol.ProcessTerminateParams) {
	p.killRest = p.killRest || m.Tree
	if p.lives() {
		p.endReason = reasonTerminated
	}
	p.restartAsked, p.terminated = false, true
	if n := p.interval; n != nil {
		n.verdict, n.reason = supervision.Over, reasonTerminated
		if n.treeGone && !n.spawning {
			p.answerTrees(ctx, nil)
		}
		return
	}
	grace := time.Duration(0)
	if m.GraceMs != nil {
		grace = env.FromMillis(*m.GraceMs)
	}
	p.kill(ctx, grace)
}

func (p *process) timeout(ctx actor.Context) {
	switch {
	case !p.lives():
	case p.endReason != "": // it is being ended, and has no longer for that
		p.kill(ctx, p.killGrace())
	default:
		p.timedOut = true
		p.fail(ctx, "timed out")
	}
}

// fail ends a run for a fault of its own, unless it is being ended.
func (p *process) fail(ctx actor.Context, fault string) {
	if p.endReason == "" {
		p.fault, p.endReason, p.killRest = fault, fault, true
		p.kill(ctx, p.killGrace())
	}
}

// killGrace is the time between SIGTERM and SIGKILL that the client asked for;
// negative if it did not.
func (p *process) killGrace() time.Duration {
	if g := p.params.KillGraceMs; g != nil {
		return env.FromMillis(*g)
	}
	return -1
}

// kill ends the process after grace, which is over when the program ends.
func (p *process) kill(ctx actor.Context, grace time.Duration) {
	if !p.lives() || grace <= 0 {
		p.killNow(ctx)
		return
	}
	signal := syscall.SIGTERM
	if s, ok := p.params.StopSignal.Number(); ok {
		signal = s
	}
	p.logErr("stop", p.handleNow().Signal(signal))
	p.killAt.Sooner(ctx, grace, killDue{p.run}) // no later wish puts it off
}

// killNow kills the program, and where that was asked for all that it started.
func (p *process) killNow(ctx actor.Context) {
	p.matchNoMore(ctx)
	switch {
	case p.killRest || p.stopping != nil:
		p.killTree(ctx)
	case p.phase == running:
		p.logErr("SIGKILL", p.handleNow().Kill())
	}
}

// stop ends the process with all of its tree, and then the actor.
func (p *process) stop(ctx actor.Context, m message.Stop) {
	p.stopping = &m
	p.shared.At(ctx, env.StopSet)
	if p.handleNow() == nil {
		if p.phase > starting && (p.interval == nil || !p.interval.spawning) {
			p.treeGone(ctx, treeGone{run: p.run}) // the last run could not be started: nothing is left of any
		}
		return // else spawned comes back to it
	}
	if p.lives() && p.endReason == "" {
		p.endReason = m.Reason
	}
	grace := p.killGrace()
	if m.Shutdown >= 0 {
		if grace < 0 {
			grace = m.Shutdown
		}
		grace = min(grace, m.Shutdown)
	}
	p.kill(ctx, grace)
}

// killTree ends everything that descends from the child.
func (p *process) killTree(ctx actor.Context) {
	handle := p.handleNow()
	if handle == nil {
		p.answerTrees(ctx, nil) // it could not be started
	}
	if p.killing || handle == nil {
		return
	}
	p.killing = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	run := p.run
	handle.KillTree(func(err error) { root.Send(self, treeGone{run, err}) })
}

func (p *process) treeGone(ctx actor.Context, m treeGone) {
	if m.err != nil {
		p.shared.Log.Error("kill tree", "actor", p.name, "err", m.err)
	}
	if m.run != p.run {
		return // of a run that is over: it was asked for twice
	}
	p.killing = false
	p.answerTrees(ctx, m.err)
	p.shared.At(ctx, env.TreeGoneSet)
	if n := p.interval; n != nil {
		n.treeGone = true
		if m.err != nil {
			n.verdict, n.reason = supervision.GivenUp, "what the last run left could not be killed"
		}
		p.advance(ctx)
	} else if m.err == nil {
		p.endedUnread(ctx)
	}
	if p.stopping == nil {
		return
	}
	p.treeDone = true
	p.survivors = m.err
	if h := p.handleNow(); h != nil {
		h.Abandon()
	}
	p.flushAt.Set(ctx, flushTime, flushDue{})
	p.spread(ctx) // what was held back, too
}

// parkTree keeps a process/terminate until the tree is gone, and reports whether the same one
// waits already. Then the first says what there was to end, and the newest is answered.
func (p *process) parkTree(r *parked) (again bool) {
	if key, ok := keyOf(r.params); ok {
		p.trees = slices.DeleteFunc(p.trees, func(first *parked) bool {
			k, ok := keyOf(first.params)
			if !ok || k != key {
				return false
			}
			r.tree, again = first.tree, true
			return true
		})
	}
	p.trees = append(p.trees, r)
	return again
}

// dropTrees forgets the process/terminate of those who have gone, unless it can be sent again:
// then its answer is remembered.
func (p *process) dropTrees(gone func(*parked) bool) {
	p.trees = slices.DeleteFunc(p.trees, func(r *parked) bool {
		_, again := keyOf(r.params)
		return gone(r) && !again
	})
	p.trees = slices.Delete(p.trees, 0, max(len(p.trees)-maxAnswers, 0))
}

// answerTrees answers those who wait for the tree to be gone.
func (p *process) answerTrees(ctx actor.Context, err error) {
	for _, r := range p.trees {
		if err != nil {
			p.reply(ctx, r, nil, protocol.Errorf(protocol.CodeInternal, "process %s: %v", p.id, err))
		} else {
			p.reply(ctx, r, r.tree, nil)
		}
	}
	p.trees = nil
}

// unseen says what is left of the process, or why that is not known; nil if all was seen gone.
func (p *process) unseen() error {
	switch h := p.handleNow(); {
	case p.survivors != nil:
		return p.survivors
	case h != nil && !h.TreeEmpty():
		return errUnseen
	}
	return nil
}

// mayGo stops the actor if that was asked for, the tree is gone, and its viewers
// have been given the end of the log or had their time for it.
func (p *process) mayGo(ctx actor.Context) {
	if p.stopping == nil || !p.treeDone || p.phase < closed && p.survivors == nil || p.health.probing.Load() {
		return
	}
	if !p.feed.Watched() {
		ctx.Stop(ctx.Self())
	}
}

// keeps is how long the process can be read once it has closed.
func (p *process) keeps() time.Duration {
	if p.feed.Ephemeral {
		return 0
	}
	return max(p.shared.ClosedRetention, 0)
}

// retire makes the session forget a closed process once its retention is over
// and its owner had a chance to read it; the actor stays until its tree is gone.
func (p *process) retire(ctx actor.Context) {
	if p.phase == closed {
		wait := p.keeps()
		switch left := wait - time.Since(p.closedAt); {
		case left > 0:
			p.retireAt.Set(ctx, left, retireDue{})
			return
		case len(p.trees) > 0: // their answer needs the process
			p.retireAt.Set(ctx, minLinger, retireDue{})
			return
		case !p.feed.Done(time.Now(), p.closedAt.Add(wait), wait, max(wait, flushTime)):
			p.retireAt.Set(ctx, max(wait, time.Second), retireDue{})
			return
		}
		p.phase = retired
		p.shared.At(ctx, env.RetiredPhase)
	}
	if p.phase == retired {
		p.feed.Close()
		p.intake.Hold(p.holds())
	}
	switch {
	case p.phase < closed:
		return
	case !p.forgotten: // said again until the session has heard it
		ctx.Request(p.session, message.ProcessRetired{ID: p.id, Name: p.name, Last: p.feed.Last()})
	case p.handleNow() == nil || p.handleNow().TreeEmpty():
		ctx.Stop(ctx.Self())
		return
	}
	p.lingers = min(max(2*p.lingers, minLinger), maxLinger)
	p.retireAt.Set(ctx, p.lingers, retireDue{})
}

// leave is the last that the actor does.
func (p *process) leave() {
	p.gauge.HeldBytes.Add(-p.gauged)
	p.gauged = 0
	p.release()
	p.feed.Close()
	if p.intake != nil {
		p.intake.Hold(0, 0) // now: the end of its tree may take long, or not come
	}
	p.destroy()
}

// destroy leaves nothing behind, whatever the actor stops of. Any goroutine.
func (r *processRecord) destroy() {
	r.mu.Lock()
	r.gone = true
	handle, failed := r.handle, r.startErr != nil
	r.handle = nil
	r.mu.Unlock()
	if r.spool != nil {
		r.spool.Close()
	}
	if handle == nil {
		if failed { // else the spawner comes back here, or there is no run yet
			r.intake.Close()
		}
		return
	}
	log, name := r.shared.Log, r.name
	handle.Finish(func(err error) {
		r.intake.Close() // the log goes with the record
		if err != nil {
			log.Error("finish", "actor", name, "err", err)
		}
	})
}
