package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/oklog/ulid/v2"
)

// connections has an actor for each transport connection. No logic: it only
// spawns. A connection that fails is stopped; its client resumes the session.
type connections struct {
	env    *env.Env
	troupe *actor.PID
	ending *ending
}

// spareConnections is how many connections there may be beyond MaxConnections, for clients that
// resume: they have a session that they would lose. A transport may have 1,024 strangers
// (transport/lobby.go), who give way there and not here, so there is room for 256 beside these.
const spareConnections = 1024 + 256

// ending outlives an instance.
type ending struct {
	on   bool
	done func() // called once none is left
}

func (c *connections) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.Connect:
		if c.ending.on {
			c.refuse(ctx, m.Conn, protocol.CloseGoingAway, message.ReasonShutdown)
			return
		}
		live := c.count(ctx)
		if live >= c.env.MaxConnections+spareConnections {
			c.refuse(ctx, m.Conn, protocol.CloseTryLater, c.env.TooManyConnections())
			return
		}
		spare := live >= c.env.MaxConnections
		if _, err := ctx.SpawnNamed(connection.New(c.env, c.troupe, m.Conn, spare), "c-"+ulid.Make().String()); err != nil {
			c.env.Log.Error("spawn connection", "remote", m.Conn.RemoteAddr(), "err", err)
			c.refuse(ctx, m.Conn, protocol.CloseInternalError, "internal error")
			return
		}
		c.count(ctx)
	case message.DisconnectAll:
		c.ending.on = true
		for _, pid := range ctx.Children() {
			ctx.Send(pid, message.Evicted{Reason: message.ReasonShutdown})
		}
		c.mayEnd(ctx)
	case *actor.Terminated:
		c.mayEnd(ctx)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		c.env.Log.Warn("unexpected message", "actor", ctx.Self().GetId(), "message", m)
	}
}

func (c *connections) refuse(ctx actor.Context, conn message.Conn, code int, reason string) {
	c.env.Run(ctx.ActorSystem().Root, ctx.Self(), "refuse", func() { conn.Close(code, reason) })
}

// count counts the connections: whatever failed, it is as many as there are.
func (c *connections) count(ctx actor.Context) int {
	live := len(ctx.Children())
	c.env.Counts.Connections.Store(int64(live))
	return live
}

func (c *connections) mayEnd(ctx actor.Context) {
	if live := c.count(ctx); c.ending.on && live == 0 {
		c.ending.done()
	}
}
