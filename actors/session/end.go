package session

import (
	"errors"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
)

// standing is the part of message.Standing that changes.
type standing struct {
	since time.Time // when the session lost its owner; zero: there is an owner
	empty bool      // no process is left
}

// live follows every message: it does everything that is due in the lifetime, ends shares, sets the alarms
// for the next time, and tells the registry a changed standing.
func (s *session) live(ctx actor.Context) {
	s.follow(ctx, s.life.Running(time.Now(), s.processes.Running()))
	s.follow(ctx, s.life.Tick(time.Now(), s.gauge.LastWrite()))
	s.lifeAt.SetTo(ctx, s.life.Next(), lifeDue{})
	s.tellEvents()
	s.expireShares(ctx)
	if is := s.standing(); is != s.told && !(is.since.IsZero() && s.told.since.IsZero()) {
		s.tellStanding(ctx)
	}
}

// tellEvents tells the readers of server/events the state of the session. It may be repeated.
func (s *session) tellEvents() {
	reason, closing := s.life.Closing()
	switch {
	case closing:
		s.events.Become(protocol.ServerClosing, reason)
	case s.owner == nil:
		s.events.Become(protocol.ServerDetached, "")
	default:
		s.events.Become(protocol.ServerAttached, "")
	}
}

// sinceAttached tells the lifetime who is attached. Guests keep no session alive. It may be repeated.
func (s *session) sinceAttached(ctx actor.Context) {
	observers := 0
	for _, v := range s.observers {
		if v.guest == "" {
			observers++
		}
	}
	s.follow(ctx, s.life.Attached(time.Now(), s.owner != nil, observers))
}

// follow does the actions that the lifetime asks for.
func (s *session) follow(ctx actor.Context, actions []lifetime.Action) {
	for _, a := range actions {
		switch a.Kind {
		case lifetime.Warn:
			s.tellAttached(ctx, message.Expiring{InMs: env.Milliseconds(a.In), Reason: a.Reason})
		case lifetime.Abandon:
			ctx.Send(s.registry, message.Abandoned{ID: s.id})
		case lifetime.End:
			s.env.Log.Info("session ended by the server", "session", s.id, "name", s.name, "reason", a.Reason, "processes", s.processes.Len())
			s.end(ctx)
		}
	}
}

// abandoned closes an ephemeral session without an owner. A session that is closing already, perhaps with
// the grace of a drain, goes on closing.
func (s *session) abandoned(ctx actor.Context) {
	if _, closing := s.life.Closing(); !closing {
		s.close(ctx, message.ReasonClosed)
	}
}

// evict ends a session without an owner. With IfIdle, a session with processes stays, too.
func (s *session) evict(ctx actor.Context, m message.Evict) {
	if m.IfIdle && (s.owner != nil || !s.processes.Empty()) {
		s.tellStanding(ctx)
		return
	}
	s.follow(ctx, s.life.Evict(m.Reason))
}

func (s *session) standing() standing { return standing{s.life.Detached(), s.processes.Empty()} }

// tellStanding sends the registry a Standing.
func (s *session) tellStanding(ctx actor.Context) {
	s.told = s.standing()
	ctx.Send(s.registry, message.Standing{ID: s.id, Since: s.told.since, From: s.from, Empty: s.told.empty, Gauge: s.gauge})
}

// close ends the session for a reason of its clients.
func (s *session) close(ctx actor.Context, reason string) {
	s.life.Close(reason)
	s.end(ctx)
}

// drain ends the session because the server shuts down.
func (s *session) drain(ctx actor.Context) {
	s.follow(ctx, s.life.Drain(message.ReasonShutdown, max(s.env.KillGrace, 0)))
	s.end(ctx)
}

// end ends every process of a closing session with its whole tree, and then the session. It may be
// repeated.
func (s *session) end(ctx actor.Context) {
	reason, _ := s.life.Closing()
	s.giveUp(protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "session %s is closing: %s", s.id, reason))
	s.env.At(ctx, env.ClosingSet)
	for p := range s.processes.All() {
		if p.PID != nil {
			ctx.Send(p.PID, message.Stop{Reason: reason, Shutdown: s.life.Grace()})
		}
	}
	for p := range s.processes.Lingering() {
		ctx.Send(p.PID, message.Stop{Reason: reason})
	}
	s.mayEnd(ctx)
}

// mayEnd stops the actor of a closing session once no process and no capture of a shell's state is left.
func (s *session) mayEnd(ctx actor.Context) {
	reason, closing := s.life.Closing()
	if !closing || !s.processes.Empty() || s.shells.Running() {
		return
	}
	var left *protocol.Error
	if len(s.left) > 0 {
		err := errors.Join(s.left...)
		if !s.over {
			s.env.Log.Error("session ended, and not all of its programs were seen gone", "session", s.id, "name", s.name, "reason", reason, "err", err)
		}
		left = protocol.Errorf(protocol.KindSurvivors, protocol.CodeInternal, "the session has ended, and not all of its programs were seen gone: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for _, g := range s.groups {
		s.stopped(ctx, g, left) // a group that waits for a repair may not have ended, but all of its processes have
	}
	for _, r := range s.closers {
		ctx.Send(r.Sender, replyOf(r.Token, left))
	}
	s.closers = nil
	if s.over {
		return // what came later has its answer
	}
	s.tellAttached(ctx, message.Evicted{Reason: reason, Over: true})
	ctx.Poison(ctx.Self()) // not Stop: every Attach that is queued gets its answer first
	s.over = true
}
