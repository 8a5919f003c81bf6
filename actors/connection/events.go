package connection

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/protocol"
)

// eventsDue is for the server/events of the token: there is an event, or waitMs has passed.
type eventsDue struct{ token uint64 }

// IgnoreDeadLetterLogging: an event may come after the end of the actor.
func (eventsDue) IgnoreDeadLetterLogging() {}

// eventsWait is a server/events that waits.
type eventsWait struct {
	question journal.Question
	timer    *time.Timer
	cancel   func() // of the wait in the journal
}

// stop frees what waits. The nil eventsWait has nothing.
func (w *eventsWait) stop() {
	if w != nil {
		w.timer.Stop()
		w.cancel()
	}
}

// readEvents handles server/events.
func (c *connection) readEvents(ctx actor.Context, in inbound, p protocol.ServerEventsParams) {
	q := journal.Question{Who: c.about.Identity, AfterUs: math.MaxUint64, Instance: p.Instance, Last: p.Last}
	if p.AfterUs != nil {
		q.AfterUs = *p.AfterUs
	}
	result := c.env.Journal.Read(q)
	if len(result.Events) > 0 || p.WaitMs == 0 {
		c.tellEvents(pending{id: in.id, weight: in.weight}, result)
		return
	}
	c.token++
	due := eventsDue{c.token}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	q.AfterUs = result.NextUs
	c.pending[c.token] = pending{id: in.id, weight: in.weight, events: &eventsWait{
		question: q,
		timer:    env.After(ctx, env.FromMillis(p.WaitMs), due),
		cancel:   c.env.Journal.Wait(q, func() { root.Send(self, due) }),
	}}
}

// eventsDue answers a server/events that waits.
func (c *connection) eventsDue(ctx actor.Context, m eventsDue) {
	p, ok := c.pending[m.token]
	if !ok {
		return // both have come, the event and the end of waitMs
	}
	delete(c.pending, m.token)
	p.events.stop()
	c.tellEvents(p, c.env.Journal.Read(p.events.question))
	c.mayClose(ctx)
}

func (c *connection) tellEvents(p pending, result protocol.ServerEventsResult) {
	n := encoded(eventBytes * len(result.Events))
	c.memory.Force(n)
	c.writer.control(outgoing{id: p.id, weight: p.weight, body: result, held: n})
}
