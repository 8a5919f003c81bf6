package actors

import (
	"math"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/protocol"
)

// execDialect is command/exec and its family. (app-server wire.)
type execDialect struct{}

func (d execDialect) spec(c *connection, p protocol.CommandExecParams) (*commandSpec, *protocol.Error) {
	if err := p.Unsupported(); err != nil {
		return nil, startError(err)
	}
	switch {
	case len(p.Command) == 0:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "command must not be empty")
	case p.ProcessID == nil && (p.TTY || p.StreamStdin || p.StreamStdoutStderr):
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "command/exec tty or streaming requires a client-supplied processId")
	case p.OutputBytesCap != nil && p.DisableOutputCap:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "command/exec cannot set both outputBytesCap and disableOutputCap")
	case p.TimeoutMs != nil && p.DisableTimeout:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "command/exec cannot set both timeoutMs and disableTimeout")
	}
	if p.ProcessID != nil {
		if err := tooLong("processId", *p.ProcessID); err != nil {
			return nil, err
		}
	}
	size, err := terminalSize(d.api(), d.api(), p.TTY, p.Size)
	if err != nil {
		return nil, err
	}
	cwd, uriErr := protocol.ParseFileURI(c.info.Cwd)
	if uriErr != nil {
		return nil, startError(uriErr)
	}
	if p.Cwd != nil && filepath.IsAbs(*p.Cwd) {
		cwd = *p.Cwd
	} else if p.Cwd != nil {
		cwd = filepath.Join(cwd, *p.Cwd)
	}
	s := &commandSpec{
		dialect: d,
		params: protocol.ProcessStartParams{
			Argv:      p.Command,
			Cwd:       protocol.FileURI(cwd),
			Env:       serverEnv(p.Env),
			TTY:       p.TTY,
			PipeStdin: p.StreamStdin,
			Size:      size,
		},
		stdin:  p.TTY || p.StreamStdin,
		stream: p.TTY || p.StreamStdoutStderr,
		limit:  defaultOutputCap,
		quiet:  true,
	}
	if s.unnamed = p.ProcessID == nil; !s.unnamed {
		s.name = *p.ProcessID
	}
	timeout := int64(defaultTimeoutMs)
	if p.TimeoutMs != nil {
		timeout = *p.TimeoutMs
	}
	if !p.DisableTimeout {
		if s.params.TimeoutMs, err = timeoutMs(d.api(), timeout); err != nil {
			return nil, err
		}
	}
	switch {
	case p.DisableOutputCap:
		s.limit = unlimited
	case p.OutputBytesCap != nil:
		s.limit = int64(min(*p.OutputBytesCap, math.MaxInt64))
	}
	return s, nil
}

func (execDialect) api() string { return "command/exec" }

func (execDialect) started(string) any { return nil }

func (execDialect) delta(name string, s protocol.Stream, data []byte, capReached bool) (string, any) {
	return protocol.NotifyCommandExecOutputDelta, protocol.CommandExecOutputDeltaNotification{ProcessID: name, Stream: s, DeltaBase64: data, CapReached: capReached}
}

func (execDialect) ended(_ string, e commandEnd) (string, any) {
	return "", protocol.CommandExecResult{ExitCode: e.code, Stdout: e.out[0], Stderr: e.out[1]}
}

func (execDialect) called(commandCall) any { return protocol.Empty{} }

func (execDialect) duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "duplicate active command/exec process id: %q", clip(name))
}

func (execDialect) unknown(name string, _ commandCall) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.CodeInvalidRequest, "no active command/exec for process id %q", clip(name))
}

func (execDialect) over(name string, _ commandCall) (any, *protocol.Error) {
	return nil, protocol.Errorf(protocol.CodeInvalidRequest, "command/exec %q is no longer running", clip(name))
}

func (execDialect) noStdin(string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "stdin streaming is not enabled for this command/exec")
}

func (execDialect) noSpawn(what string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInternal, "failed to spawn command: %s", what)
}

func (execDialect) write(p protocol.CommandExecWriteParams) (commandCall, *protocol.Error) {
	if p.DeltaBase64 == nil && !p.CloseStdin {
		return commandCall{}, protocol.Errorf(protocol.CodeInvalidParams, "command/exec/write requires deltaBase64 or closeStdin")
	}
	return commandCall{write: p.DeltaBase64, closeStdin: p.CloseStdin}, nil
}

func (d execDialect) resize(p protocol.CommandExecResizeParams) (commandCall, *protocol.Error) {
	size, err := terminalSize(d.api(), d.api(), true, &p.Size)
	return commandCall{resize: size}, err
}
