package session

import (
	"errors"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
)

// live follows every message: it does everything that is due, sets the alarm
// for the next time, and tells the registry a changed standing.
func (s *session) live(ctx actor.Context) {
	now := time.Now()
	s.access.Expire(now)
	s.act(ctx)
	s.life.Running(now, s.processes.Running())
	s.life.Tick(now, s.gauge.LastWrite())
	s.act(ctx)
	wake := s.life.Wake()
	if at := s.access.Wake(); wake.IsZero() || !at.IsZero() && at.Before(wake) {
		wake = at
	}
	s.wakeAt.SetTo(ctx, wake, wakeDue{})
	s.tellEvents()
	if is := s.standing(); is != s.told && !(is.Since.IsZero() && s.told.Since.IsZero()) {
		s.tellStanding(ctx)
	}
}

// tellEvents tells the readers of server/events, and the meters, the state of the session. It may be repeated.
func (s *session) tellEvents() {
	reason, closing := s.life.Closing()
	state := protocol.ServerAttached
	switch {
	case closing:
		state = protocol.ServerClosing
	case s.access.Owner() == access.ID{}:
		state = protocol.ServerDetached
	}
	s.events.Become(state, reason)
	s.count(string(state))
}

// count counts the session in a state; "": no more.
func (s *sessionRecord) count(state string) {
	s.env.Meters.Sessions.Move(s.counted, state)
	s.counted = state
}

// doLife does an action of lifetime. doLife may be repeated.
func (s *session) doLife(ctx actor.Context, a lifetime.Action) {
	switch a.Kind {
	case lifetime.Warn:
		s.tellAttached(ctx, message.Expiring{InMs: env.Milliseconds(a.In), Reason: a.Reason})
	case lifetime.Abandon:
		ctx.Send(s.registry, message.Abandoned{ID: s.id})
	case lifetime.Record:
		s.env.Log.Info("session ended by the server", "session", s.id, "name", s.name, "reason", a.Reason, "processes", s.processes.Len())
	case lifetime.End:
		s.end(ctx)
	}
}

// abandoned closes an ephemeral session without an owner. A session that is closing already, perhaps with
// the grace of a drain, goes on closing.
func (s *session) abandoned() {
	if _, closing := s.life.Closing(); !closing {
		s.life.Close(message.ReasonClosed)
	}
}

// evict ends a session without an owner. With IfIdle, a session with processes stays, too.
func (s *session) evict(ctx actor.Context, m message.Evict) {
	if m.IfIdle && (s.access.Owner() != access.ID{} || !s.processes.Empty()) {
		s.tellStanding(ctx)
		return
	}
	s.life.Evict(m.Reason)
}

func (s *session) standing() message.Standing {
	return message.Standing{ID: s.id, Since: s.life.Detached(), From: s.from, Empty: s.processes.Empty(), Gauge: s.gauge}
}

// tellStanding sends the registry a Standing.
func (s *session) tellStanding(ctx actor.Context) {
	s.told = s.standing()
	ctx.Send(s.registry, s.told)
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
		if p.PID != nil {
			ctx.Send(p.PID, message.Stop{Reason: reason})
		}
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
		s.answer(ctx, g.end(), protocol.Empty{}, left) // a group that waits for a repair may not have ended, but all of its processes have
	}
	s.answer(ctx, newsClosed, protocol.Empty{}, left)
	if s.over {
		return // what came later has its answer
	}
	s.tellAttached(ctx, message.Evicted{Reason: reason, Over: true})
	ctx.Poison(ctx.Self()) // not Stop: every Attach that is queued gets its answer first
	s.over = true
}

// endShares makes the tokens of all shares invalid. The end of the session cuts the guests off.
func (s *sessionRecord) endShares() {
	for _, token := range s.access.Close() {
		s.env.Shares.Remove(token)
	}
}
