// Package registry has the actor that knows all sessions and opens new ones.
//
// # Where to look
//
//   - registry.go: takes messages
//   - openings.go: an Attach that is sent again opens nothing
//   - room.go: which session ends when there are too many
//   - leave.go: drain
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
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

// The registry's own timers.
type (
	listSessionsDue struct{} // ListSessions failed a moment ago: ask again
	roomDue         struct{} // the session that makes room has had roomTime to end
	relieveDue      struct{} // a detached session may have been spared for long enough
)

const (
	// roomTime is how long the next session waits for the end of the session that makes room.
	roomTime = time.Second
	// listPause is how long after a failed ListSessions the registry asks again.
	listPause = 100 * time.Millisecond
)

// record is the part of the registry's state that survives a restart of the actor.
type record struct {
	draining bool                    // DrainAll has come
	leaves   leaves                  // Leave has come
	drained  func()                  // called once draining is done; nil afterwards
	waiting  []message.AttachRequest // until the registry is ready
	wanted   []session.Options       // sessions to open when there is room, in order
	openings openings                // of the known and wanted sessions
}

// registry is the actor that knows all sessions. A new instance asks the sessions actor for the
// list; an Attach waits until the list has come.
type registry struct {
	// Fixed at spawn.
	env      *env.Env
	sessions *actor.PID
	*record

	// Owned by Receive.
	ready bool                  // the list of sessions has come
	known map[string]*actor.PID // the supervisor of each session, by session id
	asked map[string]bool       // sessions that have not answered TellStanding: their actors may not be spawned yet

	roster  *roster.Roster // of the known sessions
	leaving string         // the session that is being ended to make room; "": none
	roomAt  env.Alarm      // set while leaving is

	relief    *roster.Relief // of the known sessions
	relieveAt env.Alarm

	quiet time.Time // since when no session has an owner or a process; zero: one has, or is wanted
}

// New returns the Props of the registry. sessions is the actor that spawns sessions. The registry
// calls drained once: after DrainAll, when no session is left.
// It calls left once after Leave, when no session is left.
func New(e *env.Env, sessions *actor.PID, drained, left func()) *actor.Props {
	kept := &record{drained: drained, leaves: newLeaves(e, left)}
	return e.Props(func() actor.Actor {
		return &registry{env: e, record: kept, sessions: sessions}
	}, env.Escalated)
}

func (r *registry) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.known, r.asked = make(map[string]*actor.PID), make(map[string]bool)
		r.env.Quotas.NoSessions()
		r.roster = roster.New(r.env.MaxSessions, r.env.MaxSessionsEach, r.env.Quotas.Sessions)
		r.relief = roster.NewRelief()
		ctx.Request(r.sessions, message.ListSessions{})
	case message.SessionList:
		r.rebuilt(ctx, m.Supervisors)
	case message.SessionListFailed:
		env.After(ctx, listPause, listSessionsDue{})
	case listSessionsDue:
		ctx.Request(r.sessions, message.ListSessions{})

	case message.Attach:
		if asked := (message.AttachRequest{Attach: m, Sender: ctx.Sender()}); r.ready {
			r.attach(ctx, asked)
		} else {
			r.waiting = append(r.waiting, asked)
		}
	case message.Request:
		ctx.Respond(r.request(m))
	case message.SessionSpawned:
		if s := r.known[m.ID]; s != nil {
			r.env.Watch(ctx, s) // Gone or Terminated comes even if the session could not be spawned
			if r.draining {
				ctx.Send(s, message.Drain{}) // the Drain of drain may have come before the session was there
			}
			if m, ok := r.leaves.news(); ok {
				ctx.Send(s, m) // as Drain
			}
		}
		if m.Again.Sender != nil {
			r.attachAgain(ctx, m.ID, m.Again)
		}
	case *actor.Stopping, *actor.Restarting:
		r.relieveAt.Stop()
		r.roomAt.Stop()
	case message.Gone:
		r.terminated(ctx, message.LastName(m.Who))
	case *actor.Terminated:
		r.terminated(ctx, message.LastName(m.Who))
	case message.Abandoned:
		if s := r.known[m.ID]; s != nil {
			ctx.Send(s, m)
		}
	case message.Standing:
		r.standing(ctx, m)
	case roomDue:
		r.left(ctx, r.leaving)
	case message.BudgetLow, relieveDue:
		r.relieve(ctx)
	case message.Leave:
		r.leaves.keep(r.env, m)
		r.leave(ctx)
	case message.DrainAll:
		r.draining = true
		r.drain(ctx)
	case message.RoundTrip:
		ctx.Send(r.sessions, m)
	case message.Retire:
		ctx.Respond(message.Retiring{Retire: m, Again: r.retire(m.For)})
	default:
		r.env.Unexpected(ctx, ctx.Self().Id, m)
	}
	r.rest()
}

// rest follows every message: it notes since when the server has nothing to do.
func (r *registry) rest() {
	switch {
	case !r.ready || !r.roster.AllIdle(): // while a session is wanted, another one makes room and is not idle
		r.quiet = time.Time{}
	case r.quiet.IsZero():
		r.quiet = time.Now()
	}
}

// retire returns 0 if the server had nothing to do for d. Otherwise it returns how long to wait before the next
// question.
func (r *registry) retire(d time.Duration) time.Duration {
	if r.quiet.IsZero() {
		return d
	}
	return max(d-time.Since(r.quiet), 0)
}

// rebuilt takes the list of sessions, and then serves whoever has asked meanwhile.
func (r *registry) rebuilt(ctx actor.Context, supervisors []*actor.PID) {
	for _, s := range supervisors {
		r.known[message.LastName(s)] = s
		r.roster.Take(message.LastName(s), "") // the answer to TellStanding names the owner key
		r.env.Watch(ctx, s)
		ctx.Send(s, message.TellStanding{})
		r.asked[message.LastName(s)] = true
	}
	r.count()
	r.ready = true
	for _, m := range r.waiting { // as messages: a failure costs one Attach only
		ctx.RequestWithCustomSender(ctx.Self(), m.Attach, m.Sender)
	}
	r.waiting = nil
	r.seat(ctx)
	if r.leaves.on() {
		r.leave(ctx)
	}
	if r.draining {
		r.drain(ctx)
	}
}

func (r *registry) attach(ctx actor.Context, m message.AttachRequest) {
	if guest := m.Identity.Guest; guest != nil && m.SessionID == "" {
		m.SessionID = guest.Session // a guest need not know the id, and opens no session
	}
	switch {
	case m.SessionID != "":
		if s := r.known[m.SessionID]; s != nil && r.mayExist(m.SessionID, m.Identity) {
			to := s
			if !r.asked[m.SessionID] {
				to = actor.NewPID(s.Address, s.Id+"/"+message.SessionName)
			}
			ctx.RequestWithCustomSender(to, m.Attach, m.Sender)
			return
		}
		ctx.Send(m.Sender, m.Failed(r.unknown(m.SessionID)))
	case r.draining:
		ctx.Send(m.Sender, m.Failed(wireerr.ErrShutdown))
	case m.Role != "" && m.Role != protocol.RoleOwner:
		ctx.Send(m.Sender, m.Failed(protocol.WrongParams("role %s joins an existing session: set resumeSessionId", wireerr.Clip(string(m.Role)))))
	default:
		if id, ok := r.openings.find(m); ok {
			r.openAgain(ctx, id, m)
			return
		}
		r.want(ctx, m)
	}
}

// newID returns the id of a new session: nobody can guess it.
func (r *registry) newID() string {
	if r.env.Cluster == nil {
		return uuid.NewString()
	}
	return nodeid.Session(r.env.Cluster.ID())
}

// unknown refuses a session that this server does not have.
func (r *registry) unknown(id string) *protocol.Error {
	err := wireerr.UnknownSession(id)
	if r.env.Cluster != nil {
		if why := r.env.Cluster.Lost(id); why != "" {
			return err.Advise("%s", why)
		}
	}
	return err
}

// mayExist reports whether a session exists for a client, as far as the registry knows. The session itself decides:
// after a restart the registry may not know its owner key yet. But nobody waits for a session of somebody else,
// so an answer takes as long as for an unknown session, however busy the session is.
func (r *registry) mayExist(id string, who identity.Identity) bool {
	from := r.roster.From(id)
	return from == "" || who.Name == "" || who.MayObserve(id, from)
}

// request answers with the sessions that a client may observe.
func (r *registry) request(m message.Request) any {
	list, ok := m.Params.(message.SessionListRequest)
	if !ok {
		return m.Failed(protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a registry does not answer %T", m.Params))
	}
	sessions := []*actor.PID{}
	for id, s := range r.known {
		if r.mayExist(id, list.Identity) {
			sessions = append(sessions, actor.NewPID(s.Address, s.Id+"/"+message.SessionName))
		}
	}
	return message.Reply{Token: m.Token, Result: sessions}
}

// want queues the session that m opens.
func (r *registry) want(ctx actor.Context, m message.AttachRequest) {
	ttl, err := session.DetachedTTL(r.env, "session.detachedTtlMs", m.Options.DetachedTTLMs)
	idle, idleErr := atMost("session.idleMs", m.Options.IdleMs, r.env.IdleTimeout, "idle-timeout")
	age, ageErr := atMost("session.maxAgeMs", m.Options.MaxAgeMs, r.env.MaxAge, "max-session-age")
	if err = cmp.Or(err, idleErr, ageErr, session.OptionsError(m.Options, m.Ephemeral)); err != nil {
		ctx.Send(m.Sender, m.Failed(err))
		return
	}
	id := r.newID()
	r.openings.add(id, m)
	r.wanted = append(r.wanted, session.Options{
		ID:       id,
		Name:     m.Options.Name,
		Life:     lifetime.New(time.Now(), lifetime.Limits{TTL: ttl, KeepRunning: m.Options.KeepRunning, Idle: idle, Age: age, Ephemeral: m.Ephemeral || m.Options.Ephemeral}),
		From:     cmp.Or(m.From, m.Identity.Name),
		MaxChunk: m.Options.MaxChunkBytes,
		First:    m,
		Registry: ctx.Self(),
	})
	r.seat(ctx)
}

// open has a session spawned.
func (r *registry) open(ctx actor.Context, o session.Options) {
	r.known[o.ID] = actor.NewPID(r.sessions.Address, r.sessions.Id+"/"+o.ID)
	r.count()
	r.roster.Take(o.ID, o.From)
	r.env.At(ctx, env.SessionKnown)
	ctx.RequestWithCustomSender(r.sessions, session.New(r.env, o), o.First.Sender)
	ctx.Request(r.sessions, message.SessionSpawned{ID: o.ID})
}

// atMost returns the limit of a session whose client asked for ms milliseconds: nil means limit, which
// is the server's, from a flag. Of ms, of limit and of the result, 0 means no limit. A client may not exceed limit.
func atMost(member string, ms *uint64, limit time.Duration, flag string) (time.Duration, *protocol.Error) {
	if ms == nil {
		return max(limit, 0), nil
	}
	d := protocol.FromMillis(*ms)
	if limit > 0 && (d == 0 || d > limit) {
		return 0, wireerr.BadTime(member, *ms, limit, flag)
	}
	return d, nil
}

// terminated forgets a session that has ended, or that could not be spawned.
func (r *registry) terminated(ctx actor.Context, id string) {
	delete(r.known, id)
	delete(r.asked, id)
	r.openings.forget(id)
	r.count()
	r.roster.Leave(id)
	if r.relief.Ended(time.Now(), id) {
		r.relieve(ctx)
	}
	r.left(ctx, id)
	r.mayEnd(ctx)
}

// standing takes the answer to TellStanding, or news of the same kind.
func (r *registry) standing(ctx actor.Context, m message.Standing) {
	if r.known[m.ID] == nil {
		return
	}
	delete(r.asked, m.ID)
	if m.Since.IsZero() {
		if r.relief.Back(m.ID) { // its owner was faster than Evict
			r.relieve(ctx)
		}
	} else {
		r.relief.Away(m.ID, m.Since, m.Gauge)
		if r.short() { // Relief spares this session that long: looking at all sessions can wait
			r.relieveAt.Sooner(ctx, roster.Spared, relieveDue{})
		}
	}
	r.rated(ctx, m)
}

// short reports whether sessions may give way for their memory.
func (r *registry) short() bool { return r.env.EvictForMemory && r.env.OutputBudget.Short() }

// relieve has a session give way if the server is short of memory.
func (r *registry) relieve(ctx actor.Context) {
	if !r.short() {
		return
	}
	id, again := r.relief.Choose(time.Now())
	if id != "" {
		r.env.Meters.Evictions.Add("memory", 1)
		ctx.Send(r.known[id], message.Evict{Reason: fmt.Sprintf("the session gave way: the server holds as much output as it may, %d bytes", r.env.Budget)})
	} else if !again.IsZero() {
		r.relieveAt.Sooner(ctx, time.Until(again), relieveDue{})
	}
}

// count publishes the number of sessions for server/info.
func (r *registry) count() { r.env.Counts.Sessions.Store(int64(len(r.known))) }

// drain has every session end, and refuses those that are wanted. May be repeated.
func (r *registry) drain(ctx actor.Context) {
	for _, s := range r.known {
		ctx.Send(s, message.Drain{})
	}
	r.seat(ctx)
	r.mayEnd(ctx)
}

// mayEnd calls drained if draining is done.
func (r *registry) mayEnd(ctx actor.Context) {
	if r.ready && r.draining && len(r.known) == 0 && r.drained != nil {
		r.drained()
		r.drained = nil
	}
	if r.ready && r.leaves.on() && len(r.known)+len(r.wanted) == 0 {
		r.leaves.left()
	}
}

// Stands implements env.Stander.
func (r *registry) Stands() (state string, waits []string) {
	if !r.ready {
		waits = append(waits, "the list of sessions")
	}
	if n := len(r.wanted); n > 0 {
		waits = append(waits, fmt.Sprintf("room for %d sessions", n))
	}
	state = "open"
	switch {
	case r.draining:
		state = "shutting down"
	case r.leaves.on():
		state = "draining until " + r.leaves.kept.Until.Format(time.RFC3339)
	}
	return fmt.Sprintf("%s, %d sessions", state, len(r.known)), waits
}
