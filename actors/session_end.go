package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Why a session ends; clients are told.
const (
	reasonShutdown = "server shutdown"
	reasonClosed   = "session closed by request"
)

type closing struct {
	reason   string
	shutdown time.Duration // as in stop
	asked    []request     // session/close
}

// detach starts the time after which the session expires.
func (s *session) detach(ctx actor.Context) {
	if s.ttl < 0 || s.closing != nil {
		return
	}
	if s.expires.IsZero() {
		s.expires = time.Now().Add(s.ttl)
		s.tellAttached(ctx, Expiring{milliseconds(s.ttl)})
	}
	s.expiresAt.set(ctx, time.Until(s.expires), expireDue{})
}

// close ends every process with all of its tree, and then the session. shutdown
// is as in stop.
func (s *session) close(ctx actor.Context, reason string, shutdown time.Duration) {
	if s.closing == nil {
		s.closing = &closing{reason: reason, shutdown: shutdown}
	}
	for _, p := range s.processes {
		if p.pid != nil {
			ctx.Send(p.pid, stop{reason, shutdown})
		}
	}
	for _, pid := range s.lingering {
		ctx.Send(pid, stop{reason: reason})
	}
	s.mayEnd(ctx)
}

func (s *session) drain(ctx actor.Context) {
	grace := max(s.shared.KillGrace, 0)
	if s.closing != nil { // it may be on a client's grace, which is longer
		s.closing.shutdown = grace
		s.close(ctx, s.closing.reason, s.closing.shutdown)
		return
	}
	s.tellAttached(ctx, Expiring{milliseconds(grace)})
	s.close(ctx, reasonShutdown, grace)
}

// mayEnd ends a closing session once no process of it is left.
func (s *session) mayEnd(ctx actor.Context) {
	if s.closing == nil || len(s.processes) > 0 || len(s.lingering) > 0 {
		return
	}
	for _, r := range s.closing.asked {
		ctx.Send(r.sender, Reply{Token: r.token, Result: protocol.Empty{}})
	}
	s.tellAttached(ctx, Evicted{s.closing.reason})
	ctx.Poison(ctx.Self()) // not Stop: who asks to attach meanwhile is answered
}
