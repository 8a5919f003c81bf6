package dialect

import (
	"fmt"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// first is command/exec of the first exec-server wire. (app-server wire, at its end.)
type first struct{}

func (t *Translator) first(p protocol.FirstExecParams) (*Spec, *protocol.Error) {
	if err := p.Refused(first{}.API()); err != nil {
		return nil, err
	}
	if len(p.Argv) == 0 {
		return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidParams, "argv must not be empty")
	}
	if !filepath.IsAbs(p.Cwd) {
		return nil, protocol.WrongParams("cwd is %q, which is not an absolute path", wireerr.Clip(p.Cwd))
	}
	t.sessions++
	return &Spec{
		Dialect: first{},
		Name:    fmt.Sprintf("session-%d", t.sessions),
		Params:  protocol.ProcessStartParams{Argv: p.Argv, Arg0: p.Arg0, Cwd: protocol.FileURI(p.Cwd), Env: p.Env, TTY: p.TTY},
		Stdin:   p.TTY,
		Stream:  true,
		Limit:   unlimited,
	}, nil
}

func (first) API() string { return "command/exec with argv" }

func (first) Started(name string) any { return protocol.FirstExecResult{SessionID: name} }

func (first) Delta(name string, s protocol.Stream, data []byte, _ bool) (string, any) {
	return protocol.NotifyCommandExecOutputDelta, protocol.FirstExecOutputDeltaNotification{SessionID: name, Stream: s, Chunk: data}
}

func (first) Ended(name string, e End) (string, any) {
	return protocol.NotifyCommandExecExited, protocol.FirstExecExitedNotification{SessionID: name, ExitCode: e.Code}
}

func (first) Called(c Call) any {
	if c.Kill {
		return protocol.FirstExecTerminateResult{Running: true}
	}
	return protocol.FirstExecWriteResult{Accepted: true}
}

func (first) Unknown(name string, c Call) (any, *protocol.Error) {
	if c.Kill {
		return protocol.FirstExecTerminateResult{Running: false}, nil
	}
	return nil, protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "unknown session id %s", wireerr.Clip(name))
}

func (d first) Over(name string, c Call) (any, *protocol.Error) {
	if c.Kill {
		return d.Unknown(name, c)
	}
	return nil, d.NoStdin(name)
}

// Duplicate reports a bug: the server gives the names.
func (first) Duplicate(name string) *protocol.Error {
	return protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "session id %s is in use", name)
}

func (first) NoStdin(name string) *protocol.Error {
	return protocol.Errorf(protocol.KindStdinClosed, protocol.CodeInvalidRequest, "stdin is closed for session %s", wireerr.Clip(name))
}

func (first) NoSpawn(kind protocol.ErrorKind, why string) *protocol.Error {
	return protocol.Errorf(kind, protocol.CodeInternal, "%s", why)
}
