package launch

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

const (
	// maxKillGrace bounds how long a process may outlive the end of its session.
	maxKillGrace = time.Hour
)

// maxArgv is how much of an argv process/list shows, in bytes.
const maxArgv = 4 << 10

// clipArgv returns the part of argv for process/list.
func clipArgv(argv []string) []string {
	left := maxArgv
	for i, arg := range argv {
		if len(arg) >= left { // with its NUL: empty ones count too
			return append(slices.Clone(argv[:i]), strings.Clone(arg[:left])+"…")
		}
		left -= len(arg) + 1
	}
	return argv
}

// GraceError refuses a grace, in milliseconds, over maxKillGrace.
func GraceError(what string, ms *uint64) *protocol.Error {
	if ms != nil && protocol.FromMillis(*ms) > maxKillGrace {
		return protocol.WrongParams("%s is %d, the limit is %d", what, *ms, maxKillGrace.Milliseconds())
	}
	return nil
}

// streamError refuses to wait for a line on a stream the process will not have.
func streamError(p *protocol.ProcessStartParams) *protocol.Error {
	if p.Ready == nil || p.Ready.Stream == 0 {
		return nil
	}
	is := p.Ready.Stream
	if p.TTY != (is == protocol.PTY) || p.MergeStderr && is == protocol.Stderr {
		return protocol.WrongParams("ready.stream is %v, which the process does not have: with tty it has pty alone, with mergeStderr stdout alone", is)
	}
	return nil
}

// specOf returns the spec of the child for params. name is the name of the actor.
func specOf(s *env.Env, params protocol.ProcessStartParams, name string) (child.Spec, *protocol.Error) {
	if err := cmp.Or(
		wireerr.BadName("processId", params.ProcessID),
		wireerr.BadName("startToken", params.StartToken),
		GraceError("killGraceMs", params.KillGraceMs),
		readyError(params.Ready, params.Restart),
		streamError(&params),
		policy.CheckEnv(params.EnvPolicy),
	); err != nil {
		return child.Spec{}, err
	}
	if err := params.Unsupported(); err != nil {
		return child.Spec{}, wireerr.From(err)
	}
	dir, err := dirOf(params.Cwd)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok {
		wire := refused.Wire(protocol.CodeInvalidParams)
		if refused.Foreign {
			wire.Message = fmt.Sprintf("cwd URI `%s` is not valid on this exec-server host: %s", refused.URI, refused.Text)
		}
		return child.Spec{}, wire
	}
	env := child.Environ(params.EnvPolicy, os.Environ(), params.Env)
	if params.TTY && !params.Login && !hasName(env, "SHELL") {
		env = append(env, "SHELL="+s.Info.Shell.Path) // as the peer
	}
	spec := child.Spec{
		Argv:       params.Argv,
		Arg0:       params.Arg0,
		Dir:        dir,
		Env:        env,
		TTY:        params.TTY,
		Stdin:      params.PipeStdin || params.TTY,
		StdinQueue: s.StdinQueue,
		Merge:      params.MergeStderr,
		Name:       name,
		NoNewPrivs: params.NoNewPrivs,

		DefaultSandbox: s.DefaultSandbox,
		RequireSandbox: s.RequireSandbox,
	}
	if spec.Umask, err = params.Mask(); err != nil {
		return child.Spec{}, protocol.WrongParams("%v", err)
	}
	if params.Size != nil {
		if !params.TTY {
			return child.Spec{}, protocol.WrongParams("size is for a terminal: set tty true, or leave it out")
		}
		spec.Size = *params.Size
	}
	limits, refusal := policy.Limits(params.Limits, s.DefaultLimits, s.MaxLimits)
	if refusal != nil {
		return child.Spec{}, refusal
	}
	if params.Limits != nil || limits != (protocol.ProcessLimits{}) {
		if err := s.Host.Allows(limits); err != nil {
			return child.Spec{}, wireerr.From(err)
		}
		spec.Limits = limits
	}
	return spec, nil
}

// dirOf returns the path of a cwd. A directory in the home of the user stays as the client names it: see choice.apply.
func dirOf(cwd string) (string, error) {
	rest, ok := protocol.InHome(cwd)
	switch {
	case !ok:
		return protocol.ParseFileURI(cwd)
	case strings.Contains(rest, "\x00"):
		return "", &protocol.URIError{URI: wireerr.Clip(cwd), Text: "a path has no NUL byte"}
	}
	return strings.Clone(cwd), nil
}

// runTime returns the timeoutMs of a process whose client asked for ms. 0 and nil mean that the client asked for none.
func runTime(s *env.Env, ms *uint64) (*uint64, *protocol.Error) {
	most := env.Milliseconds(s.MaxRunTime)
	switch {
	case s.MaxRunTime <= 0:
		return ms, nil
	case ms == nil || *ms == 0:
		return &most, nil
	case *ms > most:
		return nil, wireerr.BadTime("timeoutMs", *ms, s.MaxRunTime, "max-run-time")
	}
	return ms, nil
}

func hasName(env []string, name string) bool {
	name += "="
	for _, kv := range env {
		if strings.HasPrefix(kv, name) {
			return true
		}
	}
	return false
}

// readyError refuses conditions of readiness for which the server cannot look.
func readyError(r *protocol.Ready, restart *protocol.Restart) *protocol.Error {
	if r == nil {
		return nil
	}
	if r.Exit && restart != nil && restart.Policy == string(supervision.Permanent) {
		return protocol.WrongParams("ready.exit is for what ends for good, and restart.policy is permanent: make it transient")
	}
	for _, path := range []struct{ name, uri string }{{"unix", r.Unix}, {"file", r.File}} {
		if path.uri == "" {
			continue
		}
		if _, err := protocol.ParseFileURI(path.uri); err != nil {
			return protocol.WrongParams("ready.%s: %v", path.name, err)
		}
	}
	if r.TCP != "" {
		if err := wireerr.BadName("ready.tcp", r.TCP); err != nil {
			return err
		}
		if _, _, err := net.SplitHostPort(r.TCP); err != nil {
			return protocol.WrongParams("ready.tcp is %q, expected host:port: %v", wireerr.Clip(r.TCP), err)
		}
	}
	return nil
}
