package dialect

import (
	"path/filepath"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// spawn is process/spawn and its family. (app-server wire.)
type spawn struct{}

func (t *Translator) spawn(p protocol.ProcessSpawnParams) (*Spec, *protocol.Error) {
	d := spawn{}
	if err := p.Refused(d.API()); err != nil {
		return nil, err
	}
	switch {
	case len(p.Command) == 0:
		return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "command must not be empty")
	case p.ProcessHandle == "":
		return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "processHandle must not be empty")
	case !filepath.IsAbs(p.Cwd):
		return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "Invalid request: AbsolutePathBuf deserialized without a base path")
	}
	if err := wireerr.BadName("processHandle", p.ProcessHandle); err != nil {
		return nil, err
	}
	size, err := firstSize(d.API(), "process", p.TTY, p.Size)
	if err != nil {
		return nil, err
	}
	s := &Spec{
		Dialect: d,
		Name:    p.ProcessHandle,
		Params: protocol.ProcessStartParams{
			Argv:      p.Command,
			Cwd:       protocol.FileURI(p.Cwd),
			Env:       t.env(p.Env),
			TTY:       p.TTY,
			PipeStdin: p.StreamStdin,
			Size:      size,
		},
		Stdin:  p.TTY || p.StreamStdin,
		Stream: p.TTY || p.StreamStdoutStderr,
		Limit:  defaultLimit,
	}
	timeout := int64(defaultTimeoutMs)
	if p.TimeoutMs.Given {
		timeout = p.TimeoutMs.Value
	}
	if !p.TimeoutMs.None {
		if s.Params.TimeoutMs, err = timeoutMs(d.API(), timeout); err != nil {
			return nil, err
		}
	}
	switch limit := p.OutputBytesCap; {
	case limit.None:
		s.Limit = unlimited
	case limit.Given && limit.Value < 0:
		return nil, protocol.WrongParams("%s outputBytesCap must be non-negative, got %d", d.API(), limit.Value)
	case limit.Given:
		s.Limit = limit.Value
	}
	return s, nil
}

func (spawn) API() string { return "process/spawn" }

func (spawn) Started(string) any { return protocol.Empty{} }

func (spawn) Delta(name string, s protocol.Stream, data []byte, capReached bool) (string, any) {
	return protocol.NotifyProcessOutputDelta, protocol.ProcessOutputDeltaNotification{ProcessHandle: name, Stream: s, DeltaBase64: data, CapReached: capReached}
}

func (spawn) Ended(name string, e End) (string, any) {
	return protocol.NotifySpawnExited, protocol.SpawnExitedNotification{
		ProcessHandle:       name,
		ExitCode:            e.Code,
		OutputDrainTimedOut: e.DrainTimedOut,
		Stdout:              e.Output[0],
		StdoutCapReached:    e.CapReached[0],
		Stderr:              e.Output[1],
		StderrCapReached:    e.CapReached[1],
	}
}

func (spawn) Called(Call) any { return protocol.Empty{} }

func (spawn) Unknown(name string, _ Call) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "no active process for process handle %q", wireerr.Clip(name))
}

func (d spawn) Over(name string, call Call) (any, *protocol.Error) { return d.Unknown(name, call) }

func (spawn) Duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "duplicate active process handle: %q", wireerr.Clip(name))
}

func (spawn) NoStdin(string) *protocol.Error {
	return protocol.Errorf(protocol.KindStdinClosed, protocol.CodeInvalidRequest, "stdin streaming is not enabled for this process")
}

func (spawn) NoSpawn(kind protocol.ErrorKind, why string) *protocol.Error {
	return protocol.Errorf(kind, protocol.CodeInternal, "failed to spawn process: %s", why)
}
