// Package registry has the actor that knows all sessions and opens new ones.
package registry

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/registry/roster"
	"github.com/b6f6fdd7/troupe/actors/session"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

type (
	listSessionsDue struct{}
)

type (
	relieveDue struct{} // a session may have been without an owner for long enough

)

// registryRecord is what of the registry survives its actor.
type registryRecord struct {
	draining bool
	drained  func()                  // called once, when that is done; nil afterwards
	waiting  []message.AttachRequest // until it is known which sessions there are
	wanted   []session.Options       // those to open, in order, when there is room
}

// registry knows which sessions there are. After a failure it asks the sessions
// actor; who asks meanwhile waits.
type registry struct {
	env *env.Env
	*registryRecord
	sessions *actor.PID

	ready bool                  // known is complete
	known map[string]*actor.PID // the supervisors of the sessions, by session id

	roster  *roster.Roster // of those known
	leaving string         // the session that is being ended to make room; "": none
	roomAt  env.Alarm      // while one is

	relief    *roster.Relief // of those known
	relieveAt env.Alarm
}

// New makes the registry. sessions is the actor that spawns sessions. drained is called once,
// when DrainAll has come and no session is left.
func New(e *env.Env, sessions *actor.PID, drained func()) *actor.Props {
	record := &registryRecord{drained: drained}
	return e.Props(func() actor.Actor {
		return &registry{env: e, registryRecord: record, sessions: sessions}
	}, env.Escalated)
}

func (r *registry) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.known = make(map[string]*actor.PID)
		r.roster = roster.New(r.env.MaxSessions, r.env.MaxSessionsEach)
		r.relief = roster.NewRelief()
		ctx.Request(r.sessions, message.ListSessions{})
	case message.SessionList:
		r.rebuilt(ctx, m.Supervisors)
	case message.SessionListFailed:
		env.After(ctx, 100*time.Millisecond, listSessionsDue{})
	case listSessionsDue:
		ctx.Request(r.sessions, message.ListSessions{})

	case message.Attach:
		if it := (message.AttachRequest{Attach: m, Sender: ctx.Sender()}); r.ready {
			r.attach(ctx, it)
		} else {
			r.waiting = append(r.waiting, it)
		}
	case message.SessionSpawned:
		if s := r.known[m.ID]; s != nil {
			ctx.Watch(s) // one that is not there is answered with Terminated
			if r.draining {
				ctx.Send(s, message.Drain{}) // it was not there for the first one
			}
		}
	case *actor.Stopping, *actor.Restarting:
		r.relieveAt.Stop()
		r.roomAt.Stop()
	case *actor.Terminated:
		r.terminated(ctx, message.LastName(m.Who))
	case message.Abandoned:
		if s := r.known[m.ID]; s != nil {
			ctx.Send(s, m)
		}
	case message.Detached:
		r.detached(ctx, m)
	case roomDue:
		r.left(ctx, r.leaving)
	case message.BudgetLow, relieveDue:
		r.relieve(ctx)
	case message.DrainAll:
		r.draining = true
		r.drain(ctx)
	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		r.env.Log.Warn("unexpected message", "actor", ctx.Self().Id, "message", m)
	}
}

func (r *registry) rebuilt(ctx actor.Context, supervisors []*actor.PID) {
	for _, s := range supervisors {
		r.known[message.LastName(s)] = s
		r.roster.Take(message.LastName(s), "") // it says itself whose it is
		ctx.Watch(s)
		ctx.Send(s, message.TellDetached{})
	}
	r.count()
	r.ready = true
	for _, m := range r.waiting { // each in its turn: a failure costs one of them
		ctx.RequestWithCustomSender(ctx.Self(), m.Attach, m.Sender)
	}
	r.waiting = nil
	r.seat(ctx)
	if r.draining {
		r.drain(ctx)
	}
}

func (r *registry) attach(ctx actor.Context, m message.AttachRequest) {
	switch {
	case m.SessionID != "":
		if s := r.known[m.SessionID]; s != nil {
			ctx.RequestWithCustomSender(actor.NewPID(s.Address, s.Id+"/"+message.SessionName), m.Attach, m.Sender)
			return
		}
		ctx.Send(m.Sender, m.Failed(wireerr.UnknownSession(m.SessionID)))
	case r.draining:
		ctx.Send(m.Sender, m.Failed(wireerr.ErrShutdown))
	case m.Role == protocol.RoleObserver:
		ctx.Send(m.Sender, m.Failed(protocol.Errorf(protocol.CodeInvalidParams, "an observer needs the session to observe: set resumeSessionId")))
	default:
		r.want(ctx, m)
	}
}

// want asks for a session for m, which opens it.
func (r *registry) want(ctx actor.Context, m message.AttachRequest) {
	ttl, err := r.detachedTTL(m.Options.DetachedTTLMs)
	idle, idleErr := atMost("session.idleMs", m.Options.IdleMs, r.env.IdleTimeout)
	age, ageErr := atMost("session.maxAgeMs", m.Options.MaxAgeMs, r.env.MaxAge)
	if err = cmp.Or(err, idleErr, ageErr, wireerr.LongName("session.name", m.Options.Name)); err != nil {
		ctx.Send(m.Sender, m.Failed(err))
		return
	}
	r.wanted = append(r.wanted, session.Options{
		ID:       uuid.NewString(),
		Name:     m.Options.Name,
		Life:     lifetime.New(time.Now(), lifetime.Limits{TTL: ttl, Idle: idle, Age: age, Ephemeral: m.Ephemeral}),
		From:     m.From,
		First:    m,
		Registry: ctx.Self(),
	})
	r.seat(ctx)
}

func (r *registry) open(ctx actor.Context, o session.Options) {
	r.known[o.ID] = actor.NewPID(r.sessions.Address, r.sessions.Id+"/"+o.ID)
	r.count()
	r.roster.Take(o.ID, o.From)
	r.env.At(ctx, env.SessionKnown)
	ctx.RequestWithCustomSender(r.sessions, session.New(r.env, o), o.First.Sender)
	ctx.Request(r.sessions, message.SessionSpawned{ID: o.ID})
}

// detachedTTL is the TTL of a session for which the client asked for ms.
func (r *registry) detachedTTL(ms *uint64) (time.Duration, *protocol.Error) {
	if ms == nil {
		return r.env.DetachedTTL, nil
	}
	ttl := env.FromMillis(*ms)
	if ttl == 0 {
		ttl = -1 // for ever
	}
	if r.env.MaxDetachedTTL > 0 && (ttl < 0 || ttl > r.env.MaxDetachedTTL) {
		return 0, protocol.Errorf(protocol.CodeInvalidParams, "session.detachedTtlMs is %d, this server allows 1 to %d", *ms, r.env.MaxDetachedTTL.Milliseconds())
	}
	return ttl, nil
}

// atMost is what a client asks for, in milliseconds, if the server's limit allows it; 0
// or less is no limit, as 0 is of the client's.
func atMost(name string, ms *uint64, limit time.Duration) (time.Duration, *protocol.Error) {
	if ms == nil {
		return max(limit, 0), nil
	}
	d := env.FromMillis(*ms)
	if limit > 0 && (d == 0 || d > limit) {
		return 0, protocol.Errorf(protocol.CodeInvalidParams, "%s is %d, this server allows 1 to %d", name, *ms, limit.Milliseconds())
	}
	return d, nil
}

func (r *registry) terminated(ctx actor.Context, id string) {
	delete(r.known, id)
	r.count()
	r.roster.Leave(id)
	if r.relief.Ended(time.Now(), id) {
		r.relieve(ctx)
	}
	r.left(ctx, id)
	r.mayEnd(ctx)
}

// detached takes what a session says of itself.
func (r *registry) detached(ctx actor.Context, m message.Detached) {
	if r.known[m.ID] == nil {
		return
	}
	if m.Since.IsZero() {
		if r.relief.Back(m.ID) { // its owner was faster
			r.relieve(ctx)
		}
	} else {
		r.relief.Away(m.ID, m.Since, m.Gauge)
		if r.short() { // it is spared that long: no need to look at all sessions now
			r.relieveAt.Sooner(ctx, roster.Spared, relieveDue{})
		}
	}
	r.rated(ctx, m)
}

// short reports whether sessions may be ended for the memory they hold.
func (r *registry) short() bool { return r.env.EvictForMemory && r.env.OutputBudget.Short() }

// relieve ends a session if what it holds is in the way of others.
func (r *registry) relieve(ctx actor.Context) {
	if !r.short() {
		return
	}
	id, again := r.relief.Choose(time.Now())
	if id != "" {
		ctx.Send(r.known[id], message.Evict{Reason: fmt.Sprintf("session evicted: the server holds as much output as it may, %d bytes", r.env.Budget)})
	} else if !again.IsZero() {
		r.relieveAt.Sooner(ctx, time.Until(again), relieveDue{})
	}
}

func (r *registry) count() { r.env.Counts.Sessions.Store(int64(len(r.known))) }

func (r *registry) drain(ctx actor.Context) {
	for _, s := range r.known {
		ctx.Send(s, message.Drain{})
	}
	r.seat(ctx)
	r.mayEnd(ctx)
}

func (r *registry) mayEnd(ctx actor.Context) {
	if r.ready && r.draining && len(r.known) == 0 && r.drained != nil {
		r.drained()
		r.drained = nil
	}
}
