package launch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/protocol"
)

// errGone means: the actor has stopped before its child was started.
var errGone = protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "the process was given up before it was started")

// shellOf returns the state for the start of a process; nil: the process starts as it is.
func shellOf(r Request, spec child.Spec) *shellstate.Start {
	if r.Shells == nil || !r.Params.Snapshots() {
		return nil
	}
	s := r.Params.ShellSnapshot
	return look(r, &shellstate.Start{Key: shellstate.KeyOf(s, r.Params.User, spec), Shell: s.Shell.Name, Policy: s.EnvPolicy(), Own: s.Own()})
}

// look gives a Start its Capture. look returns nil if there is no room for one.
func look(r Request, s *shellstate.Start) *shellstate.Start {
	if s.Capture, s.Session = r.Shells.Look(time.Now(), s.Key, r.Gauge.Account), r.Session; s.Capture == nil {
		return nil
	}
	return s
}

// A start is a child under way. Its steps follow each other: choose the user, look whether the policy allows the program,
// record the start, wait for the state of the shell, start the child.
type start struct {
	*Launch
	spec child.Spec
	run  int
	in   *child.Intake
	self *actor.PID // the process
	root *actor.RootContext
	done func(child.Handle, error)
}

// Tracing is how a start takes part in a trace. The zero Tracing: not at all.
type Tracing struct {
	Forks     func()   // as child.Spec.Forks
	Variables []string // NAME=value, in place of those of the client with these names
}

// Start starts the child of a run for the process self, and calls done as StartChild does. Before the server records a start,
// it looks whether the start may be tried at all: otherwise a client without rights could fill the record with starts. Start
// does not block.
func (l *Launch) Start(root *actor.RootContext, self *actor.PID, run int, in *child.Intake, traced Tracing, done func(child.Handle, error)) {
	spec := l.Spec
	spec.Forks = traced.Forks
	spec.Env = withVariables(spec.Env, traced.Variables)
	spec.Name = l.NameOf(run)
	s := &start{l, spec, run, in, self, root, done}
	if l.user == nil && l.Env.Audit == nil {
		s.begin()
		return
	}
	var now *chosen
	l.Env.Host.Ask(spec, func(step func(what string)) (err error) {
		if s.user != nil {
			if now, err = s.user.make(s.Env); err != nil {
				return err
			}
			s.user.apply(now, &spec)
		}
		if s.Env.Audit != nil {
			err = s.Env.Host.Look(spec, step)
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

// withVariables returns an environment with variables in place of those with the same names.
func withVariables(environ, more []string) []string {
	if len(more) == 0 {
		return environ
	}
	all := slices.Clone(more)
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(more, func(m string) bool { return strings.HasPrefix(m, name+"=") }) {
			all = append(all, v)
		}
	}
	return all
}

// record records the start, if there is an audit log. Neither record nor begin blocks.
func (s *start) record() {
	if s.Env.Audit == nil {
		s.begin()
		return
	}
	s.done = s.recorded(s.done)
	s.Env.Audit.Start(s.startEvent(s.spec, s.run), func(err error) {
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
		s.Env.StartChild(s.spec, s.in, s.done)
		return
	}
	s.shell.Begin(s.Env, s.root, s.spec)
	s.Env.Run(s.root, s.self, "shell snapshot", func() {
		spec, err := s.shell.Wait(s.spec)
		if err = cmp.Or(err, s.mayStart()); err != nil {
			s.done(nil, err)
			return
		}
		s.Env.StartChild(spec, s.in, s.done)
	})
}

// mayStart returns errGone if the actor has stopped.
func (s *start) mayStart() error {
	if s.in.Left() {
		return errGone
	}
	return nil
}

// ProbeSpec returns what to run for a probe; its Name and Context are missing.
func (l *Launch) ProbeSpec(probe *protocol.Probe) child.Spec {
	spec := child.Spec{
		Argv:   probe.Argv,
		Dir:    l.Spec.Dir,
		Env:    l.Spec.Env,
		Limits: l.Spec.Limits,
		Owner:  l.Spec.Owner,

		Umask:      l.Spec.Umask,
		NoNewPrivs: l.Spec.NoNewPrivs,
		Sandbox:    l.Spec.Sandbox,
		Rule:       l.Spec.Rule,

		DefaultSandbox: l.Spec.DefaultSandbox,
		RequireSandbox: l.Spec.RequireSandbox,
	}
	if l.user != nil {
		l.user.apply(l.user.now.Load(), &spec)
	}
	return spec
}
