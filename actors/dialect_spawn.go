package actors

import (
	"path/filepath"

	"github.com/b6f6fdd7/troupe/protocol"
)

// spawnDialect is process/spawn and its family. (app-server wire.)
type spawnDialect struct{}

func (d spawnDialect) spec(c *connection, p protocol.ProcessSpawnParams) (*commandSpec, *protocol.Error) {
	switch {
	case len(p.Command) == 0:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "command must not be empty")
	case p.ProcessHandle == "":
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "processHandle must not be empty")
	case !filepath.IsAbs(p.Cwd):
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "Invalid request: AbsolutePathBuf deserialized without a base path")
	}
	if err := tooLong("processHandle", p.ProcessHandle); err != nil {
		return nil, err
	}
	size, err := terminalSize(d.api(), "process", p.TTY, p.Size)
	if err != nil {
		return nil, err
	}
	s := &commandSpec{
		dialect: d,
		name:    p.ProcessHandle,
		params: protocol.ProcessStartParams{
			Argv:      p.Command,
			Cwd:       protocol.FileURI(p.Cwd),
			Env:       serverEnv(p.Env),
			TTY:       p.TTY,
			PipeStdin: p.StreamStdin,
			Size:      size,
		},
		stdin:  p.TTY || p.StreamStdin,
		stream: p.TTY || p.StreamStdoutStderr,
		limit:  defaultOutputCap,
	}
	timeout := int64(defaultTimeoutMs)
	if p.TimeoutMs.Given {
		timeout = p.TimeoutMs.Value
	}
	if !p.TimeoutMs.None {
		if s.params.TimeoutMs, err = timeoutMs(d.api(), timeout); err != nil {
			return nil, err
		}
	}
	switch limit := p.OutputBytesCap; {
	case limit.None:
		s.limit = unlimited
	case limit.Given && limit.Value < 0:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s outputBytesCap must be non-negative, got %d", d.api(), limit.Value)
	case limit.Given:
		s.limit = limit.Value
	}
	return s, nil
}

func (spawnDialect) api() string { return "process/spawn" }

func (spawnDialect) started(string) any { return protocol.Empty{} }

func (spawnDialect) delta(name string, s protocol.Stream, data []byte, capReached bool) (string, any) {
	return protocol.NotifyProcessOutputDelta, protocol.ProcessOutputDeltaNotification{ProcessHandle: name, Stream: s, DeltaBase64: data, CapReached: capReached}
}

func (spawnDialect) ended(name string, e commandEnd) (string, any) {
	return protocol.NotifySpawnExited, protocol.SpawnExitedNotification{
		ProcessHandle:       name,
		ExitCode:            e.code,
		OutputDrainTimedOut: e.timedOut,
		Stdout:              e.out[0],
		StdoutCapReached:    e.capReached[0],
		Stderr:              e.out[1],
		StderrCapReached:    e.capReached[1],
	}
}

func (spawnDialect) called(commandCall) any { return protocol.Empty{} }

func (spawnDialect) duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "duplicate active process handle: %q", clip(name))
}

func (spawnDialect) unknown(name string, _ commandCall) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.CodeInvalidRequest, "no active process for process handle %q", clip(name))
}

func (d spawnDialect) over(name string, call commandCall) (any, *protocol.Error) {
	return d.unknown(name, call)
}

func (spawnDialect) noStdin(string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "stdin streaming is not enabled for this process")
}

func (spawnDialect) noSpawn(what string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInternal, "failed to spawn process: %s", what)
}

func (d spawnDialect) write(p protocol.ProcessWriteStdinParams) (commandCall, *protocol.Error) {
	if p.DeltaBase64 == nil && !p.CloseStdin {
		return commandCall{}, protocol.Errorf(protocol.CodeInvalidParams, "process/writeStdin requires deltaBase64 or closeStdin")
	}
	return commandCall{write: p.DeltaBase64, closeStdin: p.CloseStdin}, nil
}

func (d spawnDialect) resize(p protocol.ProcessResizePtyParams) (commandCall, *protocol.Error) {
	size, err := terminalSize(d.api(), "process", true, &p.Size)
	return commandCall{resize: size}, err
}
