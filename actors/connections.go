package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/oklog/ulid/v2"
)

// connections has an actor for each transport connection. No logic: it only
// spawns. A connection that fails is stopped; its client resumes the session.
type connections struct {
	*shared
	troupe *actor.PID
}

func (c *connections) Receive(ctx actor.Context) {
	m, ok := ctx.Message().(connect)
	if !ok {
		return
	}
	props := c.props(func() actor.Actor { return newConnection(c.shared, c.troupe, m.conn) }, escalated)
	if _, err := ctx.SpawnNamed(props, "c-"+ulid.Make().String()); err != nil {
		c.Log.Error("spawn connection", "remote", m.conn.RemoteAddr(), "err", err)
		run(c.Log, ctx.ActorSystem().Root, ctx.Self(), "refuse", func() { m.conn.Close(closeInternal, "internal error") })
	}
}
