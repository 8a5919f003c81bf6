package session

import (
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/shellstate"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Options describe a session.
type Options struct {
	ID, Name string // Name is the client's
	Life     *lifetime.Life
	From     string                // the owner key, as in Attach
	MaxChunk *uint64               // as in protocol.SessionOptions
	First    message.AttachRequest // of the client that opens the session; it gets an error if that fails
	Registry *actor.PID
}

func newRecord(e *env.Env, o Options) *sessionRecord {
	record := &sessionRecord{
		id:       o.ID,
		name:     o.Name,
		from:     o.From,
		identity: o.First.Identity.Name,
		maxChunk: o.MaxChunk,
		commands: o.First.Ephemeral,
		life:     o.Life,
		access:   access.New(o.ID, o.First.Identity.Name),
		first:    &o.First,
	}
	record.tie(e, o.Registry)
	e.Meters.Opened.Add(1)
	if e.Tracer != nil {
		_, record.span = e.Tracer.Start(context.Background(), "session", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("troupe.session", record.id)))
	}
	return record
}

// tie gives the record what belongs to this server.
func (r *sessionRecord) tie(e *env.Env, registry *actor.PID) {
	r.env, r.registry = e, registry
	r.gauge = &message.Gauge{Account: e.StartBudget.Account()}
	r.waiting, r.groupIDs = make(map[string][]request), make(map[string]*group)
	if r.shells == nil {
		r.shells = new(shellstate.Cache)
	}
	if r.groups == nil {
		r.groups = make(map[string]*group)
	}
	if !r.life.Limits().Ephemeral {
		r.events = e.Journal.Source(r.identity, r.id, r.name)
		if r.estate = e.Estate.Owner(prefix + r.id); r.estate != nil {
			r.processes.Follow()
			r.answers.Follow()
		}
	}
	r.closes, r.giveUp = context.WithCancelCause(context.Background())
}

// New returns the request for the supervisor of a new session, which spawns the session.
func New(e *env.Env, o Options) message.SpawnRequest {
	return newRecord(e, o).request(func(err *protocol.Error) any { return o.First.Failed(err) })
}

// request asks for the supervisor of a session.
func (r *sessionRecord) request(refused func(*protocol.Error) any) message.SpawnRequest {
	return message.SpawnRequest{
		Spawn: message.Spawn{
			Name:  r.id,
			Props: r.env.Props(func() actor.Actor { return &sessionSupervisor{r} }, env.Contained),
			Label: "session " + r.id,
		},
		Refused: refused,
		Ended:   wireerr.ErrShutdown,
		Unused:  r.gauge.Account.Close,
	}
}

// sessionSupervisor is the parent of a session and its processes. It has no logic: it only
// spawns. When the session stops, the supervisor stops with all its children.
type sessionSupervisor struct{ record *sessionRecord }

func (s *sessionSupervisor) Receive(ctx actor.Context) {
	e := s.record.env
	logic := actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+message.SessionName)
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.record.supervisor = ctx.Self()
		var outbox *env.Outbox
		if s.record.estate != nil {
			outbox = e.NewOutbox(func() { s.record.estate.Keep(s.record) })
		}
		props := e.Props(func() actor.Actor { return &session{s.record} }, env.Escalated, outbox.Props)
		if err := (message.Spawn{Name: message.SessionName, Props: props, Label: "session " + s.record.id}).Under(ctx); err != nil {
			panic(err) // no other actor has this name
		}
	case *actor.Stopped:
		s.record.giveUp(protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "the session has ended")) // a session that failed too often has not closed
		s.record.gauge.Account.Close()
		s.record.endShares()
		s.record.recordEnd()
		s.record.estate.End()
	case message.SpawnRequest:
		if s.ended(ctx, logic) {
			m.GiveBack()
			ctx.Respond(m.Unheard(ctx.Self()))
			return
		}
		m.Under(ctx)
	case message.Drain, message.Leave, message.Evict, message.TellStanding, message.Abandoned:
		ctx.Send(logic, m)
	case message.Attach:
		ctx.Forward(logic)
	case message.BudgetLow:
		if m.From == "" || m.From == s.record.from {
			message.ToChildren(ctx, m)
		}
	case *actor.Terminated:
		message.ForgetEnded(ctx)
		e.Strategy.Forget(m.Who)
		switch {
		case m.Who.Id == logic.Id:
			env.StopChildren(ctx) // the session has ended, or has failed too often: end its processes
		case !s.ended(ctx, logic):
			ctx.Send(logic, message.Gone{Who: m.Who}) // the session may not watch this actor yet
		}
		if len(ctx.Children()) == 0 { // else protoactor would send Stop to children that have just stopped
			ctx.Stop(ctx.Self())
		}
	default:
		e.Unexpected(ctx, ctx.Self().Id, m)
	}
}

// ended reports whether the session has ended, and only its processes are left.
func (s *sessionSupervisor) ended(ctx actor.Context, logic *actor.PID) bool {
	return !slices.ContainsFunc(ctx.Children(), logic.Equal)
}
