package process

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/protocol"
)

// errGone means: the actor has stopped before its child was started.
var errGone = protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "the process was given up before it was started")

// shellOf returns the state for the start of a process; nil: the process starts as it is.
func shellOf(o Options, spec child.Spec) *shellstate.Start {
	if o.Shells == nil || !o.Params.Snapshots() {
		return nil
	}
	s := o.Params.ShellSnapshot
	capture := o.Shells.Look(time.Now(), shellstate.KeyOf(s, o.Params.User, spec), o.Gauge.Account)
	if capture == nil {
		return nil
	}
	return &shellstate.Start{Capture: capture, Shell: s.Shell.Name, Policy: s.EnvPolicy(), Own: s.Own(), Session: o.Session}
}

// A start is a child under way. Its steps follow each other: choose the user, look whether the policy allows the program,
// record the start, wait for the state of the shell, start the child.
type start struct {
	*processRecord
	spec child.Spec
	run  int
	in   *child.Intake
	self *actor.PID
	root *actor.RootContext
	done func(child.Handle, error)
}

// startChild starts the child of a run, and calls done as StartChild does. Before the server records a start, it looks whether
// the start may be tried at all: otherwise a client without rights could fill the record with starts.
func (p *process) startChild(ctx actor.Context, spec child.Spec, run int, done func(child.Handle, error)) {
	s := &start{p.processRecord, spec, run, p.intake, ctx.Self(), ctx.ActorSystem().Root, done}
	if p.user == nil && p.env.Audit == nil {
		s.begin()
		return
	}
	var now *chosen
	p.env.Host.Ask(spec, func(step func(what string)) (err error) {
		if s.user != nil {
			if now, err = s.user.make(s.env); err != nil {
				return err
			}
			s.user.apply(now, &spec)
		}
		if s.env.Audit != nil {
			err = s.env.Host.Look(spec, step)
		}
		return err
	}, func(err error) {
		if err = cmp.Or(err, s.mayStart()); err != nil {
			s.recordUntried(err)
			done(nil, err)
			return
		}
		if s.user != nil {
			s.user.now.Store(now)
		}
		s.spec = spec
		s.record()
	})
}

// record records the start, if there is an audit log. Neither record nor begin blocks.
func (s *start) record() {
	if s.env.Audit == nil {
		s.begin()
		return
	}
	s.done = s.recorded(s.run, s.done)
	s.env.Audit.Start(s.startEvent(s.spec, s.run), func(err error) {
		if err = cmp.Or(s.mayStart(), refusalOf(err)); err != nil {
			s.done(nil, err)
			return
		}
		s.begin()
	})
}

// begin starts a child whose start is on record.
func (s *start) begin() {
	if s.shell == nil {
		s.env.StartChild(s.spec, s.in, s.done)
		return
	}
	s.shell.Begin(s.env, s.root, s.spec)
	s.env.Run(s.root, s.self, "shell snapshot", func() {
		spec, err := s.shell.Wait(s.spec)
		if err = cmp.Or(err, s.mayStart()); err != nil {
			s.done(nil, err)
			return
		}
		s.env.StartChild(spec, s.in, s.done)
	})
}

// mayStart returns errGone if the actor has stopped.
func (s *start) mayStart() error {
	if s.in.Left() {
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
