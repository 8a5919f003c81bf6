package session

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
	"go.opentelemetry.io/otel/attribute"
)

// This file has the events of the audit log about sessions, and about starts that a session refuses.

// clientOf returns the client that is, or was, attached by an actor.
func (s *session) clientOf(pid *actor.PID) audit.Who { return s.access.By(idOf(pid)) }

// recordAttached records an Attach that has succeeded.
func (s *session) recordAttached(a access.Admit) {
	e := audit.SessionAttached{Who: a.By, How: a.How, Name: audit.Text(s.name)}
	if s.identity != a.By.Identity {
		e.Owner = s.identity
	}
	s.env.Audit.Put(e)
}

// recordEnd records the end of the session. Its supervisor calls recordEnd, also after a session that failed
// too often.
func (s *sessionRecord) recordEnd() {
	reason, closing := s.life.Closing()
	if !closing {
		reason = "the server stopped its actor"
	}
	s.events.Become(protocol.ServerGone, reason)
	s.count("")
	if s.span != nil {
		s.span.SetAttributes(attribute.String("troupe.reason", reason))
		s.span.End()
	}
	who := audit.Who{Identity: s.identity, Session: s.id}
	s.env.Audit.Put(audit.SessionEnded{Who: who, Reason: audit.Text(reason), DurationMs: time.Since(s.life.Created()).Milliseconds()})
}

// refused records starts that the session refuses with err, and returns err.
func (s *session) refused(r request, group string, err *protocol.Error, starts ...protocol.ProcessStartParams) *protocol.Error {
	for i := range starts {
		p := &starts[i]
		dir, wrong := protocol.ParseFileURI(p.Cwd)
		if wrong != nil {
			dir = p.Cwd
		}
		s.env.Audit.Put(audit.ProcessRefused{
			Process: audit.Process{Who: s.clientOf(r.sender), Process: audit.Text(p.ProcessID), Group: audit.Text(group)},
			Argv:    p.Argv, Dir: audit.Text(dir), RequestedUser: audit.Text(p.User), Reason: audit.Text(err.Message),
		})
	}
	return err
}
