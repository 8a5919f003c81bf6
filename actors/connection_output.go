package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// stream is the output of one process on this connection.
type stream struct {
	ref     message.ProcessRef
	shown   bool              // it was subscribed to
	placed  bool              // last counts
	closed  bool              // last was process/closed
	begin   uint64            // seq after which it began: all that follows, up to last, was passed on
	last    uint64            // seq of the last entry passed to the writer
	waiting *message.Delivery // for the window
	command *runningCommand   // nil: it is a process
}

// sentMark is output that was passed to the writer before Ping serial. Of a stream
// it counts from where that began: an Ack that is lost is made good by the next.
type sentMark struct {
	serial   uint64
	process  *actor.PID // or command
	command  bool
	from, to uint64
	bytes    int64
}

// show subscribes to a process, from where m says, with a standing Pull.
func (c *connection) show(ctx actor.Context, p message.ProcessRef, m message.Subscribe) {
	if c.stage == evicted {
		return
	}
	s := &stream{ref: p, shown: true, placed: !m.Now, begin: m.After, last: m.After}
	if old := c.streams[p.ID]; old != nil {
		if old.waiting != nil {
			old.waiting.Release() // it comes again
			old.waiting = nil
		}
		if m.Resumed && old.placed {
			s.begin = old.begin
		}
	}
	c.streams[p.ID] = s
	m.Pull, m.Owner, m.Explicit = deliveryBytes, !c.observer, c.acks
	ctx.Request(p.PID, m)
}

// showNew shows a process from its beginning, if it is not shown.
func (c *connection) showNew(ctx actor.Context, p message.ProcessRef) {
	if s := c.streams[p.ID]; s == nil || !s.ref.PID.Equal(p.PID) {
		c.show(ctx, p, message.Subscribe{})
	}
}

func (c *connection) delivery(ctx actor.Context, m message.Delivery) {
	s := c.streams[m.Process]
	if s == nil || !s.ref.PID.Equal(ctx.Sender()) || c.stage == evicted {
		m.Release()
		return // nobody is there any more, to send it or to have it
	}
	next := m.Gap.From
	if next == 0 {
		next = m.Entries[0].Seq
	}
	if !s.placed {
		s.placed, s.begin, s.last = true, next-1, next-1
	}
	if next != s.last+1 {
		// An actor failed between moving the cursor and sending: begin again.
		m.Release()
		c.resubscribe(ctx, message.Resubscribe{Process: s.ref, After: s.last})
		return
	}
	s.waiting = &m
	c.queue = append(c.queue, s)
	c.flush(ctx, c.env.Window)
}

// flush passes deliveries to the writer, each process in turn, while the client
// has less than window unread.
func (c *connection) flush(ctx actor.Context, window int64) {
	for len(c.reads) > 0 && c.unread < window {
		p := c.reads[0]
		c.reads = c.reads[1:]
		c.readAgain(ctx, p)
	}
	for len(c.queue) > 0 && c.unread < window {
		s := c.queue[0]
		c.queue = c.queue[1:]
		switch {
		case s.command != nil && s.command.parcel != nil:
			c.passParcel(ctx, s.command)
		case s.waiting != nil:
			c.pass(ctx, s)
		default:
			continue // it was subscribed to anew, or has gone
		}
		ctx.Request(s.ref.PID, message.Pull{Bytes: deliveryBytes})
	}
	if len(c.queue) == 0 {
		c.queue = nil
	}
}

// pass passes the delivery of s that waits to the writer.
func (c *connection) pass(ctx actor.Context, s *stream) {
	d := s.waiting
	s.waiting = nil
	n := int64(0)
	s.last = max(s.last, d.Gap.To) + uint64(len(d.Entries))
	for i := range d.Entries {
		n += entryBytes + int64(d.Entries[i].Len())
		s.closed = d.Entries[i].Kind == outlog.Closed
	}
	c.writer.output(outgoing{delivery: d})
	c.mark(ctx, s, s.begin, s.last, n, d.AckEvery)
}

// entryBytes is what a message costs the window beside its output, in bytes.
const entryBytes = 100

// mark remembers output that was passed to the writer, until a Pong says that it
// has been read. That is asked for once an eighth of the window waits for it, or ackEvery bytes
// if that is less and not 0.
func (c *connection) mark(ctx actor.Context, s *stream, from, to uint64, n, ackEvery int64) {
	c.unread += n
	c.unasked += n
	if k := len(c.sent) - 1; k >= 0 && c.sent[k].serial == c.serial && c.sent[k].process == s.ref.PID && c.sent[k].from == from {
		c.sent[k].to = max(c.sent[k].to, to)
		c.sent[k].bytes += n
	} else {
		c.sent = append(c.sent, sentMark{c.serial, s.ref.PID, s.command != nil, from, to, n})
	}
	most := c.env.Window / 8
	if ackEvery > 0 {
		most = min(most, ackEvery)
	}
	switch {
	case c.unasked >= most:
		c.ping()
	case !c.pausing:
		c.pausing = true
		env.After(ctx, pingPause, pingDue{})
	}
}

// ping asks how far the client has read: its Pong to what follows all that was
// passed to the writer says that it has read all of that (RFC 6455 §5.5.3).
func (c *connection) ping() {
	if n := len(c.sent); n == 0 || c.sent[n-1].serial != c.serial {
		return
	}
	c.asked.Store(c.serial)
	c.writer.output(outgoing{ping: c.serial})
	c.serial++
	c.unasked = 0
}

func (c *connection) ponged(ctx actor.Context) {
	c.pongPending.Store(false)
	serial := c.pong.Load()
	n := 0
	for n < len(c.sent) && c.sent[n].serial <= serial {
		m := &c.sent[n]
		c.unread -= m.bytes
		if !c.observer && !c.acks || m.command {
			ctx.Request(m.process, message.Ack{From: m.from, To: m.to})
		}
		n++
	}
	if c.sent = c.sent[n:]; len(c.sent) == 0 {
		c.sent = nil
	}
	c.flush(ctx, c.env.Window)
}

// resubscribe goes on after the last entry that the writer has.
func (c *connection) resubscribe(ctx actor.Context, m message.Resubscribe) {
	s := c.streams[m.Process.ID]
	if s == nil || s.closed || !s.ref.PID.Equal(m.Process.PID) {
		return
	}
	last := m.After
	if s.placed {
		last = s.last
	}
	c.show(ctx, s.ref, message.Subscribe{After: last, Resumed: true})
}

// removed forgets a process, and answers what can no longer be answered.
func (c *connection) removed(ctx actor.Context, m message.ProcessRemoved) {
	s := c.streams[m.ID]
	if s == nil {
		return
	}
	delete(c.streams, m.ID)
	if s.waiting != nil {
		c.pass(ctx, s) // with or without room: no more will come
	}
	if !s.placed {
		s.last = m.Last // nothing has come since it was subscribed to
	}
	switch {
	case s.closed, m.Closed && s.last >= m.Last:
	case m.Reason == "": // it was too slow, for an observer or with evict
		closed := &message.Delivery{Process: m.ID, Entries: []outlog.Entry{{Seq: m.Last, Kind: outlog.Closed}}}
		if s.last+1 < m.Last {
			closed.Gap = outlog.Gap{From: s.last + 1, To: m.Last - 1}
		}
		c.writer.output(outgoing{delivery: closed})
	default:
		// Its actor is gone, and the end of its log with it: say so, and close. In the
		// lane of its output, which comes before.
		last := max(m.Last, s.last)
		if s.last < last {
			c.writer.output(outgoing{delivery: &message.Delivery{Process: m.ID, Gap: outlog.Gap{From: s.last + 1, To: last}}})
		}
		c.writer.output(outgoing{method: protocol.NotifyEvicted, body: protocol.EvictedNotification{ProcessID: m.ID, Seq: last + 1, Reason: m.Reason}})
		c.writer.output(outgoing{method: protocol.NotifyClosed, body: protocol.ClosedNotification{ProcessID: m.ID, Seq: last + 2}})
	}
	for token, p := range c.pending {
		if p.about && p.process == m.ID {
			c.reply(ctx, message.Reply{Token: token, Err: wireerr.UnknownProcess(m.ID)})
		}
	}
}
