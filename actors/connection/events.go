package connection

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/protocol"
)

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
		c.tellEvents(pending{asked: in.asked}, result)
		return
	}
	c.token++
	token := c.token
	due := c.later(ctx, func(c *connection, ctx actor.Context) { c.eventsDue(ctx, token) })
	q.AfterUs = result.NextUs
	c.pending[c.token] = pending{asked: in.asked, events: &eventsWait{
		question: q,
		timer:    time.AfterFunc(protocol.FromMillis(p.WaitMs), due),
		cancel:   c.env.Journal.Wait(q, due),
	}}
}

// eventsDue answers a server/events that waits: there is an event, or waitMs has passed.
func (c *connection) eventsDue(ctx actor.Context, token uint64) {
	p, ok := c.pending[token]
	if !ok {
		return // both have come, the event and the end of waitMs
	}
	delete(c.pending, token)
	p.events.stop()
	c.tellEvents(p, c.env.Journal.Read(p.events.question))
	c.mayClose(ctx)
}

func (c *connection) tellEvents(p pending, result protocol.ServerEventsResult) {
	n := encoded(eventBytes * len(result.Events))
	c.memory.Force(n)
	c.writer.control(outgoing{asked: p.asked, body: result, held: n})
}
