package connection

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// stream is the output of a process, or of a Program, on this connection.
type stream struct {
	out     window.Stream[*stream]
	ref     message.ProcessRef
	shown   bool               // a Subscribe was sent
	acked   bool               // begins after the entry that the owner has acknowledged last; only the process knows which
	hold    bool               // of the last process/subscribe
	unnamed bool               // the client wants no notifications: the stream is for requests about the process
	replay  *message.Subscribe // to send once the client has sent initialized; nil: none
	waiting *message.Delivery  // its turn, in the window; nil: none
	program *Program           // nil: the stream is of a process
}

func newStream(p message.ProcessRef) *stream {
	s := &stream{ref: p}
	s.out.Of = s
	return s
}

// forget drops the waiting delivery, and gives back its memory.
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
	s.unnamed, s.hold = false, m.Hold
	if m.Now || m.Acked {
		s.out.BeginNow()
	} else {
		s.out.Begin(m.After)
	}
	c.subscribe(ctx, s, m)
}

// subscribe asks the process of s for the entries after m.After. A waiting delivery comes again.
func (c *connection) subscribe(ctx actor.Context, s *stream, m message.Subscribe) {
	s.forget()
	s.shown = true
	m.Pull, m.Owner, m.Hold, m.Role, m.Explicit = deliveryBytes, c.owns(), s.hold, c.role, c.acks
	ctx.Request(s.ref.PID, m)
}

// named reports whether the client gets notifications only of processes that it names or starts.
func (c *connection) named() bool { return c.writer.caps.OnlyNamed && !c.owns() }

// know makes a process known for requests, and shows nothing of the process.
func (c *connection) know(p message.ProcessRef) {
	if s := c.streams[p.ID]; s == nil || !s.ref.PID.Equal(p.PID) {
		if s != nil {
			s.forget()
		}
		s = newStream(p)
		s.unnamed = true
		c.streams[p.ID] = s
	}
}

// showNew shows a process from its beginning, unless the process is shown already.
func (c *connection) showNew(ctx actor.Context, p message.ProcessRef) {
	if s := c.streams[p.ID]; s == nil || s.unnamed || !s.ref.PID.Equal(p.PID) {
		c.show(ctx, p, message.Subscribe{})
	}
}

func (c *connection) delivery(ctx actor.Context, m message.Delivery) {
	s := c.streams[m.Process]
	if s == nil || !s.ref.PID.Equal(ctx.Sender()) || c.stage == evicted {
		m.Release()
		return // the process or the client is gone
	}
	if m.Cut {
		c.cut += m.Gap.Bytes
		c.passLast(ctx, s) // the cut follows what waits
	}
	d := measured(&m)
	if m.Again {
		s.out.Begin(d.First - 1)
	}
	if !c.window.Offer(&s.out, d) {
		// An actor failed between moving the cursor and sending: begin again.
		m.Release()
		c.resubscribe(ctx, message.Resubscribe{Process: s.ref})
		return
	}
	s.release() // m replaces the waiting delivery, and begins at the same seq
	s.waiting = &m
	if m.Cut {
		c.passLast(ctx, s)
	}
	c.flush(ctx, false)
	if s.waiting != nil {
		s.waiting.At = time.Time{} // it waits for the client, and not for the server
	}
}

// measured describes a delivery for the window.
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

// flush passes output to the writer while the window has room; with force, all waiting output.
func (c *connection) flush(ctx actor.Context, force bool) {
	for r, ok := c.read(force); ok; r, ok = c.read(force) {
		c.readAgain(ctx, r)
	}
	for s, ask, ok := c.window.Next(force); ok; s, ask, ok = c.window.Next(force) {
		c.pass(ctx, s, ask)
		ctx.Request(s.ref.PID, message.Pull{Bytes: deliveryBytes})
	}
}

// read takes the first process/read that waited for room, if the window has room.
func (c *connection) read(force bool) (r fullRead, ok bool) {
	if c.window.Full() && !force {
		return r, false
	}
	return c.reads.Pop()
}

// pass passes the waiting output of s to the writer, and then does what ask says.
func (c *connection) pass(ctx actor.Context, s *stream, ask window.Ask) {
	if s.program != nil {
		c.passParcel(s.program)
	} else {
		c.writer.output(outgoing{delivery: s.waiting})
		s.waiting = nil
	}
	c.askRead(ctx, ask)
	if s.program != nil {
		c.mayClose(ctx) // the parcel may have been the last answer
	}
}

// passLast passes the waiting output of s, out of turn. Afterwards s sends no output but what it has sent already.
func (c *connection) passLast(ctx actor.Context, s *stream) {
	if ask, ok := c.window.Take(&s.out); ok {
		c.pass(ctx, s, ask)
	}
}

// askRead writes the Ping, or sets the timer, of an Ask.
func (c *connection) askRead(ctx actor.Context, a window.Ask) {
	c.ping(a.Ping)
	if a.Wait {
		env.After(ctx, window.Pause, pingDue{})
	}
}

// ping writes a Ping after all output passed to the writer. With serial 0, ping does nothing.
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

// take records a Pong and reports whether the connection needs a ponged. A single goroutine calls
// take. RFC 6455 §5.5.3 allows a Pong without a Ping; such a Pong changes nothing.
func (p *pongs) take(serial uint64) (tell bool) {
	if serial <= p.newest.Load() || serial > p.asked.Load() {
		return false
	}
	p.newest.Store(serial)
	return p.told.CompareAndSwap(false, true)
}

// read returns the newest Pong. After read, take tells the next Pong.
func (p *pongs) read() uint64 {
	p.told.Store(false)
	return p.newest.Load()
}

// ponged acknowledges the output before the newest Pong, and fills the room in the window.
func (c *connection) ponged(ctx actor.Context) {
	serial := c.pongs.read()
	for a, ok := c.window.Pong(serial); ok; a, ok = c.window.Pong(serial) {
		if (c.owns() || a.Of.hold) && !c.acks || a.Of.program != nil {
			ctx.Request(a.Of.ref.PID, message.Ack{From: a.From, To: a.To})
		}
	}
	c.flush(ctx, false)
	if c.stage == evicted {
		c.hasRead(ctx)
	}
}

// acknowledge passes a session/ack on to the processes.
func (c *connection) acknowledge(ctx actor.Context, _ inbound, p protocol.SessionAckParams) {
	if !c.acks {
		return
	}
	for id, seq := range p.Processes {
		if s := c.streams[id]; s != nil && (c.owns() || s.hold) {
			ctx.Request(s.ref.PID, message.Ack{From: 0, To: seq})
		}
	}
}

// resubscribe subscribes again after the last entry passed to the writer.
func (c *connection) resubscribe(ctx actor.Context, m message.Resubscribe) {
	s := c.streams[m.Process.ID]
	if s == nil || !s.ref.PID.Equal(m.Process.PID) || c.stage == evicted {
		return
	}
	c.subscribe(ctx, s, message.Subscribe{After: s.out.Resume(m.After), Resumed: true})
}

// removed forgets a process, and answers the requests left by the process.
func (c *connection) removed(ctx actor.Context, m message.ProcessRemoved) {
	s := c.streams[m.ID]
	if s == nil {
		return
	}
	delete(c.streams, m.ID)
	c.passLast(ctx, s)
	sent := s.out.Last()
	switch { // nothing has come since the Subscribe
	case s.out.Placed():
	case s.acked:
		sent = m.Acked
	default:
		sent = m.Last
	}
	switch {
	case s.unnamed, s.out.Closed(), m.Closed && sent >= m.Last:
	case m.Reason == "": // this viewer was too slow: an observer, or with evict
		closed := &message.Delivery{Process: m.ID, Entries: []outlog.Entry{{Seq: m.Last, Kind: outlog.Closed}}}
		if sent+1 < m.Last {
			closed.Gap = outlog.Gap{From: sent + 1, To: m.Last - 1}
		}
		c.writer.output(outgoing{delivery: closed})
	default:
		// The actor of the process is gone, and the end of the log is lost: tell the client, and
		// close the stream. Both follow the output in the same queue.
		last := max(m.Last, sent)
		if sent < last {
			c.writer.output(outgoing{delivery: &message.Delivery{Process: m.ID, Gap: outlog.Gap{From: sent + 1, To: last}}})
		}
		c.writer.output(outgoing{method: protocol.NotifyEvicted, body: protocol.EvictedNotification{ProcessID: m.ID, Seq: last + 1, Reason: m.Reason}})
		c.writer.output(outgoing{method: protocol.NotifyClosed, body: protocol.ClosedNotification{ProcessID: m.ID, Seq: last + 2}})
	}
	for token, p := range c.pending {
		if p.of == s {
			c.reply(ctx, message.Reply{Token: token, Err: wireerr.UnknownProcess(m.ID)})
		}
	}
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the connection may end within the pause.
func (pingDue) IgnoreDeadLetterLogging() {}
