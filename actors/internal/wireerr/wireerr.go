// Package wireerr makes errors of the wire for several actors.
package wireerr

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxName bounds the names of processes, sessions and commands, in bytes. Clients choose these names, and the
// server repeats them in every message.
const maxName = 1 << 10

// maxClip bounds a client's text within an error, in bytes.
const maxClip = 60

// From returns the error of the wire in err. If err wraps none, err becomes the cause of a new error: of
// wrong params if the policy refuses them or their sandbox is impossible, else internal. A nil err gives nil.
func From(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if wire, ok := errors.AsType[*protocol.Error](err); ok {
		return wire
	}
	code := protocol.CodeInternal
	if errors.Is(err, rules.ErrRefused) || errors.Is(err, child.ErrSandboxPolicy) {
		code = protocol.CodeInvalidParams
	}
	return protocol.Errorf(child.Kind(err), code, "%v", err).Because(err)
}

// Clip shortens a client's text for an error or a Close frame, and makes it valid UTF-8.
func Clip(s string) string {
	if len(s) > maxClip {
		s = s[:maxClip] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// BadName refuses a name of more than maxName bytes, or of other bytes than UTF-8. The error calls it member.
func BadName(member, name string) *protocol.Error {
	if n := len(name); n > maxName {
		return protocol.WrongParams("%s has %d bytes, the limit is %d", member, n, maxName)
	}
	if !utf8.ValidString(name) { // of a host; no message of a client has such a string
		return protocol.WrongParams("%s is %q, expected UTF-8", member, name[:min(len(name), maxClip)])
	}
	return nil
}

// BadTime refuses a time of ms milliseconds that a client asks for: the server's flag allows 1 ms to most. The
// error calls the time member.
func BadTime(member string, ms uint64, most time.Duration, flag string) *protocol.Error {
	return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "%s is %d, this server allows 1 to %d (%s)", member, ms, most.Milliseconds(), flag).
		Exceeds(flag, float64(most.Milliseconds()), float64(ms))
}

// UnknownSession refuses a session id: there is no such session, or it has ended.
func UnknownSession(id string) *protocol.Error {
	return protocol.Errorf(protocol.KindUnknownSession, protocol.CodeInvalidRequest, "unknown session id %s", Clip(id))
}

// UnknownProcess refuses a process id: there is no such process, or it has retired.
func UnknownProcess(id string) *protocol.Error {
	return protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "unknown process id %s", Clip(id))
}

// OtherProcess refuses a request for an instance of a process: another process has the id by now.
func OtherProcess(id, instance string) *protocol.Error {
	return protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "unknown process id %s of instance %s: another process has the id", Clip(id), Clip(instance))
}

// ErrEvicted answers a request that was on its way when its client lost the session.
var ErrEvicted = protocol.Errorf(protocol.KindEvicted, protocol.CodeObserver, "this connection has lost the session: only the session's owner may go on")

// ErrLeaving refuses a new session while the server is drained.
var ErrLeaving = protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "the server is being drained and opens no session").Advise("use another server, or wait until this one has been started again")

// ErrShutdown refuses a new session while the server shuts down.
var ErrShutdown = protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "the server is shutting down and opens no session")
