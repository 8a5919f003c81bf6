package actors

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/fifo"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a connection actor, beside those of messages.go.
type (
	ended         struct{ err error } // reader or writer: the transport is gone
	ponged        struct{}            // reader; at most one is on its way
	pingDue       struct{}            // output has paused
	listWritten   struct{}            // writer: the answers to process/list
	groupsWritten struct{}            // writer: what it was given of group/changed
	attachDue     struct{ token uint64 }
	endDue        struct{} // the client had its time to read the end

)

const (
	// deliveryBytes is how much output one process may send before another's turn.
	deliveryBytes = 128 << 10
	// attachTime is how long a session may take to answer.
	attachTime = 10 * time.Second
	// maxGreeting is how many bytes a message may have until the client has a session: resumeFrom
	// may name 10,000 processes.
	maxGreeting = 1 << 20
	// endTime is how long an evicted client may take to read why, and how long what
	// waits may take to be answered after the end of its input.
	endTime = 5 * time.Second
)

// stage is how far the handshake has come.
//
//	opened ─ initialize ─▶ attaching ─▶ attached ─ initialized ─▶ ready ─▶ evicted
//	   ▲───────── refused ─────┘
type stage int

const (
	opened stage = iota
	attaching
	attached
	ready
	evicted
)

// connection is the actor of one transport connection. It translates between the
// wire and the messages of sessions and processes, and holds output back that the
// client is not reading. It owns nothing that must survive it.
type connection struct {
	// Fixed at spawn.
	env    *env.Env
	troupe *actor.PID
	conn   message.Conn
	most   int  // bytes that a message may have; 0: as many as limits say
	spare  bool // there are MaxConnections without it: it is for a client that resumes
	writer *writer
	admit  *admission
	memory *budget.Account // what its requests and answers hold

	// Shared with the reader.
	pongs pongs

	// Owned by Receive.
	stage     stage
	init      *protocol.InitializeParams // while attaching: it may be large
	initReq   pending                    // initialize, while attaching
	resume    map[string]uint64          // resumeFrom, until initialized: of the processes that there are or were
	held      []inbound                  // while attaching
	gone      []message.ProcessRemoved   // before it was attached; told after initialized
	session   *actor.PID
	sessionID string
	observer  bool
	acks      bool // the client acknowledges by session/ack

	token    uint64
	pending  map[uint64]pending   // requests without an answer
	reads    fifo.Queue[pending]  // those that are answered when there is room in the window
	lists    []pending            // process/list: all wait for listing
	listing  *listing             // until its answers are written
	starting map[string][]inbound // by process id: requests behind a process/start

	files    *fileCalls // nil: there was none
	http     *httpCalls // nil: there was none
	commands commands

	stall    stall  // while the reader waits for admission
	finished uint64 // answers that waited for the server alone, since the beginning

	groups        map[string]message.GroupChanged // by group id: what the client was not told
	groupsWaiting bool                            // for groupsWritten

	streams map[string]*stream // by process id
	window  window.Window[*stream]

	inputEnded bool // no more requests will come
	broken     bool // the transport is
}

// newConnection makes the actor of one connection. spare says that there are MaxConnections without
// this one.
func newConnection(e *env.Env, troupe *actor.PID, conn message.Conn, spare bool) *actor.Props {
	return e.Props(func() actor.Actor { return connectionOf(e, troupe, conn, spare) }, env.Escalated, actor.WithSupervisor(e.Once))
}

func connectionOf(e *env.Env, troupe *actor.PID, conn message.Conn, spare bool) *connection {
	c := &connection{
		env:      e,
		troupe:   troupe,
		conn:     conn,
		spare:    spare,
		pending:  make(map[uint64]pending),
		starting: make(map[string][]inbound),
		streams:  make(map[string]*stream),
		window:   window.New[*stream](e.Window),
	}
	c.memory = e.ClientBudget.Account()
	c.admit = newAdmission(e.MaxPending, c.memory)
	if bounded, ok := conn.(interface{ MaxMessage() int }); ok {
		c.most = bounded.MaxMessage()
	}
	return c
}

func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: ending is harmless twice
		c.end()
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes what its sender said before; gone does not
	case message.Gone:
		if c.session.Equal(m.Who) {
			c.evicted(ctx, "the session has ended")
		}
		c.commandGone(ctx, m.Who)
	case env.Crashed:
		panic(m)
	case ended:
		c.ended(ctx, m.err)
	case endDue:
		ctx.Stop(ctx.Self())

	case inbound:
		c.inbound(ctx, m)
	case fileDone:
		c.fileDone(ctx, m)
	case fileTurn:
		c.fileTurn(ctx)
	case fileWritten:
		c.fileWritten(ctx, m)
	case missingChanged:
		c.missingChanged(m)
	case httpAnswered:
		c.httpAnswered(ctx, m)
	case httpDelta:
		c.httpDelta(ctx, m)
	case httpWritten:
		c.httpWritten(ctx, m)
	case httpDue:
		c.httpDue(ctx, m)
	case listWritten:
		c.listing = nil
		c.list(ctx)
		c.mayClose(ctx)
	case message.Attached:
		c.attached(ctx, m)
	case message.Reply:
		c.reply(ctx, m)
	case message.Delivery:
		c.delivery(ctx, m)
	case message.Parcel:
		c.parcel(ctx, m)
	case message.Resubscribe:
		c.resubscribe(ctx, m)
	case message.Refused:
		c.violation(ctx, "resumeFrom: "+m.Err.Message)
	case message.ProcessAdded:
		c.showNew(ctx, m.Process)
	case message.ProcessRemoved:
		c.removed(ctx, m)
	case message.Evicted:
		c.evicted(ctx, m.Reason)
	case message.GroupChanged:
		c.groupChanged(ctx, m)
	case groupsWritten:
		c.groupsWaiting = false
		c.tellGroups(ctx)
	case message.Expiring:
		c.notify(protocol.NotifySessionExpiring, protocol.SessionExpiringNotification(m))

	case ponged:
		c.ponged(ctx)
	case pingDue:
		c.ping(c.window.Due())
	case attachDue:
		if c.stage == attaching && m.token == c.token {
			c.attachFailed(ctx, protocol.Errorf(protocol.CodeInternal, "the session did not answer within %v, try again", attachTime))
		}
	case unread:
		c.unreadSince(ctx)
	case stallDue:
		c.stallDue(ctx)

	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		c.env.Log.Warn("unexpected message", "actor", ctx.Self().GetId(), "message", m)
	}
}

// start starts the two goroutines of the connection.
func (c *connection) start(ctx actor.Context) {
	self, root, s := ctx.Self(), ctx.ActorSystem().Root, c.env
	fault := c.faultOf(self)
	pongs := &c.pongs
	pong := func(serial uint64) {
		if pongs.take(serial) {
			root.Send(self, ponged{})
		}
	}
	c.conn.SetPongHandler(func(payload []byte) {
		if len(payload) == 8 {
			pong(binary.BigEndian.Uint64(payload))
		}
	})
	c.limit(maxGreeting)
	c.writer = newWriter(c.conn, c.admit, pong)
	c.writer.most = c.most
	w, conn, admit := c.writer, c.conn, c.admit
	w.failed = func(err error) { root.Send(self, ended{err}) }
	write := s.Guarded(root, self, "writer", func() {
		fault("writer")
		w.work()
	})
	w.begin = func() { s.OnWorker(write) }
	s.Run(root, self, "reader", func() {
		fault("reader")
		full := func() { root.Send(self, unread{}) }
		var codec protocol.Codec
		for admit.wait(full) {
			frame, err := conn.ReadMessage()
			if err != nil {
				root.Send(self, ended{err})
				return
			}
			if codec == nil {
				codec = codecOf(conn.Subprotocol())
				w.codec = codec // nothing is written before what answers this frame
			}
			in := decode(codec, frame)
			admit.take(in.weight)
			root.Send(self, in)
		}
	})
}

// limit lets messages of the client have at most so many bytes from now on; 0: as many as the
// transport allows.
func (c *connection) limit(bytes int) {
	if conn, ok := c.conn.(interface{ SetMaxMessage(bytes int) }); ok {
		conn.SetMaxMessage(bytes)
	}
}

// faultOf is what each goroutine of the connection calls with its name: a test may stop it there.
func (c *connection) faultOf(self *actor.PID) func(goroutine string) {
	fault := c.env.Faults.Actor
	if fault == nil {
		return func(string) {}
	}
	return func(goroutine string) { fault(self, goroutine) }
}

// ended stops the actor, but answers first what came before the end of an input.
func (c *connection) ended(ctx actor.Context, err error) {
	c.env.Log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "err", err)
	var input interface{ InputEnded() bool }
	if !errors.As(err, &input) || !input.InputEnded() {
		c.broken = true
		ctx.Stop(ctx.Self())
		return
	}
	if !errors.Is(err, io.EOF) {
		c.env.Log.Warn("the input ended badly", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "err", err)
	}
	c.inputEnded = true
	env.After(ctx, endTime, endDue{})
	c.mayClose(ctx)
}

// mayClose ends a connection whose input has ended once nothing of it is without
// an answer.
func (c *connection) mayClose(ctx actor.Context) {
	if c.inputEnded && c.stage != attaching && len(c.pending)+c.reads.Len()+len(c.lists)+c.files.pending()+c.http.pending()+c.commands.ending() == 0 {
		c.closeFor(ctx, protocol.CloseNormal, "")
	}
}

func (c *connection) end() {
	c.admit.close()
	c.memory.Close()
	for _, s := range c.streams {
		s.forget()
	}
	if c.files != nil {
		c.files.end(c.env.FileTurns)
	}
	c.http.end()
	if c.writer != nil {
		c.writer.stop()
	}
	conn, code, reason := c.conn, protocol.CloseInternalError, "internal error: resume the session"
	if c.broken {
		code, reason = protocol.CloseLost, "the connection broke: resume the session" // unless the transport knew better
	}
	go conn.Close(code, reason) // it may wait for the peer a little
}

// closeFor ends the connection once what is queued has been written.
func (c *connection) closeFor(ctx actor.Context, code int, reason string) {
	c.stage = evicted
	c.writer.close(code, reason)
	env.After(ctx, endTime, endDue{})
}

func (c *connection) evicted(ctx actor.Context, reason string) {
	if c.stage == evicted {
		return
	}
	if c.stage >= attached { // before the first frame nothing can be encoded
		// The last message: behind the output that is here already, window or not.
		c.flush(ctx, true)
		c.writer.output(outgoing{method: protocol.NotifySessionEvicted, body: protocol.SessionEvictedNotification{Reason: reason}})
	}
	code := protocol.CloseEvicted
	switch reason {
	case message.ReasonShutdown:
		code = protocol.CloseGoingAway
	case message.ReasonClosed:
		code = protocol.CloseNormal
	}
	c.closeFor(ctx, code, reason)
}

func (c *connection) inbound(ctx actor.Context, in inbound) {
	switch {
	case c.stage == evicted:
		c.admit.release(in.weight)
	case c.stage == attaching:
		c.held = append(c.held, in) // bounded by the admission
	case in.kind == protocol.Notification:
		c.notification(ctx, in)
		c.admit.release(in.weight)
	case in.kind != protocol.Request && in.err == nil:
		c.violation(ctx, "a response to a request that was never sent")
		c.admit.release(in.weight)
	default:
		c.request(ctx, in)
	}
}

func (c *connection) violation(ctx actor.Context, what string) {
	c.env.Log.Warn("protocol violation", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "what", what)
	c.closeFor(ctx, protocol.CloseProtocolError, what)
}

func (c *connection) notification(ctx actor.Context, in inbound) {
	switch m := in.entry; {
	case !m.notification:
		c.violation(ctx, "unknown notification "+wireerr.Clip(in.method))
	case in.err != nil:
		c.violation(ctx, in.method+": "+in.err.Message)
	default:
		m.handle(c, ctx, in)
	}
}

// acknowledge passes on what a client has made its own.
func (c *connection) acknowledge(ctx actor.Context, _ inbound, p protocol.SessionAckParams) {
	if !c.acks || c.observer {
		return
	}
	for id, seq := range p.Processes {
		if s := c.streams[id]; s != nil {
			ctx.Request(s.ref.PID, message.Ack{From: 0, To: seq})
		}
	}
}

// groupChanged keeps the newest of each group until the writer has written the last: who
// reads slowly is not told of all that was in between.
func (c *connection) groupChanged(ctx actor.Context, m message.GroupChanged) {
	if c.stage < attached || c.stage == evicted || !c.writer.caps.Groups {
		return
	}
	if c.groups == nil {
		c.groups = make(map[string]message.GroupChanged)
	}
	c.groups[m.GroupID] = m
	c.tellGroups(ctx)
}

func (c *connection) tellGroups(ctx actor.Context) {
	if c.groupsWaiting || len(c.groups) == 0 {
		return
	}
	for _, m := range c.groups {
		c.notify(protocol.NotifyGroupChanged, m.GroupChangedNotification)
	}
	clear(c.groups)
	c.groupsWaiting = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	c.writer.control(outgoing{written: func() { root.Send(self, groupsWritten{}) }})
}

func (c *connection) notify(method string, params any) {
	c.writer.control(outgoing{method: method, body: params})
}
