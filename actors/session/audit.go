package session

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the events of the audit log about sessions, and about starts that a session refuses.

// whoIs returns the client that sent an Attach.
func (s *session) whoIs(m message.AttachRequest) audit.Who {
	return audit.Who{Identity: m.Identity.Name, Account: m.Identity.Account(), Connection: message.ConnectionOf(m.Sender), Session: s.id}
}

// clientOf returns the client that is, or was, attached by an actor.
func (s *session) clientOf(pid *actor.PID) audit.Who {
	if v, ok := s.observers[message.KeyOf(pid)]; ok {
		return v.by
	}
	return s.by
}

// recordAttached records an Attach that has succeeded.
func (s *session) recordAttached(m message.AttachRequest, how string) {
	e := audit.SessionAttached{Who: s.whoIs(m), How: how, Name: audit.Text(s.name)}
	if s.identity != m.Identity.Name {
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
	who := audit.Who{Identity: s.identity, Session: s.id}
	s.env.Audit.Put(audit.SessionEnded{Who: who, Reason: audit.Text(reason), DurationMs: time.Since(s.life.Created()).Milliseconds()})
}

// recordRefused records starts of a client that the session refuses.
func (s *session) recordRefused(by *actor.PID, group string, err *protocol.Error, starts ...protocol.ProcessStartParams) {
	for i := range starts {
		p := &starts[i]
		dir, wrong := protocol.ParseFileURI(p.Cwd)
		if wrong != nil {
			dir = p.Cwd
		}
		s.env.Audit.Put(audit.ProcessRefused{
			Process: audit.Process{Who: s.clientOf(by), Process: audit.Text(p.ProcessID), Group: audit.Text(group)},
			Argv:    p.Argv, Dir: audit.Text(dir), RequestedUser: audit.Text(p.User), Reason: audit.Text(err.Message),
		})
	}
}
