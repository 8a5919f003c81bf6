package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// sessions is the parent of the supervisor of each session. It has no logic: it only spawns.
type sessions struct{ env *env.Env }

func (s *sessions) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.SpawnRequest:
		m.Under(ctx)
	case message.SessionSpawned:
		ctx.Respond(m)
	case *actor.Terminated:
		message.ForgetEnded(ctx)
	case message.RoundTrip:
		m.Done()
	case message.BudgetLow:
		message.ToChildren(ctx, m)
	case message.ListSessions:
		ctx.Respond(message.SessionList{Supervisors: slices.Clone(ctx.Children())}) // the actor changes its own slice with each child
	default:
		s.env.Unexpected(ctx, ctx.Self().Id, m)
	}
}
