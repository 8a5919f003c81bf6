// Package session has the actor of a session: who is attached, which processes there are, and when the
// session ends. New returns the request for its supervisor.
//
// # Where to look
//
//   - session.go, access: who attaches, takeover, roles and shares: access decides, and the actor acts
//   - processes.go, members: starts, and the table of processes
//   - groups.go: groups of processes: package supervision decides
//   - end.go, lifetime: when the session ends, and why: lifetime decides
//   - requests.go: requests about the session
//   - new.go, audit.go: the supervisor; what the audit log has
//   - revive.go: a session that an earlier server has left
package session

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/notices"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/protocol"
	"go.opentelemetry.io/otel/trace"
)

// wakeDue is the session's own timer: something is due in its lifetime, or a share ends.
type wakeDue struct{}

// sessionRecord is the part of a session's state that survives a restart of the actor. Receive owns it.
type sessionRecord struct {
	// Fixed at spawn.
	env        *env.Env `lost:"of this server"`
	id         string
	from       string          // the owner key, as in Attach
	identity   string          // the name of the identity that opened the session
	maxChunk   *uint64         // as in protocol.SessionOptions
	events     *journal.Source `lost:"of this server"` // nil: nobody is told, since the session ends with its connection
	commands   bool            // the session is for a program of the sister APIs
	registry   *actor.PID      `lost:"of this server"`
	supervisor *actor.PID      `lost:"of this server"`

	// Made by inputs, which are values: whoever has kept the inputs can make the session again.
	name      string
	access    *access.Access
	life      *lifetime.Life
	processes members.Table
	groups    map[string]*group // by name
	groupIDs  map[string]*group `lost:"made again from groups"` // by the client's id: a group that has ended gives way to another with its id

	// Lost with the server. Clients repeat requests without an answer.
	first   *message.AttachRequest `lost:"the client attaches again"` // of the client that opens the session; nil once attached
	waiting map[string][]request   `lost:"clients ask again"`         // requests without an answer, by the news for which they wait
	answers repeat.Answers         // for clients who repeat a request after a cut
	gauge   *message.Gauge         `lost:"counted again"`
	span    trace.Span             `lost:"of this server"` // of the session; nil: nobody traces, or an earlier server has begun it
	counted string                 `lost:"counted again"`  // its state in Meters.Sessions; "": none yet
	mark    *notices.Mark          `lost:"of this server"` // on the board of notices; nil: there was no need
	shells  *shellstate.Cache
	told    message.Standing `lost:"told again"`     // the last to the registry
	wakeAt  env.Alarm        `lost:"of this server"` // set to the earlier Wake of life and access
	left    []error          // names programs of ended processes, not seen gone; maxLeft at most
	// revived has the actors of processes that an earlier server has left and that have not said that they are there. Until then early has the clients
	// who want to be attached: they would take the processes for new ones.
	revived map[string]bool         `lost:"of this server"`
	early   []message.AttachRequest `lost:"the client attaches again"`
	over    bool                    `lost:"told again"`     // all were told of the end, and the actor stops once its queue is empty
	estate  *estate.Owner           `lost:"of this server"` // nil: the session ends with its connection
	// closes is done when the session closes: starts without a child are given up.
	closes context.Context         `lost:"of this server"`
	giveUp context.CancelCauseFunc `lost:"of this server"`
}

// session is the actor of a session.
//
//	attached ⇄ detached ── TTL ──▶ closing ── no process left ──▶ gone
//	    └────────── session/close, drain ─────┘
type session struct{ *sessionRecord }

func (s *session) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *actor.Restarting:
		return // the next instance does what is left to do
	case *actor.Stopping, *actor.Stopped:
		s.stop(ctx)
		s.env.Notices.Gone(s.mark)
		return
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes earlier messages of its sender; Gone does not
	case message.Gone:
		if !s.access.Gone(idOf(m.Who)) {
			s.processGone(ctx, message.LastName(m.Who))
			s.isThere(ctx, message.LastName(m.Who))
		}

	case message.Attach:
		s.mayAttach(ctx, message.AttachRequest{Attach: m, Sender: ctx.Sender()})
	case message.Request:
		s.request(ctx, m)
	case message.ProcessStarted:
		s.processStarted(ctx, m)
		s.isThere(ctx, m.Name)
	case message.ProcessClosed:
		s.processes.Close(m.Name)
	case message.ProcessReopened:
		s.processes.Reopen(m.Name)
	case message.ProcessRetired:
		s.processRetired(ctx, m)
	case message.ProcessEnded:
		s.ended(m)
	case message.MemberReady, message.MemberEnded, message.MemberGone, message.MemberRejoins, message.MemberBack:
		s.member(ctx, m)
	case groupDue:
		s.groupDue(ctx, m.name)
	case message.Lost:
		s.access.Lost(idOf(ctx.Sender()))
	case message.Captured:
		s.shells.Note()
		s.estate.Keep(s.sessionRecord) // before a program starts from the state
		m.Known()
	case message.CaptureOver:
		s.captureOver(ctx, m)
	case wakeDue:
		s.wakeAt.Cancel() // live sets the alarm again, even for the same time: the clock may have been set back
	case message.Abandoned:
		s.abandoned()
	case message.Evict:
		s.evict(ctx, m)
	case message.TellStanding:
		s.tellStanding(ctx)
		s.access.Recount() // an Abandoned may be lost with the last registry
	case message.Drain:
		s.life.Drain(message.ReasonShutdown, max(s.env.KillGrace, 0))
	case message.Leave:
		s.life.EndBy(time.Now(), m.Until, message.ReasonLeaves)

	case message.BudgetLow: // for the processes
	default:
		s.env.Unexpected(ctx, s.id, m)
	}
	s.live(ctx)
	s.notice(ctx)
}

// start attaches the client that opened the session. After a restart, start asks everybody for messages
// that may be lost.
func (s *session) start(ctx actor.Context) {
	if first := s.first; first != nil {
		s.access.Failed() // the last instance may have failed over the answer: there is a single one
		s.attach(ctx, *first)
		s.act(ctx)
		s.first = nil
		return
	}
	if id, anew := s.access.Failed(); anew { // the guard has answered the Attach
		s.access.Gone(id)
	}
	s.wakeAt.Cancel() // the wakeDue may be lost
	s.shells.Resume(s.closes, s.env, ctx.ActorSystem().Root, ctx.Self())
	// Watching a stopped actor gives Gone or Terminated.
	for _, id := range s.access.Watched() {
		s.env.Watch(ctx, pidOf(id))
	}
	for m := range s.processes.All() {
		if m.PID == nil {
			s.ask(ctx, m) // the supervisor tells if the actor cannot be spawned
			continue
		}
		s.env.Watch(ctx, m.PID)
		ctx.Send(m.PID, message.Announce{})
	}
	for p := range s.processes.Lingering() {
		if p.PID == nil {
			s.ask(ctx, p)
			continue
		}
		s.env.Watch(ctx, p.PID)
	}
	for _, g := range s.groups {
		g.wakeAt.Cancel()
		s.allAnnounced(ctx, g)
		s.decide(ctx, g, s.repair(ctx, g))
	}
	s.access.Recount()
	if _, closing := s.life.Closing(); closing {
		s.end(ctx)
	}
}

// stop leaves neither timers nor watches behind: the host may stop a session long before it expires.
func (s *session) stop(ctx actor.Context) {
	s.wakeAt.Cancel()
	for _, g := range s.groups {
		g.wakeAt.Cancel()
	}
	for _, id := range s.access.Watched() {
		s.env.Unwatch(ctx, pidOf(id))
	}
}

// idOf returns the ID of an actor; nil is nobody.
func idOf(pid *actor.PID) access.ID {
	if pid == nil {
		return access.ID{}
	}
	return access.ID{Address: pid.Address, Name: pid.Id}
}

func pidOf(id access.ID) *actor.PID { return actor.NewPID(id.Address, id.Name) }

// started returns the processes that have started, and the ids of those that are being started.
func (s *session) started() (all []message.ProcessRef, starting []string) {
	for p := range s.processes.All() {
		if p.PID != nil {
			all = append(all, message.ProcessRef{ID: p.ID, PID: p.PID})
		} else {
			starting = append(starting, p.ID)
		}
	}
	return all, starting
}

// tellAttached tells everybody attached.
func (s *session) tellAttached(ctx actor.Context, m any) { s.tellOthers(ctx, nil, m) }

// tellOthers tells everybody attached, except the senders of requests.
func (s *session) tellOthers(ctx actor.Context, asked []request, m any) {
	for _, id := range s.access.Attached() {
		if !slices.ContainsFunc(asked, func(r request) bool { return idOf(r.sender) == id }) {
			ctx.Send(pidOf(id), m)
		}
	}
}

// attach tells access that a client wants to be attached. The Admit that follows answers.
func (s *session) attach(ctx actor.Context, m message.AttachRequest) {
	err := wireerr.UnknownSession(s.id)
	if s.life.Admits() {
		err = s.access.Attach(access.Attach{
			ID:       idOf(m.Sender),
			Token:    m.Token,
			Identity: m.Identity,
			Role:     m.Role,
			Takeover: m.Takeover,
			By:       audit.Who{Identity: m.Identity.Name, Account: m.Identity.Account(), Connection: message.ConnectionOf(m.Sender), Session: s.id},
			Opens:    s.first != nil,
		})
	}
	if err != nil {
		ctx.Send(m.Sender, m.Failed(err))
	}
}

// act does what access and lifetime ask for.
func (s *session) act(ctx actor.Context) {
	env.Act(s.env, ctx, s.access, func(a access.Action) { s.doAccess(ctx, a) }) // some are inputs of lifetime
	env.Act(s.env, ctx, s.life, func(a lifetime.Action) { s.doLife(ctx, a) })
}

// doAccess does an action of access. doAccess may be repeated.
func (s *session) doAccess(ctx actor.Context, a access.Action) {
	switch a := a.(type) {
	case access.Admit:
		if a.Role == protocol.RoleOwner {
			s.env.At(ctx, env.OwnerSet)
		}
		s.env.Watch(ctx, pidOf(a.Client.ID))
		s.recordAttached(a)
		answer := message.Attached{Token: a.Token, SessionID: s.id, Session: ctx.Self(), Role: a.Role, Removed: s.processes.Removed()}
		answer.Processes, answer.Starting = s.started()
		ctx.Send(pidOf(a.Client.ID), answer)
		if w, ok := s.life.Leaving(time.Now()); ok {
			ctx.Send(pidOf(a.Client.ID), message.Expiring{InMs: env.Milliseconds(w.In), Reason: w.Reason})
		}
		s.access.Answered()
		s.first = nil // not before: after a failure the client still waits for its answer
	case access.Evict:
		ctx.Send(pidOf(a.ID), message.Evicted{Reason: a.Reason})
		s.forget(ctx, message.ViewerGone{PID: pidOf(a.ID), Evicted: true})
	case access.Forget:
		s.forget(ctx, message.ViewerGone{PID: pidOf(a.ID)})
	case access.Count:
		if !a.Owned {
			s.env.At(ctx, env.OwnerGone)
		}
		s.life.Attached(time.Now(), a.Owned, a.Observers)
	case access.EndShare:
		s.env.Shares.Remove(a.Digest)
		s.env.Audit.Put(audit.ShareEnded{Who: a.By, Share: a.Share.ID, Reason: audit.Text(a.Reason)})
	}
}

// forget has the processes forget a client, and drops the requests of a client that has ended. A request with a requestId stays: the session
// remembers its answer, for the client who repeats the request.
func (s *session) forget(ctx actor.Context, m message.ViewerGone) {
	for p := range s.processes.All() {
		if p.PID != nil {
			ctx.Send(p.PID, m)
		}
	}
	if m.Evicted {
		return
	}
	for news, all := range s.waiting {
		s.waiting[news] = slices.DeleteFunc(all, func(r request) bool { return r.repeats == nil && m.PID.Equal(r.sender) })
	}
}
