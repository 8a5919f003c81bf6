package process

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/shellstate"
	"github.com/b6f6fdd7/troupe/protocol"
)

// errGone means: the actor has stopped before its child was started.
var errGone = errors.New("the process was given up before it was started")

// shellOf returns the state for the start of a process; nil: the process starts as it is.
func shellOf(o Options, spec child.Spec) *shellstate.Start {
	if o.Shells == nil || !o.Params.Snapshots() {
		return nil
	}
	s := o.Params.ShellSnapshot
	capture := o.Shells.Look(time.Now(), shellstate.KeyOf(s, spec.Dir), o.Gauge.Account)
	if capture == nil {
		return nil
	}
	return &shellstate.Start{Capture: capture, Shell: s.Shell.Name, Policy: s.EnvPolicy(), Own: s.Own(), Session: o.Session}
}

// startChild starts the child of a run, and calls done as StartChild does. A process with the state of
// a shell waits for the state first.
func (p *process) startChild(ctx actor.Context, spec child.Spec, done func(child.Handle, error)) {
	if p.shell == nil {
		p.env.StartChild(spec, p.intake, done)
		return
	}
	r, in, self, root := p.processRecord, p.intake, ctx.Self(), ctx.ActorSystem().Root
	p.shell.Begin(p.env, root, spec)
	p.env.Run(root, self, "shell snapshot", func() {
		spec, err := r.shell.Wait(spec)
		r.mu.Lock()
		if r.gone && err == nil {
			err = errGone
		}
		r.mu.Unlock()
		if err != nil {
			done(nil, err)
			return
		}
		r.env.StartChild(spec, in, done)
	})
}

// policyBytes is about how much memory a policy takes.
func policyBytes(p *protocol.EnvPolicy) int64 {
	if p == nil {
		return 0
	}
	n := stringsBytes(p.Exclude) + stringsBytes(p.IncludeOnly)
	for name, value := range p.Set {
		n += stringsBytes([]string{name, value})
	}
	return n
}
