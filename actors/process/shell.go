package process

import (
	"cmp"
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
	if spec.Prepare != nil || spec.Umask != nil || spec.NoNewPrivs {
		return nil // processes with other users and masks share the captures of a session
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
func (p *process) startChild(ctx actor.Context, spec child.Spec, run int, done func(child.Handle, error)) {
	r, in, self, root := p.processRecord, p.intake, ctx.Self(), ctx.ActorSystem().Root
	if p.env.Audit == nil {
		r.startRecorded(self, root, spec, in, done)
		return
	}
	done = r.recorded(run, done)
	p.env.Audit.Start(r.startEvent(spec, run), func(err error) {
		if err = cmp.Or(r.mayStart(), refusalOf(err)); err != nil {
			done(nil, err)
			return
		}
		r.startRecorded(self, root, spec, in, done)
	})
}

// startRecorded starts a child whose start is on record. Any goroutine; startRecorded does not block.
func (r *processRecord) startRecorded(self *actor.PID, root *actor.RootContext, spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
	if r.shell == nil {
		r.env.StartChild(spec, in, done)
		return
	}
	r.shell.Begin(r.env, root, spec)
	r.env.Run(root, self, "shell snapshot", func() {
		spec, err := r.shell.Wait(spec)
		if err = cmp.Or(err, r.mayStart()); err != nil {
			done(nil, err)
			return
		}
		r.env.StartChild(spec, in, done)
	})
}

// mayStart returns errGone if the actor has stopped.
func (r *processRecord) mayStart() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return errGone
	}
	return nil
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
