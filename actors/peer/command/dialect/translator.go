package dialect

import "github.com/b6f6fdd7/troupe/protocol"

const (
	defaultLimit     = 1 << 20 // bytes of each stream
	defaultTimeoutMs = 10_000
	// unlimited is a limit out of reach of any output.
	unlimited = 1 << 62
	// endBytes bounds the end of a program in JSON, without the output, in bytes. A name has at most 1 KiB, and JSON makes
	// 6 bytes of a control character.
	endBytes = 8 << 10
)

// Translator reads the requests of a connection.
type Translator struct {
	// Fixed.
	Cwd        string                   // URI of the directory where command/exec runs programs
	Env        func() map[string]string // returns a new copy of the server's environment
	MaxMessage int64                    // bytes of the largest message to the client

	// sessions counts the names of the first wire: session-1, session-2, …
	sessions int
}

// Request is a request of the sister APIs.
type Request struct {
	Start *Spec // nil: the request is Call, to the program that Dialect calls Name

	Dialect Dialect
	Name    string
	Call    Call
}

// Request translates the params of a request. ok is false if the params belong to no sister API.
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
	if s := r.Start; s != nil && !s.Stream { // a single message has both streams
		s.Most = (t.MaxMessage - endBytes) / 2
	}
	return r, true, err
}

// write returns a call to write to stdin, to close stdin, or both.
func write(method string, data *[]byte, closeStdin bool) (Call, *protocol.Error) {
	if data == nil && !closeStdin {
		return Call{}, protocol.WrongParams("%s requires deltaBase64 or closeStdin", method)
	}
	return Call{Write: data, CloseStdin: closeStdin}, nil
}

// size returns the size of a terminal. Errors call the owner of the terminal what.
func size(what string, s protocol.TerminalSize) (*protocol.Size, *protocol.Error) {
	if s.Rows == 0 || s.Cols == 0 {
		return nil, protocol.WrongParams("%s size rows and cols must be greater than 0", what)
	}
	return &protocol.Size{Rows: s.Rows, Cols: s.Cols}, nil
}

// firstSize returns the size of a terminal in the params of a start; nil if the params have none.
func firstSize(api, what string, tty bool, s *protocol.TerminalSize) (*protocol.Size, *protocol.Error) {
	switch {
	case s == nil:
		return nil, nil
	case !tty:
		return nil, protocol.WrongParams("%s size requires tty: true", api)
	}
	return size(what, *s)
}

// timeoutMs converts a timeout of api to a timeout of process/start: 0 means at once in api, and no timeout
// in process/start.
func timeoutMs(api string, ms int64) (*uint64, *protocol.Error) {
	if ms < 0 {
		return nil, protocol.WrongParams("%s timeoutMs must be non-negative, got %d", api, ms)
	}
	return new(uint64(max(ms, 1))), nil
}

// env returns the environment of a program: Env with the changes. A nil value unsets its name.
func (t *Translator) env(changes map[string]*string) map[string]string {
	env := t.Env()
	for name, value := range changes {
		if delete(env, name); value != nil {
			env[name] = *value
		}
	}
	return env
}
