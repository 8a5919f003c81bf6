package actors

import (
	"fmt"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/protocol"
)

// firstDialect is command/exec of the first exec-server wire. (app-server wire, at its end.)
type firstDialect struct{}

func (d firstDialect) spec(c *connection, p protocol.FirstExecParams) (*commandSpec, *protocol.Error) {
	if len(p.Argv) == 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "argv must not be empty")
	}
	if !filepath.IsAbs(p.Cwd) {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "cwd is %q, which is not an absolute path", clip(p.Cwd))
	}
	c.commands.firsts++
	return &commandSpec{
		dialect: d,
		name:    fmt.Sprintf("session-%d", c.commands.firsts),
		params:  protocol.ProcessStartParams{Argv: p.Argv, Arg0: p.Arg0, Cwd: protocol.FileURI(p.Cwd), Env: p.Env, TTY: p.TTY},
		stdin:   p.TTY,
		stream:  true,
		limit:   unlimited,
	}, nil
}

func (firstDialect) api() string { return "command/exec with argv" }

func (firstDialect) started(name string) any { return protocol.FirstExecResult{SessionID: name} }

func (firstDialect) delta(name string, s protocol.Stream, data []byte, _ bool) (string, any) {
	return protocol.NotifyCommandExecOutputDelta, protocol.FirstExecOutputDeltaNotification{SessionID: name, Stream: s, Chunk: data}
}

func (firstDialect) ended(name string, e commandEnd) (string, any) {
	return protocol.NotifyCommandExecExited, protocol.FirstExecExitedNotification{SessionID: name, ExitCode: e.code}
}

func (firstDialect) called(call commandCall) any {
	if call.kill {
		return protocol.FirstExecTerminateResult{Running: true}
	}
	return protocol.FirstExecWriteResult{Accepted: true}
}

func (firstDialect) unknown(name string, call commandCall) (any, *protocol.Error) {
	if call.kill {
		return protocol.FirstExecTerminateResult{Running: false}, nil
	}
	return nil, protocol.Errorf(protocol.CodeInvalidRequest, "unknown session id %s", clip(name))
}

func (d firstDialect) over(name string, call commandCall) (any, *protocol.Error) {
	if call.kill {
		return d.unknown(name, call)
	}
	return nil, d.noStdin(name)
}

// duplicate cannot be: names are ours.
func (firstDialect) duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInternal, "session id %s is in use", name)
}

func (firstDialect) noStdin(name string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "stdin is closed for session %s", clip(name))
}

func (firstDialect) noSpawn(what string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInternal, "%s", what)
}
