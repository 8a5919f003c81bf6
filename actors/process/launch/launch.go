// Package launch says what a process runs: which program, as whom, where, with which environment and limits, in which sandbox
// and under which rules of the operator. A Launch lives as long as its process: each run begins with Start.
//
//   - launch.go: Request and Launch
//   - spec.go: what the client asks for becomes a child.Spec
//   - user.go, rule.go, sandbox.go: as whom, under which rule, in which sandbox, which is asked again before each run
//   - start.go: the steps of the start of a run
//   - kept.go: the memory of arguments and environments, which a session bounds
//   - audit.go: the events of the audit log about processes
package launch

import (
	"context"
	"strconv"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Request describes what a new process runs.
type Request struct {
	Name      string // of the actor, of its cgroup and of its mark
	Params    protocol.ProcessStartParams
	Session   *actor.PID        // hears of the captures of the shell
	By        audit.Who         // who starts the process, for the audit log
	Closes    context.Context   // done when the session closes: then a start without a child is given up
	Owner     string            // see child.Spec
	Identity  string            // to whom the session belongs
	Gauge     *message.Gauge    // of the session
	Ephemeral bool              // a program of a sister API, which has no record of the variables that it inherits
	Grouped   bool              // the process is a member of a group
	GroupID   string            // the client's; "": none
	Shares    Environments      // of the processes started together; nil: no other process shares
	Shells    *shellstate.Cache // of the session; nil: there are no snapshots
	StdinRate *pace.Meter       // nil: none
}

// Launch is what a process runs. Receive of the process owns Params and Spec. Start and the methods about the audit log may
// be called by goroutines of the process, too.
type Launch struct {
	Env *env.Env `lost:"of this server"` // fixed
	// Params are the client's, without what Spec has. They are kept for long: New has dropped the large ones.
	Params *protocol.ProcessStartParams
	// Restart is the policy at the start; nil: the process is run once. Fixed: life has the present policy.
	Restart *supervision.Restart
	// Spec is what each run starts with. Its Size is that of the newest Resize.
	Spec child.Spec

	// Fixed by New.
	user  *choice           // nil: the server has no policy for users
	shell *shellstate.Start // the state that each run starts from; nil: none

	origin        *origin   // nil: the process has no group, and there is no audit log
	argv, environ hold      `lost:"counted again"` // the memory of the arguments and of the environment in Spec and Params
	shellOnce     sync.Once `lost:"of shell"`      // releases shell.Capture

	version uint64 `lost:"of this server"` // counts the changes of what is kept. Owned by Receive
}

// New prepares a launch, or says why the process cannot be started. The caller calls Release once no run can follow.
func New(e *env.Env, r Request) (*Launch, *protocol.Error) {
	spec, err := specOf(e, r.Params, r.Name)
	if err != nil {
		return nil, err
	}
	params := r.Params
	if err := confine(&spec, &params); err != nil {
		return nil, err
	}
	if params.TimeoutMs, err = runTime(e, params.TimeoutMs); err != nil {
		return nil, err
	}
	restart, err := policy.ParseRestart(params.Restart)
	if err != nil {
		return nil, err
	}
	if r.Grouped && restart == nil {
		restart = &supervision.Restart{Policy: supervision.Temporary}
	}
	user, err := choiceOf(e, r)
	if err != nil {
		return nil, err
	}
	spec.Owner = r.Owner
	tie(e, r, &spec)
	l := &Launch{Env: e, Params: &params, Restart: restart, Spec: spec, user: user, shell: shellOf(r, spec), origin: originOf(r, e.Audit != nil)}
	// The spec has them: the launch is kept for long.
	params.Env, params.EnvPolicy, params.Arg0, params.Metadata, params.DependsOn = nil, nil, nil, nil, nil
	params.Label = "" // its group has it
	params.ShellSnapshot, params.Sandbox = nil, nil
	params.Argv = clipArgv(params.Argv)
	if params.Cwd = spec.Dir; !inHome(spec.Dir) {
		params.Cwd = protocol.FileURI(spec.Dir) // the client's URI may be far longer
	}
	if err := l.keep(r.Gauge, r.Shares); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// tie gives spec what belongs to this server and to the session of r.
func tie(e *env.Env, r Request, spec *child.Spec) {
	spec.Context, spec.StdinRate = r.Closes, r.StdinRate
	prepareRule(e, r, spec)
}

// Revive makes a Launch complete that an earlier server has left. r is the Request of New, but for what l has.
func (l *Launch) Revive(e *env.Env, r Request) *protocol.Error {
	l.Env, r.Params = e, *l.Params
	tie(e, r, &l.Spec)
	if l.user != nil {
		l.user.now.Store(l.user.is)
	}
	l.Spec.DefaultSandbox = e.DefaultSandbox
	if l.Spec.Sandbox == nil {
		l.Spec.Looks = looksOf(l.Params.Ready, l.Params.Liveness)
	}
	switch {
	case l.shell == nil:
	case l.Spec.Argv == nil: // no run follows
		l.shell = nil
	default:
		l.shell = look(r, l.shell)
	}
	return l.keep(r.Gauge, r.Shares)
}

// Version implements record.Versioned. A nil Launch has version 0.
func (l *Launch) Version() uint64 {
	if l == nil {
		return 0
	}
	return l.version
}

// Resize sets the size of the terminal of later runs.
func (l *Launch) Resize(size protocol.Size) {
	l.version++
	l.Spec.Size = size
}

// NameOf returns the name of the child of a run: of its cgroup, and its mark.
func (l *Launch) NameOf(run int) string {
	if run > 1 {
		return l.Spec.Name + "." + strconv.Itoa(run)
	}
	return l.Spec.Name
}

// probes reports whether the server runs commands beside the process, with its environment.
func (l *Launch) probes() bool {
	live, ready := l.Params.Liveness, l.Params.Ready
	return live != nil && live.Probe != nil || ready != nil && ready.Probe != nil
}

// AfterEnd reports whether process/restart runs the process again after its end, too.
func (l *Launch) AfterEnd() bool { return l.Params.Restart != nil && l.Params.Restart.AfterEnd }

// ForgetRun drops what only another run would need, once the only run has its child. Probes keep what they need.
func (l *Launch) ForgetRun() {
	l.version++
	l.Spec.Argv = nil
	if !l.probes() {
		l.Spec.Env, l.Spec.Sandbox = nil, nil
		l.Release()
	}
}

// Forget drops what a run or a probe would need: none follows. The arguments that process/list shows stay.
func (l *Launch) Forget() {
	ready := l.Params.Ready
	probed := ready != nil && ready.Probe != nil
	if l.Spec.Argv != nil || l.Spec.Env != nil || l.Spec.Sandbox != nil || l.Params.Liveness != nil || probed { // otherwise after ForgetRun
		l.version++
		l.Spec.Argv, l.Spec.Env, l.Spec.Sandbox, l.Params.Liveness = nil, nil, nil, nil
	}
	if probed {
		l.Params.Ready = &protocol.Ready{Probe: &protocol.Probe{Argv: clipArgv(ready.Probe.Argv), HTTP: ready.Probe.HTTP}}
	}
	l.Release()
}

// Release gives back the memory that keep has counted, and the state of the shell. Any goroutine may call Release, repeatedly.
func (l *Launch) Release() {
	l.argv.release()
	l.environ.release()
	if l.shell != nil {
		l.shellOnce.Do(l.shell.Capture.Release)
	}
}

// User returns the user of the present run, or else of the last; nil: the user of the server.
func (l *Launch) User() *child.User { return l.user.user() }

// GroupID returns the client's id of the group; "": none.
func (l *Launch) GroupID() string {
	if l.origin == nil {
		return ""
	}
	return l.origin.groupID
}
