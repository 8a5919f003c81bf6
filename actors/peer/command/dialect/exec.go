package dialect

import (
	"math"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// exec is command/exec and its family. (app-server wire.)
type exec struct{}

func (t *Translator) exec(p protocol.CommandExecParams) (*Spec, *protocol.Error) {
	d := exec{}
	if err := refuseExec(p); err != nil {
		return nil, err
	}
	size, err := firstSize(d.API(), d.API(), p.TTY, p.Size)
	if err != nil {
		return nil, err
	}
	cwd, err := t.cwd(p.Cwd)
	if err != nil {
		return nil, err
	}
	sandbox, wrong := p.Sandbox(cwd)
	if wrong != nil {
		return nil, wireerr.From(wrong)
	}
	s := &Spec{
		Dialect: d,
		Unnamed: p.ProcessID == nil,
		Params: protocol.ProcessStartParams{
			Argv:      p.Command,
			Cwd:       protocol.FileURI(cwd),
			Env:       t.env(p.Env),
			TTY:       p.TTY,
			PipeStdin: p.StreamStdin,
			Size:      size,
			Sandbox:   sandbox.JSON(),
		},
		Stdin:  p.TTY || p.StreamStdin,
		Stream: p.TTY || p.StreamStdoutStderr,
		Limit:  defaultLimit,
	}
	if p.ProcessID != nil {
		s.Name = *p.ProcessID
	}
	timeout := int64(defaultTimeoutMs)
	if p.TimeoutMs != nil {
		timeout = *p.TimeoutMs
	}
	if !p.DisableTimeout {
		if s.Params.TimeoutMs, err = timeoutMs(d.API(), timeout); err != nil {
			return nil, err
		}
	}
	switch {
	case p.DisableOutputCap:
		s.Limit = unlimited
	case p.OutputBytesCap != nil:
		s.Limit = int64(min(*p.OutputBytesCap, math.MaxInt64))
	}
	return s, nil
}

// refuseExec returns the error for params that contradict each other.
func refuseExec(p protocol.CommandExecParams) *protocol.Error {
	switch {
	case len(p.Command) == 0:
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "command must not be empty")
	case p.ProcessID == nil && (p.TTY || p.StreamStdin || p.StreamStdoutStderr):
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "command/exec tty or streaming requires a client-supplied processId")
	case p.OutputBytesCap != nil && p.DisableOutputCap:
		return protocol.WrongParams("command/exec cannot set both outputBytesCap and disableOutputCap")
	case p.TimeoutMs != nil && p.DisableTimeout:
		return protocol.WrongParams("command/exec cannot set both timeoutMs and disableTimeout")
	}
	if p.ProcessID != nil {
		return wireerr.BadName("processId", *p.ProcessID)
	}
	return nil
}

// cwd returns the directory of path, relative to the server's directory; nil means the server's directory.
func (t *Translator) cwd(path *string) (string, *protocol.Error) {
	cwd, err := protocol.ParseFileURI(t.Cwd)
	switch {
	case err != nil:
		return "", wireerr.From(err)
	case path == nil:
		return cwd, nil
	case filepath.IsAbs(*path):
		return *path, nil
	}
	return filepath.Join(cwd, *path), nil
}

func (exec) API() string { return "command/exec" }

func (exec) Started(string) any { return nil }

func (exec) Delta(name string, s protocol.Stream, data []byte, capReached bool) (string, any) {
	return protocol.NotifyCommandExecOutputDelta, protocol.CommandExecOutputDeltaNotification{ProcessID: name, Stream: s, DeltaBase64: data, CapReached: capReached}
}

func (exec) Ended(_ string, e End) (string, any) {
	return "", protocol.CommandExecResult{ExitCode: e.Code, Stdout: e.Output[0], Stderr: e.Output[1]}
}

func (exec) Called(Call) any { return protocol.Empty{} }

func (exec) Unknown(name string, _ Call) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "no active command/exec for process id %q", wireerr.Clip(name))
}

func (exec) Over(name string, _ Call) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "command/exec %q is no longer running", wireerr.Clip(name))
}

func (exec) Duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "duplicate active command/exec process id: %q", wireerr.Clip(name))
}

func (exec) NoStdin(string) *protocol.Error {
	return protocol.Errorf(protocol.KindStdinClosed, protocol.CodeInvalidRequest, "stdin streaming is not enabled for this command/exec")
}

func (exec) NoSpawn(kind protocol.ErrorKind, why string) *protocol.Error {
	return protocol.Errorf(kind, protocol.CodeInternal, "failed to spawn command: %s", why)
}
