package connection

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// watching is the watch of the connection. A single piece is with the writer: while the client does not read, changes wait where they are made,
// and become one.
type watching struct {
	serial  uint64 // of the last server/watch
	on      bool
	asked   bool // a PullPiece of this serial has no answer
	writing bool // a piece is with the writer
}

// watchServer handles server/watch.
func (c *connection) watchServer(ctx actor.Context, in inbound, p protocol.ServerWatchParams) {
	every := uint64(protocol.DefaultWatchMs)
	if p.EveryMs != nil {
		every = *p.EveryMs
	}
	if every != 0 && (every < protocol.MinWatchMs || every > protocol.MaxWatchMs) {
		c.fail(in, protocol.WrongParams("everyMs is %d, expected %d to %d, or 0 to end the watch", every, protocol.MinWatchMs, protocol.MaxWatchMs))
		return
	}
	w := &c.watch
	w.serial, w.on, w.asked = w.serial+1, every > 0, false
	ctx.Request(c.troupe, message.WatchServer{Who: c.about.Identity, Every: protocol.FromMillis(every), Serial: w.serial})
	c.respond(in, protocol.Empty{})
	c.pullPiece(ctx)
}

// pullPiece asks for a piece once the last one is written.
func (c *connection) pullPiece(ctx actor.Context) {
	if w := &c.watch; w.on && !w.asked && !w.writing && c.stage != evicted {
		w.asked = true
		ctx.Request(c.troupe, message.PullPiece{Serial: w.serial})
	}
}

// watchPiece passes a piece to the writer.
func (c *connection) watchPiece(ctx actor.Context, m message.WatchPiece) {
	w := &c.watch
	if !w.on || m.Serial != w.serial || c.stage == evicted {
		return
	}
	w.asked, w.writing = false, true
	held := 2 * footprint(m.ServerChangedNotification) // as a value, and encoded
	c.memory.Force(held)
	c.notify(protocol.NotifyServerChanged, m.ServerChangedNotification)
	c.writer.control(outgoing{held: held, written: c.later(ctx, func(c *connection, ctx actor.Context) {
		c.watch.writing = false
		c.pullPiece(ctx)
	})})
}
