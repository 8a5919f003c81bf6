package connection

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// How a connection ends.

// ending is what is known of the end of the connection.
type ending struct {
	endReason  string      // why the connection ends; "": it does not, or the actor has failed
	inputEnded bool        // no more requests will come
	broken     bool        // the transport is
	endAt      env.Alarm   // the connection is stopped then
	last       *closeFrame // in the stage evicted: how the connection ends; else nil
	cut        uint64      // bytes of output that processes have left out at their end
}

// actorGone is for the end of the session, or of a Program of this connection.
func (c *connection) actorGone(ctx actor.Context, pid *actor.PID) {
	if c.session.Equal(pid) {
		c.evicted(ctx, message.Evicted{Reason: "the session has ended"})
	}
	c.programGone(ctx, pid)
}

// ended stops the actor. If only the input has ended, the requests before the end are answered first.
func (c *connection) ended(ctx actor.Context, err error) {
	c.env.Log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "err", err)
	var input interface{ InputEnded() bool }
	if !errors.As(err, &input) || !input.InputEnded() {
		c.broken = true
		c.because(err.Error())
		if c.session != nil && !errors.Is(err, io.EOF) {
			ctx.Request(c.session, message.Lost{})
		}
		ctx.Stop(ctx.Self())
		return
	}
	if !errors.Is(err, io.EOF) {
		c.env.Log.Warn("the input ended badly", "remote", c.conn.RemoteAddr(), "identity", c.about.Identity.Name, "session", c.sessionID, "err", err)
	}
	c.inputEnded = true
	c.endAt.Set(ctx, endTime, endDue{})
	c.mayClose(ctx)
}

// mayClose ends the connection once its input has ended and every request is answered.
func (c *connection) mayClose(ctx actor.Context) {
	if c.inputEnded && c.stage != attaching && c.stage != evicted && !c.waiting() && len(c.pending)+c.reads.Len()+c.lists.pending()+c.files.pending()+c.http.pending()+c.programsEnding() == 0 {
		c.closeFor(ctx, protocol.CloseNormal, "")
	}
}

func (c *connection) end() {
	c.recordEnd()
	c.admit.close()
	c.memory.Close()
	for _, s := range c.streams {
		s.forget()
	}
	for _, p := range c.pending {
		p.events.stop()
	}
	if c.files != nil {
		c.files.end(c.env.FileTurns)
	}
	c.http.end()
	c.giveBackParcels()
	if c.writer != nil {
		c.writer.stop()
	}
	frame := closeFrame{protocol.CloseInternalError, "internal error: resume the session"}
	switch {
	case c.broken:
		frame = closeFrame{protocol.CloseLost, "the connection broke: resume the session"} // unless the transport knew better
	case c.last != nil:
		frame = *c.last
		if n := c.window.Unread(); n > 0 {
			frame.reason += fmt.Sprintf("; %d bytes were sent and not read", n)
		}
	}
	c.endAt.Stop()
	conn := c.conn
	go conn.Close(frame.code, frame.reason) // Close may wait for the peer a little
}

// closeFor ends the connection once the queue of the writer has been written.
func (c *connection) closeFor(ctx actor.Context, code int, reason string) {
	c.closing(ctx, code, reason)
	c.writer.close(code, reason)
}

// closing begins the end of the connection. The client has endTime for the rest.
func (c *connection) closing(ctx actor.Context, code int, reason string) {
	c.stage, c.last = evicted, &closeFrame{code, reason}
	c.because(cmp.Or(reason, "closed"))
	if c.files.pending() == 0 { // else the end of the connection ends them
		c.files.endJails()
	}
	c.endAt.Set(ctx, endTime, endDue{})
}

// evicted ends the connection. If the session is over, the connection stays until the client has read the rest of the output, or has
// read nothing for endTime.
func (c *connection) evicted(ctx actor.Context, m message.Evicted) {
	if c.stage == evicted {
		return
	}
	if c.stage >= attached { // before the first frame nothing can be encoded
		// The last message follows all output received so far, even if the window is full.
		c.flush(ctx, true)
		c.writer.output(outgoing{method: protocol.NotifySessionEvicted, body: protocol.SessionEvictedNotification{Reason: m.Reason}})
	}
	code, reason := protocol.CloseEvicted, m.Reason
	switch reason {
	case message.ReasonShutdown:
		code = protocol.CloseGoingAway
	case message.ReasonClosed:
		code = protocol.CloseNormal
	}
	if c.cut > 0 {
		reason += fmt.Sprintf("; %d bytes of output were not sent: they were read too slowly", c.cut)
	}
	if !m.Over || c.window.Unread() == 0 {
		c.closeFor(ctx, code, reason)
		return
	}
	c.closing(ctx, code, reason)
	c.ping(c.window.Last())
}

// hasRead closes the connection of an evicted client that has read everything. A client that has read a part has endTime again.
func (c *connection) hasRead(ctx actor.Context) {
	if c.window.Unread() == 0 {
		c.writer.close(c.last.code, c.last.reason)
	}
	c.endAt.Set(ctx, endTime, endDue{})
}

// violation ends the connection of a client after a breach of the protocol.
func (c *connection) violation(ctx actor.Context, what string) {
	c.env.Log.Info("protocol violation", "remote", c.conn.RemoteAddr(), "identity", c.about.Identity.Name, "session", c.sessionID, "what", what)
	c.because("a breach of the protocol") // what may quote the client
	c.closeFor(ctx, protocol.CloseProtocolError, what)
}
