package registry

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// seat opens the wanted sessions in order. If there is no room for the next session, seat ends the
// session that is worth the least, and goes on when that session has ended. If no session may be
// ended, seat refuses.
func (r *registry) seat(ctx actor.Context) {
	for r.ready && len(r.wanted) > 0 {
		first := r.wanted[0]
		worth, ok := r.roster.Room(first.From, r.elsewhere(first.From))
		switch {
		case r.draining:
			r.refuse(ctx, wireerr.ErrShutdown)
		case r.leaves.on() && !first.Life.Limits().Ephemeral: // an ephemeral session is a look, or a command of a client that is there
			r.refuse(ctx, wireerr.ErrLeaving)
		case ok:
			r.wanted = r.wanted[1:]
			r.open(ctx, first)
		case r.leaving != "":
			return
		case worth == "":
			r.refuse(ctx, r.noRoom(first.From))
		default:
			r.leaving = worth
			r.roster.Busy(worth)
			r.roomAt.Set(ctx, roomTime, roomDue{})
			r.env.Meters.Evictions.Add("places", 1)
			ctx.Send(r.known[worth], message.Evict{Reason: fmt.Sprintf("the session gave way: it had neither an owner nor a process, and others needed its place: the server may have %d sessions", r.env.MaxSessions), IfIdle: true})
			return
		}
	}
}

// refuse drops the first wanted session, and tells its client.
func (r *registry) refuse(ctx actor.Context, err *protocol.Error) {
	m := r.wanted[0].First
	r.openings.forget(r.wanted[0].ID)
	r.wanted = r.wanted[1:]
	ctx.Send(m.Sender, m.Failed(err))
}

// elsewhere returns how many sessions an owner key has on other nodes.
func (r *registry) elsewhere(from string) int {
	if r.env.Elsewhere == nil {
		return 0
	}
	return r.env.Elsewhere(from).Sessions
}

// noRoom is the error for a client from the owner key from when no session may give way.
func (r *registry) noRoom(from string) *protocol.Error {
	if _, others := r.roster.Room("", 0); others && from != "" {
		if r.env.Elsewhere != nil {
			here, elsewhere := r.roster.Sessions(from), r.elsewhere(from)
			return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-sessions-each is %d in this cluster, and %s has %d sessions: %d here and %d on other nodes: close one, or try again when one has expired",
				r.env.MaxSessionsEach, from, here+elsewhere, here, elsewhere).Exceeds("max-sessions-each", float64(r.env.MaxSessionsEach), float64(here+elsewhere))
		}
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-sessions-each is %d here, and %s has as many sessions: close one, or try again when one has expired", r.env.MaxSessionsEach, from).
			Exceeds("max-sessions-each", float64(r.env.MaxSessionsEach), float64(r.env.MaxSessionsEach))
	}
	return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-sessions is %d here, and the server has %d sessions: close one, or try again when one has expired", r.env.MaxSessions, len(r.known)).
		Exceeds("max-sessions", float64(r.env.MaxSessions), float64(len(r.known)))
}

// left goes on with the wanted sessions: the session id has ended, or will not make room.
func (r *registry) left(ctx actor.Context, id string) {
	if id == r.leaving {
		r.leaving = ""
		r.roomAt.Stop()
	}
	r.seat(ctx)
}

// rated notes in the roster whether a session may make room.
func (r *registry) rated(ctx actor.Context, m message.Standing) {
	r.roster.Take(m.ID, m.From)
	if !m.Since.IsZero() && m.Empty {
		if m.ID != r.leaving {
			r.roster.Idle(m.ID, m.Since)
		}
		return
	}
	r.roster.Busy(m.ID)
	r.left(ctx, m.ID)
}
