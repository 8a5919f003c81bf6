package actors

import (
	"errors"
	"os"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// What the dialects have in common.

const (
	defaultOutputCap = 1 << 20 // bytes of each stream
	defaultTimeoutMs = 10_000
	// unlimited is a cap that nothing reaches.
	unlimited = 1 << 62
	// maxMessage is how large a message may be where a connection does not say.
	maxMessage = 64 << 20
)

// heldCap is what of limit can be told at the end, of each stream: the answer has both, and in
// JSON a byte of text may take six.
func (c *connection) heldCap(limit int64) int64 {
	most := maxMessage
	if c.most > 0 {
		most = c.most
	}
	return min(limit, int64(most-readBytes)/12)
}

// osError is why a program could not be started, in the words of the peer; "" if not for
// want of it. (app-server wire.)
func osError(err error) string {
	for _, e := range []struct {
		is error
		as syscall.Errno
	}{
		{child.ErrNoProgram, syscall.ENOENT},
		{child.ErrPermission, syscall.EACCES},
		{child.ErrDir, syscall.ENOENT},
		{child.ErrExecFormat, syscall.ENOEXEC},
	} {
		if errors.Is(err, e.is) {
			return files.Text(e.as)
		}
	}
	return ""
}

// terminalSize is a size that is given for a terminal.
func terminalSize(api, what string, tty bool, size *protocol.TerminalSize) (*protocol.Size, *protocol.Error) {
	switch {
	case size == nil:
		return nil, nil
	case !tty:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s size requires tty: true", api)
	case size.Rows == 0 || size.Cols == 0:
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s size rows and cols must be greater than 0", what)
	}
	return &protocol.Size{Rows: size.Rows, Cols: size.Cols}, nil
}

// timeoutMs is a timeout as process/start has it, where 0 is none.
func timeoutMs(api string, ms int64) (*uint64, *protocol.Error) {
	if ms < 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s timeoutMs must be non-negative, got %d", api, ms)
	}
	return new(uint64(max(ms, 1))), nil
}

// serverEnv is the server's environment, without its secrets, with changes laid over it; nil unsets.
func serverEnv(changes map[string]*string) map[string]string {
	env := child.WithoutSecrets(os.Environ())
	for name, value := range changes {
		if delete(env, name); value != nil {
			env[name] = *value
		}
	}
	return env
}
