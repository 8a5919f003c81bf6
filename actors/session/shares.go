package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

const (
	// maxShares is how many shares a session may have at once.
	maxShares = 16
	// defaultShareTime is how long a share lasts if its owner names no time.
	defaultShareTime = time.Hour
	// guestPrefix and the id of a share are the identity of its guests.
	guestPrefix = "share:"
)

// Why a share ends, for its guests and for the record.
const (
	shareRevoked = "the share was revoked"
	shareExpired = "the share has expired"
)

// A shared is a share of the session. Book has its digest as long as the session has the shared.
type shared struct {
	id, name       string
	access         protocol.Access
	digest         share.Digest
	created, until time.Time
}

// guestName is the identity of the guests.
func (s *shared) guestName() string { return guestPrefix + s.id }

// A shareDue is the session's own timer: a share has expired.
type shareDue struct{}

// share makes a share, and answers with its token.
func (s *session) share(ctx actor.Context, m message.Request, p protocol.SessionShareParams) {
	if err := s.shareError(ctx.Sender(), p); err != nil {
		ctx.Respond(m.Failed(err))
		return
	}
	now := time.Now()
	lasts := min(defaultShareTime, s.env.Shares.Longest)
	if p.ExpiresInMs != nil {
		lasts = env.FromMillis(*p.ExpiresInMs)
	}
	token, digest := share.NewToken()
	made := shared{id: uuid.NewString(), name: p.Name, access: p.Access, digest: digest, created: now, until: now.Add(lasts)}
	s.shares = append(s.shares, made)
	s.env.Shares.Add(digest, identity.Identity{
		Name:  made.guestName(),
		Guest: &identity.Guest{Session: s.id, Host: s.identity, Types: p.Access == protocol.AccessType},
	}, made.until)
	s.env.Audit.Put(audit.ShareMade{Who: s.clientOf(ctx.Sender()), Share: made.id, Access: string(p.Access), Name: audit.Text(p.Name), DurationMs: lasts.Milliseconds()})
	ctx.Respond(message.Reply{Token: m.Token, Result: protocol.SessionShareResult{
		ShareID:     made.id,
		Token:       token,
		Access:      made.access,
		ExpiresAtMs: made.until.UnixMilli(),
	}})
}

// shareError returns why a client may not make a share; nil: it may.
func (s *session) shareError(from *actor.PID, p protocol.SessionShareParams) *protocol.Error {
	book := s.env.Shares
	if !s.roleOf(from).Commands() { // of clients the connection knows; of actors of the host only the session
		return errNotOwner
	}
	if book == nil {
		return protocol.Errorf(protocol.KindOff, protocol.CodeInvalidRequest, "this server has no shares: it asks for no credential, or its operator has turned shares off")
	}
	if longest := book.Longest; p.ExpiresInMs != nil && (*p.ExpiresInMs == 0 || env.FromMillis(*p.ExpiresInMs) > longest) {
		return wireerr.BadTime("expiresInMs", *p.ExpiresInMs, longest, "max-share-time")
	}
	if n := len(s.shares); n >= maxShares {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "session %s has %d shares, and may have no more: end one with session/unshare", s.id, n)
	}
	return wireerr.BadName("name", p.Name)
}

var errNotOwner = protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "shares are for the session's owner and its controllers")

func (s *session) listShares(ctx actor.Context, m message.Request) {
	list := protocol.SessionSharesResult{Shares: []protocol.ShareInfo{}}
	for i := range s.shares {
		is := &s.shares[i]
		info := protocol.ShareInfo{ShareID: is.id, Name: is.name, Access: is.access, CreatedAtMs: is.created.UnixMilli(), ExpiresAtMs: is.until.UnixMilli()}
		for _, v := range s.observers {
			if v.guest == is.guestName() {
				info.Guests++
			}
		}
		list.Shares = append(list.Shares, info)
	}
	ctx.Respond(message.Reply{Token: m.Token, Result: list})
}

func (s *session) unshare(ctx actor.Context, m message.Request, p protocol.SessionUnshareParams) {
	if !s.roleOf(ctx.Sender()).Commands() {
		ctx.Respond(m.Failed(errNotOwner))
		return
	}
	i := slices.IndexFunc(s.shares, func(is shared) bool { return is.id == p.ShareID })
	if i >= 0 {
		s.endShare(ctx, i, s.clientOf(ctx.Sender()), shareRevoked)
	}
	ctx.Respond(message.Reply{Token: m.Token, Result: protocol.SessionUnshareResult{Ended: i >= 0}})
}

// expireShares ends the shares whose time is over, and sets the alarm for the next.
func (s *session) expireShares(ctx actor.Context) {
	var next time.Time
	now := time.Now()
	for i := len(s.shares) - 1; i >= 0; i-- {
		switch until := s.shares[i].until; {
		case !now.Before(until):
			s.endShare(ctx, i, audit.Who{Identity: s.identity, Session: s.id}, shareExpired)
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	s.shareAt.SetTo(ctx, next, shareDue{})
}

// endShare ends a share: its token first, then its guests.
func (s *session) endShare(ctx actor.Context, i int, by audit.Who, reason string) {
	is := s.shares[i]
	s.env.Shares.Remove(is.digest)
	s.shares = slices.Delete(s.shares, i, i+1)
	s.env.Audit.Put(audit.ShareEnded{Who: by, Share: is.id, Reason: audit.Text(reason)})
	s.dropGuests(ctx, reason)
}

// dropGuests cuts off the guests whose share has ended. It may be repeated.
func (s *session) dropGuests(ctx actor.Context, reason string) {
	for key, v := range s.observers {
		if v.guest == "" || s.shareOf(v.guest) != nil {
			continue
		}
		ctx.Send(v.pid, message.Evicted{Reason: reason})
		s.viewerGone(ctx, message.ViewerGone{PID: v.pid, Evicted: true})
		s.former[key] = v.pid
		delete(s.observers, key)
	}
	s.sinceAttached(ctx)
}

// shareOf returns the share of the guests with a name; nil: the share has ended.
func (s *session) shareOf(guest string) *shared {
	for i := range s.shares {
		if s.shares[i].guestName() == guest {
			return &s.shares[i]
		}
	}
	return nil
}

// endShares makes the tokens of all shares invalid. The end of the session cuts the guests off.
func (s *sessionRecord) endShares() {
	for i := range s.shares {
		s.env.Shares.Remove(s.shares[i].digest)
	}
	s.shares = nil
}

// roleFor returns the role that a client gets by an Attach, or why the client is not attached.
func (s *session) roleFor(m message.Attach) (protocol.Role, *protocol.Error) {
	id := m.Identity
	if !s.life.Admits() || !id.MayObserve(s.id, s.identity) || id.Guest != nil && s.shareOf(id.Name) == nil {
		return "", wireerr.UnknownSession(s.id)
	}
	role := cmp.Or(m.Role, protocol.RoleOwner)
	if g := id.Guest; g != nil {
		most := protocol.RoleObserver
		if g.Types {
			most = protocol.RoleTypist
		}
		if role = cmp.Or(m.Role, most); role != most && role != protocol.RoleObserver {
			return "", protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s may be %s in session %s, and not %s: leave role out", id.Name, most, s.id, role)
		}
		return role, nil
	}
	switch {
	case role == protocol.RoleTypist:
		return "", protocol.WrongParams("role typist is for guests with the token of a share: set role to owner, observer or controller")
	case role.Commands() && !id.Owns(s.identity):
		return "", protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s may observe session %s, and not own or control it: set role to observer", id.Name, s.id)
	}
	return role, nil
}
