package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/protocol"
)

// spareConnections is how many connections there may be beyond MaxConnections, for clients that would
// otherwise lose the session they resume. 1,024 of them may be strangers: the transport sends strangers
// away (transport/lobby.go), so 256 are always for clients that resume.
const spareConnections = 1024 + 256

// connections is the parent of an actor for each transport connection. It has no logic: it only
// spawns. A connection that fails is stopped; its client resumes the session.
type connections struct {
	env    *env.Env
	troupe *actor.PID

	registry *actor.PID
	// Both survive the actor.
	ending   *ending
	retiring *retiring
}

// ending is the end of all connections.
type ending struct {
	on   bool   // DisconnectAll has come
	done func() // called when on is set and no connection is left; may be called again
}

func (c *connections) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.Connect:
		if c.retiring.holds(m) {
			return
		}
		c.connect(ctx, m)
	case message.DisconnectAll:
		c.ending.on = true
		c.release(ctx)
		for _, pid := range ctx.Children() {
			ctx.Send(pid, message.Evicted{Reason: message.ReasonShutdown})
		}
		c.mayEnd(ctx)
	case message.RoundTrip:
		ctx.Send(c.registry, m)
	case message.Retire:
		c.retire(ctx, m)
	case message.Retiring:
		c.retired(ctx, m)
	case *actor.Terminated:
		message.ForgetEnded(ctx)
		c.mayEnd(ctx)
	default:
		c.env.Unexpected(ctx, ctx.Self().GetId(), m)
	}
}

// connect spawns the actor of a connection.
func (c *connections) connect(ctx actor.Context, m message.Connect) {
	if c.ending.on || c.retiring.over {
		c.refuse(ctx, m.Conn, protocol.CloseGoingAway, message.ReasonShutdown)
		return
	}
	live := c.count(ctx)
	if live >= c.env.MaxConnections+spareConnections {
		c.env.Meters.Refused.Add("limit", 1)
		c.refuse(ctx, m.Conn, protocol.CloseTryLater, c.env.TooManyConnections())
		return
	}
	if live >= c.env.MaxConnections {
		m.About.OnlyResumes = c.env.TooManyConnections()
	}
	if _, err := ctx.SpawnNamed(connection.New(c.env, peer.Methods, c.troupe, m), message.NewName(message.ConnectionPrefix)); err != nil {
		c.env.Log.Error("spawn connection", "remote", m.Conn.RemoteAddr(), "err", err)
		c.refuse(ctx, m.Conn, protocol.CloseInternalError, "internal error")
		return
	}
	c.env.Meters.Connections.Add(1)
	c.count(ctx)
}

// refuse closes a connection that gets no actor. Close may wait for the peer a little.
func (c *connections) refuse(ctx actor.Context, conn message.Conn, code int, reason string) {
	c.env.Audit.Refused(conn.RemoteAddr(), reason)
	c.env.Run(ctx.ActorSystem().Root, ctx.Self(), "refuse", func() { conn.Close(code, reason) })
}

// count returns the number of connections, and publishes it for server/info.
func (c *connections) count(ctx actor.Context) int {
	live := len(ctx.Children())
	c.env.Counts.Connections.Store(int64(live))
	c.retiring.counted(time.Now(), live)
	return live
}

// mayEnd calls ending.done if every connection has ended.
func (c *connections) mayEnd(ctx actor.Context) {
	if live := c.count(ctx); c.ending.on && live == 0 {
		c.ending.done()
	}
}
