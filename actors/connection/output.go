package connection

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// stream is the output of one process, or of one command, on this connection.
type stream struct {
	out     window.Stream[*stream]
	ref     message.ProcessRef
	shown   bool              // it was subscribed to
	waiting *message.Delivery // its turn, in the window; nil: none
	command *runningCommand   // nil: it is a process
}

func newStream(p message.ProcessRef) *stream {
	s := &stream{ref: p}
	s.out.Of = s
	return s
}

// forget gives back the delivery that waits, if one does.
func (s *stream) forget() {
	s.out.Drop()
	s.release()
}

func (s *stream) release() {
	if s.waiting != nil {
		s.waiting.Release()
		s.waiting = nil
	}
}

// show subscribes to a process, from where m says, with a standing Pull.
func (c *connection) show(ctx actor.Context, p message.ProcessRef, m message.Subscribe) {
	if c.stage == evicted {
		return
	}
	s := c.streams[p.ID]
	if s == nil || !s.ref.PID.Equal(p.PID) {
		if s != nil {
			s.forget()
		}
		s = newStream(p)
		c.streams[p.ID] = s
	}
	if m.Now {
		s.out.BeginNow()
	} else {
		s.out.Begin(m.After)
	}
	c.subscribe(ctx, s, m)
}

// subscribe asks the process of s for what follows m.After. What waits comes again.
func (c *connection) subscribe(ctx actor.Context, s *stream, m message.Subscribe) {
	s.forget()
	s.shown = true
	m.Pull, m.Owner, m.Explicit = deliveryBytes, !c.observer, c.acks
	ctx.Request(s.ref.PID, m)
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
	if !c.window.Offer(&s.out, measured(&m)) {
		// An actor failed between moving the cursor and sending: begin again.
		m.Release()
		c.resubscribe(ctx, message.Resubscribe{Process: s.ref})
		return
	}
	s.release() // m begins where it did
	s.waiting = &m
	c.flush(ctx, false)
}

// measured is a delivery as the window sees it.
func measured(m *message.Delivery) window.Delivery {
	d := window.Delivery{First: m.Gap.From, Last: m.Gap.To, AckEvery: m.AckEvery}
	for i := range m.Entries {
		d.Bytes += window.EntryBytes + int64(m.Entries[i].Len())
	}
	if n := len(m.Entries); n > 0 {
		if d.First == 0 {
			d.First = m.Entries[0].Seq
		}
		d.Last, d.Closed = m.Entries[n-1].Seq, m.Entries[n-1].Kind == outlog.Closed
	}
	return d
}

// flush passes to the writer what has its turn in the window; with force, all that waits.
func (c *connection) flush(ctx actor.Context, force bool) {
	for p, ok := c.read(force); ok; p, ok = c.read(force) {
		c.readAgain(ctx, p)
	}
	for s, ask, ok := c.window.Next(force); ok; s, ask, ok = c.window.Next(force) {
		c.pass(ctx, s, ask)
		ctx.Request(s.ref.PID, message.Pull{Bytes: deliveryBytes})
	}
}

// read takes the first of the reads that wait for room in the window.
func (c *connection) read(force bool) (p pending, ok bool) {
	if c.window.Full() && !force {
		return p, false
	}
	return c.reads.Pop()
}

// pass passes what waits of s to the writer, and then asks whether the client has read it.
func (c *connection) pass(ctx actor.Context, s *stream, ask window.Ask) {
	if s.command != nil {
		c.passParcel(s.command)
	} else {
		c.writer.output(outgoing{delivery: s.waiting})
		s.waiting = nil
	}
	c.askRead(ctx, ask)
	if s.command != nil {
		c.mayClose(ctx) // the parcel may have been the last answer
	}
}

// passLast passes what waits of s out of turn, if something does: no more will come.
func (c *connection) passLast(ctx actor.Context, s *stream) {
	if ask, ok := c.window.Take(&s.out); ok {
		c.pass(ctx, s, ask)
	}
}

// askRead does what the window needs to learn how far the client has read.
func (c *connection) askRead(ctx actor.Context, a window.Ask) {
	c.ping(a.Ping)
	if a.Wait {
		env.After(ctx, window.Pause, pingDue{})
	}
}

// ping writes the Ping serial behind all that was passed to the writer, unless serial is 0.
func (c *connection) ping(serial uint64) {
	if serial > 0 {
		c.pongs.asked.Store(serial)
		c.writer.output(outgoing{ping: serial})
	}
}

// pongs has the newest Pong for the connection. The zero pongs is ready.
type pongs struct {
	asked  atomic.Uint64 // serial of the newest Ping; the connection stores
	newest atomic.Uint64 // serial of the newest Pong, at most asked; only rises
	told   atomic.Bool   // a ponged is on its way
}

// take records a Pong and reports whether the connection needs a ponged. One goroutine calls it.
// RFC 6455 §5.5.3 allows Pongs that nobody asked for: they change nothing.
func (p *pongs) take(serial uint64) (tell bool) {
	if serial <= p.newest.Load() || serial > p.asked.Load() {
		return false
	}
	p.newest.Store(serial)
	return p.told.CompareAndSwap(false, true)
}

// read is the newest Pong. The next one is told again.
func (p *pongs) read() uint64 {
	p.told.Store(false)
	return p.newest.Load()
}

// ponged acknowledges what the client has read, and passes on what there is room for now.
func (c *connection) ponged(ctx actor.Context) {
	serial := c.pongs.read()
	for a, ok := c.window.Pong(serial); ok; a, ok = c.window.Pong(serial) {
		if !c.observer && !c.acks || a.Of.command != nil {
			ctx.Request(a.Of.ref.PID, message.Ack{From: a.From, To: a.To})
		}
	}
	c.flush(ctx, false)
}

// resubscribe goes on after the last entry that the writer has.
func (c *connection) resubscribe(ctx actor.Context, m message.Resubscribe) {
	s := c.streams[m.Process.ID]
	if s == nil || !s.ref.PID.Equal(m.Process.PID) || c.stage == evicted {
		return
	}
	if after, ok := s.out.Resume(m.After); ok {
		c.subscribe(ctx, s, message.Subscribe{After: after, Resumed: true})
	}
}

// removed forgets a process, and answers what can no longer be answered.
func (c *connection) removed(ctx actor.Context, m message.ProcessRemoved) {
	s := c.streams[m.ID]
	if s == nil {
		return
	}
	delete(c.streams, m.ID)
	c.passLast(ctx, s)
	sent := s.out.Last()
	if !s.out.Placed() {
		sent = m.Last // nothing has come since it was subscribed to
	}
	switch {
	case s.out.Closed(), m.Closed && sent >= m.Last:
	case m.Reason == "": // it was too slow, for an observer or with evict
		closed := &message.Delivery{Process: m.ID, Entries: []outlog.Entry{{Seq: m.Last, Kind: outlog.Closed}}}
		if sent+1 < m.Last {
			closed.Gap = outlog.Gap{From: sent + 1, To: m.Last - 1}
		}
		c.writer.output(outgoing{delivery: closed})
	default:
		// Its actor is gone, and the end of its log with it: say so, and close. In the
		// lane of its output, which comes before.
		last := max(m.Last, sent)
		if sent < last {
			c.writer.output(outgoing{delivery: &message.Delivery{Process: m.ID, Gap: outlog.Gap{From: sent + 1, To: last}}})
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
