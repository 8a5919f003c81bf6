package connection

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a connection about its reader, which waits for admission.
type (
	unread   struct{} // reader: it has begun to wait; at most one until admission says otherwise
	stallDue struct{} // look whether anything has moved

)

const (
	// stallTime is how long nothing may move on a connection that is not read, before it is
	// closed. Its Pongs are not read either, so a client that sends all its writes at once
	// could wait for itself for ever.
	stallTime = 10 * time.Second
	// stallParts is how many looks there are in that time. A server that was stopped misses
	// one of them, however long it slept.
	stallParts = 4
)

// A stall tells a connection that only its own client could get going from one that waits
// for the server. It is what the last look saw.
type stall struct {
	released uint64 // requests whose answers were written, since the beginning
	finished uint64 // calls that the server has finished, since the beginning
	quiet    int    // looks in a row since which nothing has moved
}

// look reports whether the connection has stalled. While the server works on a request of the
// connection (a disk, another HTTP server, a fork), the client is not at fault.
func (s *stall) look(released, finished uint64, working bool) bool {
	if working || released != s.released || finished != s.finished {
		*s = stall{released: released, finished: finished}
		return false
	}
	s.quiet++
	return s.quiet >= stallParts
}

// working reports whether the server owes the connection an answer that waits for the server, or
// for a turn that other connections have.
func (c *connection) working() bool {
	if c.stage == attaching || c.files != nil && (c.files.running > 0 || c.files.waiter != nil) || c.http != nil && c.http.asked > 0 {
		return true
	}
	for _, p := range c.pending {
		if p.server {
			return true
		}
	}
	return false
}

func (c *connection) receiveStall(ctx actor.Context, m any) {
	switch m.(type) {
	case unread:
		c.unreadSince(ctx)
	case stallDue:
		c.stallDue(ctx)
	}
}

// unreadSince begins to look after a connection that is not read.
func (c *connection) unreadSince(ctx actor.Context) {
	full, _, released := c.admit.stillFull()
	if !full {
		return // and the next time that it waits, the reader says so
	}
	c.stall = stall{released: released, finished: c.finished}
	env.After(ctx, stallTime/stallParts, stallDue{})
}

// stallDue closes the connection if it has stalled, or if nobody is there any more: a reader that
// waits does not notice.
func (c *connection) stallDue(ctx actor.Context) {
	full, over, released := c.admit.stillFull()
	if !full || c.stage == evicted {
		return
	}
	if gone, ok := c.conn.(interface{ Gone() bool }); ok && gone.Gone() {
		c.broken = true
		ctx.Stop(ctx.Self())
		return
	}
	if c.stall.look(released, c.finished, c.working()) {
		if over {
			c.closeFor(ctx, protocol.CloseTryLater, budget.ErrFull.Error()+", and requests of this connection wait: try again later")
			return
		}
		c.closeFor(ctx, protocol.ClosePolicy, "too many requests without an answer, and none has been answered for "+stallTime.String()+": wait for answers before sending more")
		return
	}
	env.After(ctx, stallTime/stallParts, stallDue{})
}
