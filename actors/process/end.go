package process

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// errUnseen means: the tree is still being killed, and was not yet seen gone.
var errUnseen = errors.New("its programs are being killed, and were not yet seen gone")

// terminate is process/terminate.
func (p *process) terminate(m protocol.ProcessTerminateParams) {
	grace := time.Duration(0)
	if m.GraceMs != nil {
		grace = env.FromMillis(*m.GraceMs)
	}
	p.life.Terminate(p.now(), grace, m.Tree)
}

// treeGone is the answer to KillTree.
func (p *process) treeGone(ctx actor.Context, m treeGone) {
	if m.err != nil {
		p.env.Log.Error("kill tree", "actor", p.name, "err", m.err)
	}
	p.life.TreeGone(p.now(), m.run, m.err)
	p.env.At(ctx, env.TreeGoneSet)
	if p.life.Stopping() {
		p.spread(ctx) // while stopping, feed.Next holds nothing back from an owner
	}
}

// lives reports whether the program runs. A program may have ended before its exit is in the log:
// the exit comes after unread output.
func (p *process) lives() bool {
	return p.life.Phase() == life.Running && !p.handleNow().Exited()
}

// parkTree keeps a process/terminate until the tree is gone, and reports whether the same request
// waits already. Then the newest request gets the answer, with the running of the first.
func (p *process) parkTree(r *parked) (again bool) {
	if key, ok := repeat.Key(r.params); ok {
		p.trees = slices.DeleteFunc(p.trees, func(first *parked) bool {
			k, ok := repeat.Key(first.params)
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

// dropTrees forgets each process/terminate whose sender has gone. A request with a requestId stays,
// so that its answer is remembered for the repetition.
func (p *process) dropTrees(gone func(*parked) bool) {
	p.trees = slices.DeleteFunc(p.trees, func(r *parked) bool {
		_, again := repeat.Key(r.params)
		return gone(r) && !again
	})
	p.trees = slices.Delete(p.trees, 0, max(len(p.trees)-repeat.MaxAnswers, 0))
}

// answerTrees answers each process/terminate that waits for the end of the tree.
func (p *process) answerTrees(ctx actor.Context, err error) {
	for _, r := range p.trees {
		if err != nil {
			p.reply(ctx, r, nil, protocol.Errorf(protocol.KindSurvivors, protocol.CodeInternal, "process %s: %v", p.id, err))
		} else {
			p.reply(ctx, r, r.tree, nil)
		}
	}
	p.trees = nil
}

// unseen describes the processes left of the tree; nil if all were seen gone.
func (p *process) unseen() error {
	switch h := p.handleNow(); {
	case p.life.Survivors() != nil:
		return p.life.Survivors()
	case h != nil && !h.TreeEmpty():
		return errUnseen
	}
	return nil
}

// keeps returns how long the process can be read after closed.
func (p *process) keeps() time.Duration {
	if p.feed.Ephemeral {
		return 0
	}
	return max(p.env.ClosedRetention, 0)
}

// leave gives back everything of the process, and kills its tree. leave may be repeated.
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

// destroy kills the child with its tree, and closes the spool and the intake. Any goroutine may call
// destroy, repeatedly.
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
		r.place.leave()
		if failed { // else the spawner comes back here, or there is no run yet
			r.intake.Close()
		}
		return
	}
	r.finish(handle, r.intake, r.place)
}

// finish lets go of a child, and then of the intake of its run and of place. Any goroutine.
func (r *processRecord) finish(handle child.Handle, in *child.Intake, place *place) {
	log, name := r.env.Log, r.name
	handle.Finish(func(err error) {
		in.Close()
		place.leave()
		if err != nil {
			log.Error("finish", "actor", name, "err", err)
		}
	})
}
