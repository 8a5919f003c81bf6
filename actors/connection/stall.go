package connection

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a connection whose reader waits for admission.
type (
	unread   struct{} // from the reader, when a wait begins; the next comes only after stillFull was false
	stallDue struct{} // look whether anything has moved

)

const (
	// stallTime is how long a connection may make no progress while the reader waits. Then the
	// connection is closed. The reader reads no Pongs either, so a client that sends all its writes at once
	// could wait for itself for ever.
	stallTime = 10 * time.Second
	// stallParts is the number of looks in stallTime. A server that was stopped misses a single
	// look, however long the server slept.
	stallParts = 4
)

// A stall has the numbers of the last look. stall tells a connection that waits for its own client
// from a connection that waits for the server.
type stall struct {
	released uint64 // requests whose answers were written, since the beginning
	finished uint64 // calls finished by the server, since the beginning
	quiet    int    // looks in a row without progress
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

// working reports whether an answer waits for the server, or for a turn taken by other connections.
func (c *connection) working() bool {
	if c.stage == attaching || c.files != nil && (c.files.Running() > 0 || c.files.waiter != nil) || c.http != nil && c.http.asked > 0 {
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

// unreadSince begins the looks at a connection whose reader waits.
func (c *connection) unreadSince(ctx actor.Context) {
	full, _, released := c.admit.stillFull()
	if !full {
		return // the reader will tell of its next wait
	}
	c.stall = stall{released: released, finished: c.finished}
	env.After(ctx, stallTime/stallParts, stallDue{})
}

// stallDue closes the connection if the connection has stalled, or if the client is gone. A waiting
// reader does not notice the end of the client.
func (c *connection) stallDue(ctx actor.Context) {
	full, over, released := c.admit.stillFull()
	if !full || c.stage == evicted {
		return
	}
	if socket, ok := c.conn.(message.Socket); ok && socket.Gone() {
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

// String names a stage.
func (s stage) String() string {
	return [...]string{"opened", "attaching", "attached", "ready", "evicted"}[s]
}

// Stands implements env.Stander.
func (c *connection) Stands() (state string, waits []string) {
	if n := len(c.pending); n > 0 {
		waits = append(waits, fmt.Sprintf("answers to %d requests", n))
	}
	if c.window.Full() {
		waits = append(waits, "the client reads: its window is full")
	}
	if c.admit.isFull() {
		waits = append(waits, "room for the next request")
	}
	return fmt.Sprintf("%s as %s, %d streams", c.stage, cmp.Or(string(c.role), "nobody"), len(c.streams)), waits
}
