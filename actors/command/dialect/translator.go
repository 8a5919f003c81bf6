package dialect

import "github.com/b6f6fdd7/troupe/protocol"

const (
	defaultLimit     = 1 << 20 // bytes of each stream
	defaultTimeoutMs = 10_000
	// unlimited is a limit that no output reaches.
	unlimited = 1 << 62
	// endBytes is the most that the end of a program takes in JSON beside its output, in bytes.
	endBytes = 1 << 10
	// jsonBytes is the most that one byte of text takes in JSON.
	jsonBytes = 6
)

// Translator reads the requests of one connection.
type Translator struct {
	// Fixed.
	Cwd        string                   // URI of the directory where command/exec runs programs
	Env        func() map[string]string // returns a new copy of the environment that changes are laid over
	MaxMessage int64                    // the most bytes that a message to the client may have

	// sessions counts the names of the first wire: session-1, session-2, …
	sessions int
}

// Request is one request of the sister APIs.
type Request struct {
	Start *Spec // nil: the request is Call, to the program that Dialect calls Name

	Dialect Dialect
	Name    string
	Call    Call
}

// Request translates the params of a request. It reports false if they belong to no sister API.
func (t *Translator) Request(params any) (r Request, ok bool, err *protocol.Error) {
	switch p := params.(type) {
	case protocol.ProcessSpawnParams:
		r.Start, err = t.spawn(p)
	case protocol.ProcessWriteStdinParams:
		r.Dialect, r.Name = spawn{}, p.ProcessHandle
		r.Call, err = write("process/writeStdin", p.DeltaBase64, p.CloseStdin)
	case protocol.ProcessResizePtyParams:
		r.Dialect, r.Name = spawn{}, p.ProcessHandle
		r.Call.Resize, err = size("process", p.Size)
	case protocol.ProcessKillParams:
		r.Dialect, r.Name, r.Call.Kill = spawn{}, p.ProcessHandle, true

	case protocol.CommandExecParams:
		r.Start, err = t.exec(p)
	case protocol.CommandExecWriteParams:
		r.Dialect, r.Name = exec{}, p.ProcessID
		r.Call, err = write("command/exec/write", p.DeltaBase64, p.CloseStdin)
	case protocol.CommandExecResizeParams:
		r.Dialect, r.Name = exec{}, p.ProcessID
		r.Call.Resize, err = size("command/exec", p.Size)
	case protocol.CommandExecTerminateParams:
		r.Dialect, r.Name, r.Call.Kill = exec{}, p.ProcessID, true

	case protocol.FirstExecParams:
		r.Start, err = t.first(p)
	case protocol.FirstExecWriteParams:
		r.Dialect, r.Name, r.Call.Write = first{}, p.SessionID, &p.Chunk
	case protocol.FirstExecTerminateParams:
		r.Dialect, r.Name, r.Call.Kill = first{}, p.SessionID, true
	default:
		return Request{}, false, nil
	}
	if s := r.Start; s != nil && !s.Stream { // one message has both streams
		s.Limit = min(s.Limit, (t.MaxMessage-endBytes)/(2*jsonBytes))
	}
	return r, true, err
}

// write is a call that writes to stdin, closes stdin, or does both.
func write(method string, data *[]byte, closeStdin bool) (Call, *protocol.Error) {
	if data == nil && !closeStdin {
		return Call{}, protocol.Errorf(protocol.CodeInvalidParams, "%s requires deltaBase64 or closeStdin", method)
	}
	return Call{Write: data, CloseStdin: closeStdin}, nil
}

// size is the size of a terminal; what names the terminal's owner in errors.
func size(what string, s protocol.TerminalSize) (*protocol.Size, *protocol.Error) {
	if s.Rows == 0 || s.Cols == 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s size rows and cols must be greater than 0", what)
	}
	return &protocol.Size{Rows: s.Rows, Cols: s.Cols}, nil
}

// firstSize is the size of a terminal in the params of a start; nil if they give none.
func firstSize(api, what string, tty bool, s *protocol.TerminalSize) (*protocol.Size, *protocol.Error) {
	switch {
	case s == nil:
		return nil, nil
	case !tty:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s size requires tty: true", api)
	}
	return size(what, *s)
}

// timeoutMs converts a timeout of api, where 0 means at once, to that of process/start, where 0
// means none.
func timeoutMs(api string, ms int64) (*uint64, *protocol.Error) {
	if ms < 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s timeoutMs must be non-negative, got %d", api, ms)
	}
	return new(uint64(max(ms, 1))), nil
}

// env is the environment of a program: Env with changes laid over it. A nil value unsets its name.
func (t *Translator) env(changes map[string]*string) map[string]string {
	env := t.Env()
	for name, value := range changes {
		if delete(env, name); value != nil {
			env[name] = *value
		}
	}
	return env
}
