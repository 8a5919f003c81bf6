package actors

import (
	"cmp"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

// Messages to the registry, beside Attach and sessionSpawned.
type (
	// sessions: what listSessions asked for, or that it could not be answered
	sessionList       struct{ supervisors []*actor.PID }
	sessionListFailed struct{}
	listSessionsDue   struct{}
	// Shutdown: let no session live
	drainAll struct{}
)

// registryRecord is what of the registry survives its actor.
type registryRecord struct {
	draining bool
	drained  func()          // called once, when that is done; nil afterwards
	waiting  []attachRequest // until it is known which sessions there are
}

// registry knows which sessions there are. After a failure it asks the sessions
// actor; who asks meanwhile waits.
type registry struct {
	*shared
	*registryRecord
	sessions *actor.PID

	ready bool                  // known is complete
	known map[string]*actor.PID // the supervisors of the sessions, by session id
}

func (r *registry) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.known = make(map[string]*actor.PID)
		ctx.Request(r.sessions, listSessions{})
	case sessionList:
		r.rebuilt(ctx, m.supervisors)
	case sessionListFailed:
		after(ctx, 100*time.Millisecond, listSessionsDue{})
	case listSessionsDue:
		ctx.Request(r.sessions, listSessions{})

	case Attach:
		r.waiting = append(r.waiting, attachRequest{m, ctx.Sender()})
		r.attachWaiting(ctx)
	case sessionSpawned:
		if s := r.known[m.id]; s != nil {
			ctx.Watch(s) // one that is not there is answered with Terminated
			if r.draining {
				ctx.Send(s, drain{}) // it was not there for the first one
			}
		}
	case *actor.Terminated:
		delete(r.known, lastName(m.Who))
		r.mayEnd(ctx)
	case drainAll:
		r.draining = true
		r.drain(ctx)
	}
}

// lastName is the name of an actor under its parent: for the supervisor of a
// session, the session's id.
func lastName(pid *actor.PID) string { return pid.Id[strings.LastIndexByte(pid.Id, '/')+1:] }

func (r *registry) rebuilt(ctx actor.Context, supervisors []*actor.PID) {
	for _, s := range supervisors {
		r.known[lastName(s)] = s
		ctx.Watch(s)
	}
	r.ready = true
	r.attachWaiting(ctx)
	if r.draining {
		r.drain(ctx)
	}
}

func (r *registry) attachWaiting(ctx actor.Context) {
	if !r.ready {
		return
	}
	waiting := r.waiting
	r.waiting = nil
	for _, m := range waiting {
		r.attach(ctx, m)
	}
}

func (r *registry) attach(ctx actor.Context, m attachRequest) {
	switch {
	case m.SessionID != "":
		if s := r.known[m.SessionID]; s != nil {
			ctx.RequestWithCustomSender(actor.NewPID(s.Address, s.Id+"/"+sessionName), m.Attach, m.sender)
			return
		}
		ctx.Send(m.sender, m.failed(unknownSession(m.SessionID)))
	case r.draining:
		ctx.Send(m.sender, m.failed(protocol.Errorf(protocol.CodeInvalidRequest, "the server is shutting down and opens no session")))
	case m.Role == protocol.RoleObserver:
		ctx.Send(m.sender, m.failed(protocol.Errorf(protocol.CodeInvalidParams, "an observer needs the session to observe: set resumeSessionId")))
	case len(r.known) >= r.MaxSessions:
		ctx.Send(m.sender, m.failed(protocol.Errorf(protocol.CodeInvalidRequest, "the server has %d sessions, its limit: close one, or try again when one has expired", len(r.known))))
	default:
		r.open(ctx, m)
	}
}

func (r *registry) open(ctx actor.Context, m attachRequest) {
	ttl, err := r.detachedTTL(m.Options.DetachedTTLMs)
	if err = cmp.Or(err, tooLong("session.name", m.Options.Name)); err != nil {
		ctx.Send(m.sender, m.failed(err))
		return
	}
	record := &sessionRecord{
		shared:  r.shared,
		id:      uuid.NewString(),
		name:    m.Options.Name,
		created: time.Now(),
		ttl:     ttl,
		first:   &m,
	}
	r.known[record.id] = actor.NewPID(r.sessions.Address, r.sessions.Id+"/"+record.id)
	ctx.RequestWithCustomSender(r.sessions, spawnSession{record}, m.sender)
	ctx.Request(r.sessions, sessionSpawned{record.id})
}

// detachedTTL is the TTL of a session for which the client asked for ms.
func (r *registry) detachedTTL(ms *uint64) (time.Duration, *protocol.Error) {
	if ms == nil {
		return r.DetachedTTL, nil
	}
	ttl := fromMillis(*ms)
	if ttl == 0 {
		ttl = -1 // for ever
	}
	if r.MaxDetachedTTL > 0 && (ttl < 0 || ttl > r.MaxDetachedTTL) {
		return 0, protocol.Errorf(protocol.CodeInvalidParams, "session.detachedTtlMs is %d, this server allows 1 to %d", *ms, r.MaxDetachedTTL.Milliseconds())
	}
	return ttl, nil
}

func (r *registry) drain(ctx actor.Context) {
	for _, s := range r.known {
		ctx.Send(s, drain{})
	}
	r.mayEnd(ctx)
}

func (r *registry) mayEnd(ctx actor.Context) {
	if r.ready && r.draining && len(r.known) == 0 && r.drained != nil {
		r.drained()
		r.drained = nil
	}
}

func unknownSession(id string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "unknown session id %s", id)
}

func unknownProcess(id string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "unknown process id %s", id)
}
