package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/notices"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

// defaultShareTime is how long a share lasts if its owner names no time.
const defaultShareTime = time.Hour

// request is a request of a client.
type request struct {
	sender *actor.PID
	token  uint64
	// repeats are the params if they have a requestId: the answer is remembered, for the client who repeats the request. Nil: nobody may.
	repeats any
}

// same reports whether a client has repeated o as r.
func (r request) same(o request) bool { return r.repeats != nil && r.repeats == o.repeats }

// newsClosed is the news that a session/close waits for. Other requests wait for the name of a process or a group.
const newsClosed = "closed"

// later is the result of a request that waits.
type later struct{}

// wait has a request wait for news. A request that a client has repeated meanwhile gets no answer.
func (s *session) wait(r request, news string) (any, *protocol.Error) {
	s.waiting[news] = append(slices.DeleteFunc(s.waiting[news], r.same), r)
	return later{}, nil
}

// answer answers the requests that wait for news.
func (s *session) answer(ctx actor.Context, news string, result any, err *protocol.Error) {
	for _, r := range s.waiting[news] {
		s.reply(ctx, r, result, err)
	}
	delete(s.waiting, news)
}

// reply answers a request: with result, or with an error.
func (s *session) reply(ctx actor.Context, r request, result any, err *protocol.Error) {
	if err != nil {
		result = nil
	}
	s.answers.Add(r.repeats, result, err)
	ctx.Send(r.sender, message.Reply{Token: r.token, Result: result, Err: err})
}

// request answers a request, after everything that follows from it.
func (s *session) request(ctx actor.Context, m message.Request) {
	r := request{sender: ctx.Sender(), token: m.Token}
	if s.access.Evicted(idOf(r.sender)) { // otherwise the record would name the new owner
		s.reply(ctx, r, nil, wireerr.ErrEvicted)
		return
	}
	if _, ok := repeat.Key(m.Params); ok {
		r.repeats = m.Params
	}
	if a, ok := s.answers.To(r.repeats); ok {
		s.reply(ctx, r, a.Result, a.Err)
	} else if result, err := s.answerTo(ctx, r, m.Params); result != any(later{}) {
		s.act(ctx)
		s.reply(ctx, r, result, err)
	}
}

func (s *session) answerTo(ctx actor.Context, r request, params any) (result any, err *protocol.Error) {
	switch params := params.(type) {
	case protocol.ProcessStartParams:
		return s.startProcess(ctx, r, params)
	case protocol.GroupStartParams:
		return s.startGroup(ctx, r, params)
	case protocol.GroupStopParams:
		return s.stopGroup(ctx, r, params)
	case message.GroupListRequest:
		return s.listGroups(), nil
	case message.SessionInfoRequest:
		return s.info(r), nil
	case message.SummaryRequest:
		return s.summary(params), nil
	case protocol.SessionShareParams:
		return s.share(r, params)
	case message.SharesRequest:
		return protocol.SessionSharesResult{Shares: s.access.Shares()}, nil
	case protocol.SessionUnshareParams:
		if err := s.access.MayShare(idOf(r.sender)); err != nil {
			return nil, err
		}
		return protocol.SessionUnshareResult{Ended: s.access.Unshare(params.ShareID, s.clientOf(r.sender))}, nil
	case protocol.SessionUpdateParams:
		return s.update(params)
	case protocol.SessionCloseParams:
		if params.SessionID != nil && *params.SessionID != s.id {
			return nil, protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "session/close is for the connection's own session %s, not for %s: resume that one first", s.id, wireerr.Clip(*params.SessionID))
		}
		s.life.Close(message.ReasonClosed)
		return s.wait(r, newsClosed)
	}
	return nil, protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a session does not answer %T", params)
}

// info describes the session to a client of it.
func (s *session) info(r request) protocol.SessionInfoResult {
	limits := s.life.Limits()
	return protocol.SessionInfoResult{
		SessionID:     s.id,
		Name:          s.name,
		CreatedAtMs:   s.life.Created().UnixMilli(),
		Role:          s.access.Role(idOf(r.sender)),
		Attached:      s.access.Owner() != access.ID{},
		Observers:     s.access.Observers(),
		Processes:     s.processes.Len(),
		DetachedTTLMs: env.Milliseconds(limits.TTL),
		KeepRunning:   limits.KeepRunning,
		Ephemeral:     limits.Ephemeral,
		IdleMs:        env.Milliseconds(limits.Idle),
		MaxAgeMs:      env.Milliseconds(limits.Age),
	}
}

// summary describes the session to a client; nil if the session is not for the client.
// Stands implements env.Stander.
func (s *session) Stands() (state string, waits []string) {
	for news, requests := range s.waiting {
		waits = append(waits, fmt.Sprintf("%d requests wait for %s", len(requests), news))
	}
	if n := len(s.revived); n > 0 {
		waits = append(waits, fmt.Sprintf("%d processes of the last server have yet to say that they are there", n))
	}
	return fmt.Sprintf("%s, %d processes", s.counted, s.processes.Len()), slices.Sorted(slices.Values(waits))
}

func (s *session) summary(asked message.SummaryRequest) any {
	if s.life.Limits().Ephemeral || !asked.Identity.MayObserve(s.id, s.identity) {
		return nil
	}
	sum := message.Summary{SessionSummary: protocol.SessionSummary{
		SessionID:   s.id,
		Name:        s.name,
		Identity:    s.identity,
		CreatedAtMs: s.life.Created().UnixMilli(),
		Observers:   s.access.Observers(),
		Processes:   s.processes.Len(),
		KeepRunning: s.life.Limits().KeepRunning,
		State:       protocol.SessionDetached,
	}}
	if _, closing := s.life.Closing(); closing {
		sum.State = protocol.SessionClosing
	} else if s.access.Owner() != (access.ID{}) {
		sum.State = protocol.SessionAttached
	} else {
		sum.Left, sum.DetachedAtMs, sum.EndsAtMs = s.access.Departure(), unixMs(s.life.Detached()), unixMs(s.life.Expires())
	}
	if asked.Started {
		sum.Started, _ = s.started()
	}
	if asked.Groups {
		sum.Groups = s.listGroups().Groups
	}
	return sum
}

// notice notes that the session has changed, unless somebody has only looked.
func (s *session) notice(ctx actor.Context) {
	if s.events == nil || !s.env.Notices.On() {
		return
	}
	if m, ok := ctx.Message().(message.Request); ok {
		switch m.Params.(type) {
		case message.SummaryRequest, message.SessionInfoRequest, message.GroupListRequest, message.SharesRequest:
			return
		}
	}
	if s.mark == nil {
		s.mark = &notices.Mark{Session: s.id, PID: ctx.Self(), Of: ctx.Self()}
	}
	s.env.Notices.Changed(s.mark, true)
}

// unixMs returns a time in milliseconds since the Unix epoch; 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// share makes a share, and answers with its token.
func (s *session) share(r request, p protocol.SessionShareParams) (any, *protocol.Error) {
	if err := s.access.MayShare(idOf(r.sender)); err != nil {
		return nil, err
	}
	book := s.env.Shares
	if book == nil {
		return nil, protocol.Errorf(protocol.KindOff, protocol.CodeInvalidRequest, "this server has no shares: it asks for no credential, or its operator has turned shares off")
	}
	lasts := min(defaultShareTime, book.Longest)
	if p.ExpiresInMs != nil {
		if lasts = protocol.FromMillis(*p.ExpiresInMs); lasts == 0 || lasts > book.Longest {
			return nil, wireerr.BadTime("expiresInMs", *p.ExpiresInMs, book.Longest, "max-share-time")
		}
	}
	if err := wireerr.BadName("name", p.Name); err != nil {
		return nil, err
	}
	token, digest := book.NewToken()
	now := time.Now()
	made := access.Share{ID: uuid.NewString(), Name: p.Name, Access: p.Access, Digest: digest, Created: now, Until: now.Add(lasts)}
	if err := s.access.Share(made); err != nil {
		return nil, err
	}
	s.admit(made)
	s.env.Audit.Put(audit.ShareMade{Who: s.clientOf(r.sender), Share: made.ID, Access: string(p.Access), Name: audit.Text(p.Name), DurationMs: lasts.Milliseconds()})
	return protocol.SessionShareResult{ShareID: made.ID, Token: token, Access: made.Access, ExpiresAtMs: made.Until.UnixMilli()}, nil
}

// admit makes the token of a share valid.
func (s *sessionRecord) admit(made access.Share) {
	guest := identity.Identity{Name: made.Guest(), Guest: &identity.Guest{Session: s.id, Host: s.identity, Types: made.Access == protocol.AccessType}}
	s.env.Shares.Add(made.Digest, guest, made.Until)
}

// update handles session/update: it changes everything or, with an error, nothing.
func (s *session) update(p protocol.SessionUpdateParams) (any, *protocol.Error) {
	limits := s.life.Limits()
	name, ttl, keep, departure := s.name, limits.TTL, limits.KeepRunning, s.access.Departure()
	var err *protocol.Error
	if p.Name != nil {
		name = *p.Name
		err = wireerr.BadName("name", name)
	}
	if p.DetachedTTLMs != nil {
		var tooLong *protocol.Error
		ttl, tooLong = DetachedTTL(s.env, "detachedTtlMs", p.DetachedTTLMs)
		err = cmp.Or(err, tooLong)
	}
	if p.KeepRunning != nil {
		keep = *p.KeepRunning
	}
	if p.Left != nil {
		departure = *p.Left
		err = cmp.Or(err, wireerr.BadName("left", departure))
	}
	if limits.Ephemeral && (p.DetachedTTLMs != nil || keep) {
		err = cmp.Or(err, errEphemeral)
	}
	if err != nil {
		return nil, err
	}
	s.name = name
	s.events.Rename(name)
	s.access.Leaves(departure)
	s.life.Update(time.Now(), ttl, keep)
	return protocol.Empty{}, nil
}

var errEphemeral = protocol.Errorf(protocol.KindParams, protocol.CodeInvalidParams, "an ephemeral session ends with its connection: leave detachedTtlMs and keepRunning out")

// DetachedTTL returns the TTL of a session whose client asked for ms, in a member with a name: nil means the
// server's default, 0 means no limit. Negative: the session never expires.
func DetachedTTL(e *env.Env, member string, ms *uint64) (time.Duration, *protocol.Error) {
	if ms == nil {
		return e.DetachedTTL, nil
	}
	ttl := protocol.FromMillis(*ms)
	if ttl == 0 {
		ttl = -1
	}
	if e.MaxDetachedTTL > 0 && (ttl < 0 || ttl > e.MaxDetachedTTL) {
		return 0, wireerr.BadTime(member, *ms, e.MaxDetachedTTL, "max-detached-ttl")
	}
	return ttl, nil
}

// OptionsError returns why a new session cannot have these options; nil: it can. The session may be ephemeral for other reasons
// than its options.
func OptionsError(o protocol.SessionOptions, ephemeral bool) *protocol.Error {
	if (ephemeral || o.Ephemeral) && (o.DetachedTTLMs != nil || o.KeepRunning) {
		return errEphemeral
	}
	if n := o.MaxChunkBytes; n != nil && (*n < protocol.MinChunk || *n > protocol.MaxChunk) {
		return protocol.WrongParams("session.maxChunkBytes is %d, expected %d to %d", *n, protocol.MinChunk, protocol.MaxChunk)
	}
	return wireerr.BadName("session.name", o.Name)
}
