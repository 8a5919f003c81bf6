// Package session has the actor of a session: who is attached, which processes there are, and when the
// session ends. New returns the request for its supervisor.
//
// # Where to look
//
//   - session.go, members: who attaches, takeover, and the table of processes
//   - processes.go, new.go: starts
//   - groups.go: groups of processes: package supervision decides, and the session tells the processes
//   - shares.go: roles, shares, and who is cut when a share ends
//   - update.go: what an owner may change
//   - end.go, lifetime: when the session ends, and why: lifetime decides, and the actor acts
//   - audit.go: what the audit log has
package session

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// lifeDue is the session's own timer: something is due in its lifetime.
type lifeDue struct{}

// sessionRecord is the part of a session's state that survives a restart of the actor. Receive owns it.
type sessionRecord struct {
	// Fixed at spawn.
	env        *env.Env
	id, name   string
	from       string          // the owner key, as in Attach
	identity   string          // the name of the identity that opened the session
	maxChunk   *uint64         // as in protocol.SessionOptions
	events     *journal.Source // nil: nobody is told, since the session ends with its connection
	commands   bool            // the session is for a program of the sister APIs
	registry   *actor.PID
	supervisor *actor.PID
	first      *message.AttachRequest // of the client that opens the session; nil once attached

	// closes is done when the session closes: starts without a child are given up.
	closes context.Context
	giveUp context.CancelCauseFunc

	attaching *actor.PID                 // the sender of an Attach under way, if not attached before; nil: nobody
	owner     *actor.PID                 // nil: detached
	by        audit.Who                  // the owner, or the last one, for the record
	departure string                     // how the owner leaves or has left, in words; "": it closes its connection
	observers map[message.Key]viewer     // everybody attached but the owner
	former    map[message.Key]*actor.PID // viewers that have lost the session, until they stop
	life      *lifetime.Life
	lifeAt    env.Alarm // set to life.Next
	told      standing  // the last Standing to the registry
	shares    []shared  // maxShares at most, the oldest first
	shareAt   env.Alarm // set to the end of the next share
	gauge     *message.Gauge
	processes members.Table
	shells    shellstate.Cache
	groups    map[string]*group // by name
	groupIDs  map[string]*group // by the client's id: a group that has ended gives way to another with its id
	over      bool              // all were told of the end, and the actor stops once its queue is empty
	left      []error           // names programs of ended processes, not seen gone; maxLeft at most
	answers   repeat.Answers    // for clients who repeat a request after a cut
	closers   []request         // session/close without an answer
}

type request = members.Request

// leftLost is how an owner has left whose connection broke.
const leftLost = "the connection was lost"

// A viewer is a connection, or an actor of the host, that is attached beside the owner: an observer, a
// controller or a guest.
type viewer struct {
	pid   *actor.PID
	role  protocol.Role
	guest string    // the identity of a guest; "": not a guest
	by    audit.Who // the client, for the record
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
	case *actor.Stopping, *actor.Stopped:
		s.lifeAt.Cancel() // the host may stop a session long before it expires
		s.shareAt.Cancel()
		for _, g := range s.groups {
			g.wakeAt.Cancel()
		}
		for _, pid := range s.attached() {
			s.env.Unwatch(ctx, pid)
		}
		for _, pid := range s.former {
			s.env.Unwatch(ctx, pid)
		}
		return
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes earlier messages of its sender; Gone does not
	case message.Gone:
		s.terminated(ctx, m.Who)

	case message.Attach:
		s.attach(ctx, message.AttachRequest{Attach: m, Sender: ctx.Sender()})
	case message.Request:
		s.request(ctx, m)
	case message.ProcessStarted:
		s.processStarted(ctx, m)
	case message.ProcessClosed:
		if p := s.processes.Named(m.Name); p != nil {
			s.processes.Close(p)
		}
	case message.ProcessReopened:
		if p := s.processes.Named(m.Name); p != nil {
			s.processes.Reopen(p)
		}
	case message.ProcessRetired:
		s.processRetired(ctx, m)
	case message.ProcessEnded:
		s.ended(m)
	case message.MemberReady, message.MemberEnded, message.MemberGone, message.MemberRejoins, message.MemberBack:
		s.member(ctx, m)
	case groupDue:
		s.groupDue(ctx, m.name)
	case message.Lost:
		if s.departure == "" && ctx.Sender().Equal(s.owner) {
			s.departure = leftLost
		}
	case message.CaptureOver:
		s.captureOver(ctx, m)
	case lifeDue:
		s.lifeAt.Cancel() // live sets the alarm again, even for the same time: the clock may have been set back
	case shareDue:
		s.shareAt.Cancel() // live ends the share, and sets the alarm again
	case message.Abandoned:
		s.abandoned(ctx)
	case message.Evict:
		s.evict(ctx, m)
	case message.TellStanding:
		s.tellStanding(ctx)
		s.sinceAttached(ctx) // an Abandoned may be lost with the last registry
	case message.Drain:
		s.drain(ctx)

	case message.BudgetLow: // for the processes
	default:
		s.env.Unexpected(ctx, s.id, m)
	}
	s.live(ctx)
}

// start attaches the client that opened the session. After a restart, start asks everybody for messages
// that may be lost.
func (s *session) start(ctx actor.Context) {
	if s.observers == nil {
		s.observers = make(map[message.Key]viewer)
		s.former = make(map[message.Key]*actor.PID)
	}
	if first := s.first; first != nil {
		s.attach(ctx, *first)
		s.first = nil // not before: after a failure the client still waits for its answer
		return
	}
	if half := s.attaching; half != nil { // the guard has answered: the Attach has failed
		s.attaching = nil
		s.terminated(ctx, half)
	}
	s.lifeAt.Cancel() // the lifeDue may be lost
	s.shareAt.Cancel()
	s.dropGuests(ctx, shareRevoked)
	// Watching a stopped actor gives Gone or Terminated.
	for _, pid := range s.attached() {
		s.env.Watch(ctx, pid)
	}
	for _, pid := range s.former {
		s.env.Watch(ctx, pid)
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
		s.env.Watch(ctx, p.PID)
	}
	for _, g := range s.groups {
		g.wakeAt.Cancel()
		s.allAnnounced(ctx, g)
		s.decide(ctx, g, s.repair(ctx, g))
	}
	s.sinceAttached(ctx)
	if _, closing := s.life.Closing(); closing {
		s.end(ctx)
	}
}

// attached returns the owner, if any, and the observers.
func (s *session) attached() []*actor.PID {
	var all []*actor.PID
	if s.owner != nil {
		all = append(all, s.owner)
	}
	for _, v := range s.observers {
		all = append(all, v.pid)
	}
	return all
}

// starting returns the ids of the processes that are being started.
func (s *session) starting() (ids []string) {
	for p := range s.processes.All() {
		if p.PID == nil {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// started returns the processes that have started.
func (s *session) started() (all []message.ProcessRef) {
	for p := range s.processes.All() {
		if p.PID != nil {
			all = append(all, message.ProcessRef{ID: p.ID, PID: p.PID})
		}
	}
	return all
}

func (s *session) tellAttached(ctx actor.Context, m any) {
	for _, pid := range s.attached() {
		ctx.Send(pid, m)
	}
}

// attach makes the sender owner, or a viewer beside the owner, and answers.
func (s *session) attach(ctx actor.Context, m message.AttachRequest) {
	role, err := s.roleFor(m.Attach)
	if err != nil {
		ctx.Send(m.Sender, m.Failed(err))
		return
	}
	how := "resumed"
	switch {
	case s.first != nil:
		how = "opened"
	case m.Identity.Guest != nil:
		how = "joined"
	case role == protocol.RoleObserver:
		how = "observed"
	case role == protocol.RoleController:
		how = "controlled"
	}
	if role == protocol.RoleOwner {
		if s.owner != nil && !s.owner.Equal(m.Sender) {
			if !m.Takeover {
				ctx.Send(m.Sender, m.Failed(protocol.Errorf(protocol.KindAttached, protocol.CodeAlreadyAttached,
					"session %s is already attached to another connection", s.id).
					Advise("try again when the other connection has ended, or with takeover true")))
				return
			}
			how = "takenOver"
			ctx.Send(s.owner, message.Evicted{Reason: "taken over by another connection"})
			s.viewerGone(ctx, message.ViewerGone{PID: s.owner, Evicted: true})
			s.former[message.KeyOf(s.owner)] = s.owner // still watched: processes ignore the old owner until it stops
		}
		if !m.Sender.Equal(s.owner) {
			s.attaching = m.Sender
		}
		s.owner, s.by, s.departure = m.Sender, s.whoIs(m), ""
		s.env.At(ctx, env.OwnerSet)
	} else {
		if _, again := s.observers[message.KeyOf(m.Sender)]; !again {
			s.attaching = m.Sender
		}
		v := viewer{pid: m.Sender, role: role, by: s.whoIs(m)}
		if m.Identity.Guest != nil {
			v.guest = m.Identity.Name
		}
		s.observers[message.KeyOf(m.Sender)] = v
	}
	if pid := s.former[message.KeyOf(m.Sender)]; pid != nil { // an actor of the host is back
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		delete(s.former, message.KeyOf(pid))
	}
	s.sinceAttached(ctx)
	s.env.Watch(ctx, m.Sender)
	answer := message.Attached{Token: m.Token, SessionID: s.id, Session: ctx.Self(), Role: role}
	answer.Processes, answer.Starting = s.started(), s.starting()
	answer.Removed = s.processes.Removed()
	s.recordAttached(m, how)
	ctx.Send(m.Sender, answer)
	s.attaching = nil
}

// terminated handles the end of an actor: of an owner, a viewer or a process.
func (s *session) terminated(ctx actor.Context, pid *actor.PID) {
	switch {
	case pid.Equal(s.owner): // not s.owner.Equal: the owner may be nil
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		s.owner = nil
		s.env.At(ctx, env.OwnerGone)
		s.sinceAttached(ctx)
	case s.observers[message.KeyOf(pid)].pid != nil:
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		delete(s.observers, message.KeyOf(pid))
		s.sinceAttached(ctx)
	case s.former[message.KeyOf(pid)] != nil:
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		delete(s.former, message.KeyOf(pid))
	default:
		s.processGone(ctx, message.LastName(pid))
	}
}

// viewerGone has the processes forget a viewer, and drops its requests if it has stopped.
func (s *session) viewerGone(ctx actor.Context, m message.ViewerGone) {
	if !m.Evicted {
		s.dropStops(m.PID)
	}
	asked := func(r request) bool { return !m.Evicted && m.PID.Equal(r.Sender) }
	for p := range s.processes.All() {
		p.Asked = slices.DeleteFunc(p.Asked, asked)
		if p.PID != nil {
			ctx.Send(p.PID, m)
		}
	}
	for _, g := range s.groups {
		g.asked = slices.DeleteFunc(g.asked, asked)
	}
}

func (s *session) request(ctx actor.Context, m message.Request) {
	if s.former[message.KeyOf(ctx.Sender())] != nil { // otherwise the record would name the new owner
		ctx.Respond(m.Failed(wireerr.ErrEvicted))
		return
	}
	switch params := m.Params.(type) {
	case protocol.ProcessStartParams:
		s.startProcess(ctx, request{Sender: ctx.Sender(), Token: m.Token}, params)
	case protocol.GroupStartParams:
		s.startGroup(ctx, request{Sender: ctx.Sender(), Token: m.Token}, params)
	case protocol.GroupStopParams:
		s.stopGroup(ctx, m, params)
	case message.GroupListRequest:
		s.listGroups(ctx, m)
	case message.SessionInfoRequest:
		limits := s.life.Limits()
		ctx.Respond(message.Reply{Token: m.Token, Result: protocol.SessionInfoResult{
			SessionID:     s.id,
			Name:          s.name,
			CreatedAtMs:   s.life.Created().UnixMilli(),
			Role:          s.roleOf(ctx.Sender()),
			Attached:      s.owner != nil,
			Observers:     len(s.observers),
			Processes:     s.processes.Len(),
			DetachedTTLMs: env.Milliseconds(limits.TTL),
			KeepRunning:   limits.KeepRunning,
			Ephemeral:     limits.Ephemeral,
			IdleMs:        env.Milliseconds(limits.Idle),
			MaxAgeMs:      env.Milliseconds(limits.Age),
		}})
	case message.SummaryRequest:
		ctx.Respond(message.Reply{Token: m.Token, Result: s.summary(params)})
	case protocol.SessionShareParams:
		s.share(ctx, m, params)
	case message.SharesRequest:
		s.listShares(ctx, m)
	case protocol.SessionUnshareParams:
		s.unshare(ctx, m, params)
	case protocol.SessionUpdateParams:
		s.update(ctx, m, params)
	case protocol.SessionCloseParams:
		if params.SessionID != nil && *params.SessionID != s.id {
			ctx.Respond(m.Failed(protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "session/close is for the connection's own session %s, not for %s: resume that one first", s.id, wireerr.Clip(*params.SessionID))))
			return
		}
		s.closers = append(s.closers, request{Sender: ctx.Sender(), Token: m.Token}) // before close, which may answer all closers
		s.close(ctx, message.ReasonClosed)
	default:
		ctx.Respond(m.Failed(protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a session does not answer %T", m.Params)))
	}
}

// summary describes the session to a client; nil if the session is not for the client.
func (s *session) summary(asked message.SummaryRequest) any {
	if s.life.Limits().Ephemeral || !asked.Identity.MayObserve(s.id, s.identity) {
		return nil
	}
	sum := message.Summary{SessionSummary: protocol.SessionSummary{
		SessionID:   s.id,
		Name:        s.name,
		Identity:    s.identity,
		CreatedAtMs: s.life.Created().UnixMilli(),
		Observers:   len(s.observers),
		Processes:   s.processes.Len(),
		KeepRunning: s.life.Limits().KeepRunning,
		State:       protocol.SessionDetached,
	}}
	if _, closing := s.life.Closing(); closing {
		sum.State = protocol.SessionClosing
	} else if s.owner != nil {
		sum.State = protocol.SessionAttached
	} else {
		sum.Left, sum.DetachedAtMs, sum.EndsAtMs = s.departure, unixMs(s.life.Detached()), unixMs(s.life.Expires())
	}
	if asked.Started {
		sum.Started = s.started()
	}
	return sum
}

// unixMs returns a time in milliseconds since the Unix epoch; 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// roleOf returns the role of whoever is attached by an actor; "": nobody is.
func (s *session) roleOf(pid *actor.PID) protocol.Role {
	if pid.Equal(s.owner) { // not s.owner.Equal: the owner may be nil
		return protocol.RoleOwner
	}
	return s.observers[message.KeyOf(pid)].role
}
