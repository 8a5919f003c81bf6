package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/oklog/ulid/v2"
)

// disconnectAll is from Shutdown, when no session is left: let no connection live.
type disconnectAll struct{}

// connections has an actor for each transport connection. No logic: it only
// spawns. A connection that fails is stopped; its client resumes the session.
type connections struct {
	*shared
	troupe *actor.PID
	ending *ending
}

// ending outlives an instance.
type ending struct {
	live int // connections
	on   bool
	done func() // called once none is left
}

func (c *connections) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case connect:
		if c.ending.on {
			c.refuse(ctx, m.conn, closeGoingAway, reasonShutdown)
			return
		}
		if c.ending.live >= c.MaxConnections {
			c.refuse(ctx, m.conn, closeTryLater, fmt.Sprintf("the server has %d connections, its limit: try again later", c.ending.live))
			return
		}
		props := c.props(func() actor.Actor { return newConnection(c.shared, c.troupe, m.conn) }, escalated, actor.WithSupervisor(c.once))
		if _, err := ctx.SpawnNamed(props, "c-"+ulid.Make().String()); err != nil {
			c.Log.Error("spawn connection", "remote", m.conn.RemoteAddr(), "err", err)
			c.refuse(ctx, m.conn, closeInternal, "internal error")
			return
		}
		c.ending.live++
		c.counts.connections.Store(int64(c.ending.live))
	case disconnectAll:
		c.ending.on = true
		for _, pid := range ctx.Children() {
			ctx.Send(pid, Evicted{reasonShutdown})
		}
		c.mayEnd()
	case *actor.Terminated:
		c.ending.live--
		c.counts.connections.Store(int64(c.ending.live))
		c.mayEnd()
	}
}

func (c *connections) refuse(ctx actor.Context, conn Conn, code int, reason string) {
	c.run(ctx.ActorSystem().Root, ctx.Self(), "refuse", func() { conn.Close(code, reason) })
}

func (c *connections) mayEnd() {
	if c.ending.on && c.ending.live == 0 {
		c.ending.done()
	}
}
