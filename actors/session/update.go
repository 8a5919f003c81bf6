package session

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// update handles session/update: it changes everything or, with an error, nothing.
func (s *session) update(ctx actor.Context, m message.Request, p protocol.SessionUpdateParams) {
	if a, ok := s.answers.To(p); ok {
		ctx.Respond(message.Reply{Token: m.Token, Result: a.Result, Err: a.Err}) // the client repeats a request after a cut
		return
	}
	limits := s.life.Limits()
	name, ttl, keep := s.name, limits.TTL, limits.KeepRunning
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
	departure := s.departure
	if p.Left != nil {
		departure = *p.Left
		err = cmp.Or(err, wireerr.BadName("left", departure))
	}
	if limits.Ephemeral && (p.DetachedTTLMs != nil || keep) {
		err = cmp.Or(err, errEphemeral)
	}
	reply := replyOf(m.Token, err)
	if err == nil {
		s.name, s.departure = name, departure
		s.events.Rename(name)
		s.follow(ctx, s.life.Update(time.Now(), ttl, keep))
	}
	s.answers.Add(p, reply.Result, reply.Err)
	ctx.Respond(reply)
}

var errEphemeral = protocol.Errorf(protocol.KindParams, protocol.CodeInvalidParams, "an ephemeral session ends with its connection: leave detachedTtlMs and keepRunning out")

// DetachedTTL returns the TTL of a session whose client asked for ms, in a member with a name: nil means the
// server's default, 0 means no limit. Negative: the session never expires.
func DetachedTTL(e *env.Env, member string, ms *uint64) (time.Duration, *protocol.Error) {
	if ms == nil {
		return e.DetachedTTL, nil
	}
	ttl := env.FromMillis(*ms)
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
