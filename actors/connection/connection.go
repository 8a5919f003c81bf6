// Package connection has the actor of a transport connection. The actor translates between the wire
// and the messages of sessions and processes.
//
// # Where to look
//
//   - methods.go: the table of methods: who may send each, how a repeat is recognized, what the audit log has
//   - table.go, rows.go, dialect.go: what a row says; what the functions of rows of other packages use; a wire beside ours
//   - inbound.go, admission.go: frames are decoded by the reader, and a client has a bounded number of requests
//   - handshake.go, greeting: initialize, and what the client is shown first
//   - requests.go: requests go to sessions and processes, and answers come back
//   - lists.go, lists, events.go: lists over several processes and sessions, by a pure machine, and server/events
//   - news.go: what a session tells everybody attached
//   - watch.go: what changes in all sessions
//   - output.go, window: subscriptions and deliveries; the pure machine window says whose turn it is, and what a Pong acknowledges
//   - writer.go: what is written, in which order
//   - files.go, file_methods.go: calls about files: whose turn it is, and each method
//   - confine.go, rule.go: calls about files in a sandbox, as a user, or under the rules of the operator
//   - queue: the pure machine that says which calls begin, about files and over HTTP
//   - http.go, programs.go: http/request; actors that run a program for the client alone
//   - stall.go, end.go: a client that does not read, and how a connection ends
package connection

import (
	"encoding/binary"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a connection actor from its own goroutines and timers. Other actors send messages of
// package message.
type (
	ended     struct{ err error } // reader or writer: the transport is gone
	ponged    struct{}            // reader; at most one is on its way
	pingDue   struct{}            // output has paused
	attachDue struct{ token uint64 }
	endDue    struct{} // the client had its time to read the end
	// goOn is from whoever was given a function by later: what the connection has waited for has happened.
	goOn struct {
		with func(*connection, actor.Context)
	}
)

// Those who send these messages may end after the actor.
func (ended) IgnoreDeadLetterLogging() {}
func (goOn) IgnoreDeadLetterLogging()  {}

// later returns a function that has the actor go on with do. Any goroutine may call the function.
func (c *connection) later(ctx actor.Context, do func(*connection, actor.Context)) func() {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return func() { root.Send(self, goOn{do}) }
}

const (
	// deliveryBytes is how much output a process may send in a turn.
	deliveryBytes = 128 << 10
	// attachTime is how long a session may take to answer.
	attachTime = 10 * time.Second
	// endTime is how long a client that has lost its session may read nothing before the connection is cut. After the end of the
	// client's input, unanswered requests have the same time.
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

// connection is the actor of a transport connection. The actor translates between the wire and the
// messages of sessions and processes, and holds output back while the client does not read.
// Everything owned by the actor may be lost with the connection.
type connection struct {
	// Fixed at spawn.
	env    *env.Env
	table  *Table
	troupe *actor.PID
	conn   message.Conn
	about  identity.About
	writer *writer
	admit  *admission
	memory *budget.Account // for requests and answers
	name   string          // of the actor; set by start
	born   time.Time       // set by start, zero once the end is recorded

	pongs pongs // shared with the reader

	// Owned by Receive.
	stage      stage
	attachment // handshake.go: to which session, and as whom
	requests   // requests.go: what has no answer

	files    *fileCalls          // files.go; nil: there was none
	http     *httpCalls          // http.go; nil: there was none
	programs map[string]*Program // programs.go: by the id of the actor, until the writer has the end; nil: there was none
	kept     any                 // of the rows of another package: see Kept

	streams map[string]*stream // output.go: by process id
	window  window.Window[*stream]
	news    news     // news.go: of groups
	watch   watching // watch.go: of all sessions

	ending // end.go
}

// New makes the actor of a connection, whose client may send the methods of t.
func New(e *env.Env, t *Table, troupe *actor.PID, m message.Connect) *actor.Props {
	return e.Props(func() actor.Actor { return connectionOf(e, t, troupe, m) }, env.Escalated, actor.WithSupervisor(e.StopAtOnce))
}

func connectionOf(e *env.Env, t *Table, troupe *actor.PID, m message.Connect) *connection {
	c := &connection{
		env:      e,
		table:    t,
		troupe:   troupe,
		conn:     m.Conn,
		about:    m.About,
		requests: requests{pending: make(map[uint64]pending), starting: make(map[string]*start)},
		streams:  make(map[string]*stream),
		window:   window.New[*stream](e.Window),
	}
	if id := m.About.Identity; id.Guest != nil {
		c.guest = id.Name
	}
	c.memory = e.ClientBudget.Account()
	c.admit = newAdmission(e.MaxPending, c.memory)
	return c
}

// Receive is the table of contents of the actor.
func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: ending is harmless twice
		c.end()
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes earlier messages of its sender; Gone does not
	case message.Gone:
		c.actorGone(ctx, m.Who)
	case env.Crashed:
		panic(m)
	case ended:
		c.ended(ctx, m.err)
	case endDue:
		ctx.Stop(ctx.Self())
	case unread, stallDue:
		c.receiveStall(ctx, m)

	// The client's requests, and the answers to them.
	case inbound:
		c.inbound(ctx, m)
	case message.Reply:
		c.reply(ctx, m)
	case fileDone:
		c.fileDone(ctx, m)
	case httpAnswered:
		c.httpAnswered(ctx, m)
	case httpDelta:
		c.httpDelta(ctx, m)
	case goOn:
		m.with(c, ctx)

	// The session.
	case message.Attached:
		c.attached(ctx, m)
	case attachDue:
		c.attachDue(ctx, m)
	case message.WatchPiece:
		c.watchPiece(ctx, m)
	case message.ProcessStarting, message.ProcessAdded, message.ProcessRemoved, message.GroupChanged, message.Expiring, message.Evicted:
		c.receiveNews(ctx, m)

	// Output, and how far the client has read.
	case message.Delivery:
		c.delivery(ctx, m)
	case message.Parcel:
		c.parcel(ctx, m)
	case message.Resubscribe:
		c.resubscribe(ctx, m)
	case message.Refused:
		c.violation(ctx, "resumeFrom: "+m.Err.Message)
	case ponged:
		c.ponged(ctx)
	case pingDue:
		c.ping(c.window.Due())

	default:
		c.env.Unexpected(ctx, ctx.Self().GetId(), m)
	}
}

// start starts the two goroutines of the connection.
func (c *connection) start(ctx actor.Context) {
	self, root, s := ctx.Self(), ctx.ActorSystem().Root, c.env
	c.name, c.born = message.LastName(self), time.Now()
	c.recordAccepted()
	fault := c.faultOf(self)
	pongs := &c.pongs
	pong := func(serial uint64) {
		if pongs.take(serial) {
			root.Send(self, ponged{})
		}
	}
	c.conn.SetPongHandler(func(payload []byte) {
		if len(payload) == 8 {
			serial := binary.BigEndian.Uint64(payload)
			if serial == pongs.asked.Load() && serial > pongs.newest.Load() {
				s.Meters.Pong.Since(time.Unix(0, c.writer.pinged.Load())).End()
			}
			pong(serial)
		}
	})
	c.limit(protocol.MaxGreeting)
	c.writer = newWriter(c.conn, c.admit, &s.Meters, pong)
	c.writer.most = c.about.MaxMessage
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
		incoming := incoming{table: c.table, origin: originOf(conn.RemoteAddr())}
		for admit.wait(full) {
			frame, err := conn.ReadMessage()
			if err != nil {
				root.Send(self, ended{err})
				return
			}
			read := time.Now()
			if incoming.codec == nil {
				incoming.codec = protocol.CodecOf(conn.Subprotocol())
				w.codec = incoming.codec // nothing is written before the first frame has come
			}
			in := incoming.decode(frame)
			in.count(&s.Meters, len(frame), read)
			admit.take(in.weight)
			root.Send(self, in)
		}
	})
}

// limit lets messages of the client have at most so many bytes from now on; 0: as many as the
// transport allows.
func (c *connection) limit(bytes int) {
	if socket, ok := c.conn.(message.Socket); ok {
		socket.SetMaxMessage(bytes)
	}
}

// faultOf returns a function that each goroutine of the connection calls with its name, so that tests
// may stop the goroutine.
func (c *connection) faultOf(self *actor.PID) func(goroutine string) {
	fault := c.env.Faults.Actor()
	if fault == nil {
		return func(string) {}
	}
	return func(goroutine string) { fault(self, goroutine) }
}

func (c *connection) inbound(ctx actor.Context, in inbound) {
	switch {
	case c.stage == evicted:
		c.admit.release(in.weight)
	case c.stage == attaching:
		c.arriving.held = append(c.arriving.held, in) // bounded by the admission
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

func (c *connection) notification(ctx actor.Context, in inbound) {
	switch m := in.entry; {
	case !m.Notification:
		c.violation(ctx, "unknown notification "+wireerr.Clip(in.method))
	case in.err != nil:
		c.violation(ctx, in.method+": "+in.err.Message)
	default:
		m.in(in.wire).handle(Request{c, ctx, in})
	}
}

// owns reports whether the client is the owner of the session.
func (c *connection) owns() bool { return c.role == protocol.RoleOwner }

func (c *connection) notify(method string, params any) {
	c.writer.control(outgoing{method: method, body: params})
}
