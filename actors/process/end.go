package process

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// errUnseen means: the tree is still being killed, and was not yet seen gone.
var errUnseen = errors.New("its programs are being killed, and were not yet seen gone")

// terminate is process/terminate.
func (p *process) terminate(m protocol.ProcessTerminateParams) {
	grace := time.Duration(0)
	if m.GraceMs != nil {
		grace = protocol.FromMillis(*m.GraceMs)
	}
	p.life.Terminate(p.now(), grace, m.Tree)
}

// treeGone is the answer to KillTree.
func (p *process) treeGone(ctx actor.Context, m treeGone) {
	if m.err != nil {
		p.log().Error("kill tree", "err", m.err)
	}
	p.life.TreeGone(p.now(), m.run, m.err)
	if m.run == p.life.Run() && p.life.Phase() >= life.Closed {
		p.treeSeen(ctx, treeSeen{run: m.run, empty: m.err == nil})
	}
}

// lookForTree looks for descendants of a closed process: treeSeen follows.
func (p *process) lookForTree(ctx actor.Context) {
	if h := p.run.handle; h != nil && p.life.Phase() >= life.Closed {
		self, root, run := ctx.Self(), ctx.ActorSystem().Root, p.life.Run()
		h.SearchTree(func(empty bool, err error) { root.Send(self, treeSeen{run, empty, err}) })
	}
}

// treeSeen handles the answer to SearchTree. Descendants that live take the place again. The place stays as it is if the
// answer is unknown.
func (p *process) treeSeen(ctx actor.Context, m treeSeen) {
	h := p.run.handle
	switch {
	case h == nil: // forgotten
	case m.empty:
		p.place.Leave()
		if !p.life.Kills() {
			p.forgetChild(h)
		}
	default:
		if m.err == nil {
			p.place.Return()
		}
		p.trees.seek(p.place != nil)
	}
}

// forgetChild lets go of the child of a closed process without descendants: whoever reads the log does not need
// the child, with its streams, its files and its cgroup. The intake stays, because it is charged for the log.
func (p *process) forgetChild(h child.Handle) {
	p.trees.at = time.Time{}
	p.run.containment = h.Containment()
	p.run.handle, p.run.forgot = nil, true
	r := p.processRecord
	p.outbox.Then(func() { r.finish(h, nil, nil, nil) })
}

// lives reports whether the program runs. A program may have ended before its exit is in the log:
// the exit comes after unread output.
func (p *process) lives() bool {
	return p.life.Phase() == life.Running && p.run.lives()
}

// answerTrees answers each process/terminate that waits for the end of the tree.
func (p *process) answerTrees(ctx actor.Context, err error) {
	for _, r := range p.trees.waiting {
		if err != nil {
			p.reply(ctx, r, nil, protocol.Errorf(protocol.KindSurvivors, protocol.CodeInternal, "process %s: %v", p.id, err))
		} else {
			p.reply(ctx, r, r.tree, nil)
		}
	}
	p.trees.waiting = nil // after the replies: an instance that fails in between answers again
}

// unseen describes the processes left of the tree; nil if all were seen gone.
func (p *process) unseen() error {
	switch h := p.run.handle; {
	case p.life.Survivors() != nil:
		return p.life.Survivors()
	case h != nil && !h.TreeEmpty():
		return errUnseen
	}
	return nil
}

// forSession is longer than a session lives.
const forSession = 100 * 365 * 24 * time.Hour

// keeps returns how long the process can be read after closed.
func (p *process) keeps() time.Duration {
	if p.launch.AfterEnd() && !p.feed.Ephemeral {
		return forSession
	}
	return p.retention()
}

// retention is how long the owner of a closed process has to read the rest.
func (p *process) retention() time.Duration {
	if p.feed.Ephemeral {
		return 0
	}
	return max(p.env.ClosedRetention, 0)
}

// leave gives back everything of the process, and kills its tree. leave may be repeated.
func (p *process) leave() {
	p.uncount()
	p.env.Notices.Gone(p.noticed.mark)
	p.gauge.hold(0)
	p.leaveScreen()
	p.launch.Release()
	p.feed.Close()
	if p.run.intake != nil {
		p.run.intake.Hold(0, 0) // now: the end of its tree may take long, or not come
	}
	p.destroy()
}

// destroy kills the child with its tree, and closes the spool and the intake. A child under way meets the same end: see orphan.
// destroy may be repeated.
func (r *processRecord) destroy() {
	handle, unused := r.run.handle, r.run.err != nil || r.run.forgot
	r.run.handle = nil
	if r.spool != nil {
		r.spool.Close()
	}
	if r.run.intake == nil { // there is no run yet
		r.place.Leave()
		return
	}
	if h, answered := r.run.intake.Leave(); answered {
		if handle == nil && h != nil {
			r.launch.RecordUnseen(r.life.Run())
		}
		handle, unused = h, true
	}
	switch {
	case handle != nil:
		in := r.run.intake
		r.outbox.Then(func() { r.finish(handle, in, r.place, r.kept.free) })
	default:
		r.place.Leave()
		if unused { // else orphan closes the intake, or no run was asked for
			r.run.intake.Close()
		}
		if unused || r.run.asked == 0 {
			r.outbox.Then(r.kept.free)
		}
	}
}

// orphan is for the answer to a start of an actor that has stopped; h is nil if there is no child. Any goroutine.
func (r *processRecord) orphan(h child.Handle, in *child.Intake) {
	if h == nil {
		in.Close()
		r.kept.free()
		return
	}
	r.finish(h, in, r.place, r.kept.free)
}

// finish lets go of a child, and then of the intake of its run and of place; nil: none. Then finish calls done, unless done is nil or the child may go on.
// Any goroutine.
func (r *processRecord) finish(handle child.Handle, in *child.Intake, place *quota.Place, done func()) {
	log, name := r.env.Log, r.name
	handle.Finish(func(err error) {
		if in != nil {
			in.Close()
		}
		place.Leave()
		if err != nil {
			log.Error("finish", "actor", name, "err", err)
		} else if done != nil { // after an error the child may go on
			done()
		}
	})
}
