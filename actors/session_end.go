package actors

import (
	"errors"
	"fmt"
	"strings"
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

// evict ends a session for a policy of the server's.
func (s *session) evict(ctx actor.Context, reason string) {
	if s.closing != nil {
		return // with the grace that it was given
	}
	s.shared.Log.Info("session evicted", "session", s.id, "name", s.name, "reason", reason, "processes", len(s.processes))
	s.close(ctx, reason, -1)
}

// leave begins the idle time when nobody is attached any more.
func (s *session) leave(ctx actor.Context) {
	if s.idle <= 0 || s.closing != nil || s.owner != nil || len(s.observers) > 0 {
		return
	}
	if s.alone.IsZero() {
		s.alone = time.Now()
	}
	s.idleAt.set(ctx, s.idle-time.Since(s.alone), idleDue{})
}

func (s *session) idleDue(ctx actor.Context) {
	if s.alone.IsZero() {
		return
	}
	quiet := min(time.Since(s.alone), time.Since(time.Unix(0, s.gauge.wrote.Load())))
	if left := s.idle - quiet; left > 0 {
		s.idleAt.set(ctx, left, idleDue{})
		return
	}
	s.evict(ctx, "session idle: nobody attached and no output for "+s.idle.String())
}

// ageWarning is how long before its end a session that reaches its age is told, if that
// is not more than a tenth of it.
const ageWarning = time.Minute

func (s *session) ageDue(ctx actor.Context) {
	if s.age <= 0 || s.closing != nil {
		return
	}
	reason := "session reached its maximum age of " + s.age.String()
	left, warning := s.age-time.Since(s.created), min(ageWarning, s.age/10)
	switch {
	case left <= 0:
		s.evict(ctx, reason)
	case left <= warning:
		s.tellAttached(ctx, Expiring{milliseconds(left), reason})
		s.ageAt.set(ctx, left, ageDue{})
	default:
		s.ageAt.set(ctx, left-warning, ageDue{})
	}
}

// tellDetached tells the registry whether there is an owner, and if not, since when.
func (s *session) tellDetached(ctx actor.Context) {
	s.toldEmpty = s.empty()
	ctx.Send(s.registry, detached{s.id, s.detached, s.from, s.toldEmpty, s.gauge})
}

// empty reports whether there is no process, nor what is left of one.
func (s *session) empty() bool { return len(s.processes)+len(s.lingering) == 0 }

// tellEmpty tells the registry when that has changed, if it matters.
func (s *session) tellEmpty(ctx actor.Context) {
	if !s.detached.IsZero() && s.toldEmpty != s.empty() {
		s.tellDetached(ctx)
	}
}

// detach starts the time after which the session expires.
func (s *session) detach(ctx actor.Context) {
	if s.ephemeral {
		ctx.Send(s.registry, abandoned{s.id}) // back it comes behind a drain that is on its way
		return
	}
	if s.detached.IsZero() {
		s.detached = time.Now()
		s.tellDetached(ctx)
	}
	if s.ttl < 0 || s.closing != nil {
		return
	}
	if s.expires.IsZero() {
		s.expires = time.Now().Add(s.ttl)
		s.tellAttached(ctx, Expiring{milliseconds(s.ttl), "it has no owner"})
	}
	s.expiresAt.set(ctx, time.Until(s.expires), expireDue{})
}

// beginClose says why the session is closing, unless it was closing before.
func (s *session) beginClose(reason string, shutdown time.Duration) {
	if s.closing == nil {
		s.closing = &closing{reason: reason, shutdown: shutdown}
		s.giveUp(fmt.Errorf("session %s is closing: %s", s.id, reason))
	}
}

// close ends every process with all of its tree, and then the session. shutdown
// is as in stop.
func (s *session) close(ctx actor.Context, reason string, shutdown time.Duration) {
	s.beginClose(reason, shutdown)
	s.shared.at(ctx, closingSet)
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
	s.tellAttached(ctx, Expiring{milliseconds(grace), reasonShutdown})
	s.close(ctx, reasonShutdown, grace)
}

// mayEnd ends a closing session once no process of it is left.
func (s *session) mayEnd(ctx actor.Context) {
	if s.closing == nil || len(s.processes) > 0 || len(s.lingering) > 0 {
		return
	}
	var left *protocol.Error
	if len(s.left) > 0 {
		err := errors.Join(s.left...)
		s.shared.Log.Error("session ended, and not all of its programs were seen gone", "session", s.id, "name", s.name, "reason", s.closing.reason, "err", err)
		left = protocol.Errorf(protocol.CodeInternal, "the session has ended, and not all of its programs were seen gone: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for _, g := range s.groups {
		s.stopped(ctx, g, left) // whatever it had yet to tell: its processes have ended
	}
	for _, r := range s.closing.asked {
		ctx.Send(r.sender, replyOf(r.token, left))
	}
	s.tellAttached(ctx, Evicted{s.closing.reason})
	ctx.Poison(ctx.Self()) // not Stop: who asks to attach meanwhile is answered
}
