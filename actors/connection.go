package actors

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Conn is what a troupe needs of a transport connection. Package transport has
// several.
type Conn interface {
	// ReadMessage returns the next message, which is valid until the next call.
	ReadMessage() ([]byte, error)
	// WriteMessage writes one message. Ping sends the payload behind it, to come
	// back to the handler of pongs; its error is an errors.ErrUnsupported if the
	// transport has none. One goroutine calls both.
	WriteMessage(msg []byte, binary bool) error
	Ping(payload []byte) error
	// SetPongHandler is called before the first ReadMessage; the handler runs
	// within ReadMessage.
	SetPongHandler(func(payload []byte))
	// Close ends the connection, if it can with a Close frame (RFC 6455 §7.4).
	// Any goroutine, any number of times.
	Close(code int, reason string) error
	RemoteAddr() string
	Subprotocol() string
}

// Codes of Close frames (RFC 6455 §7.4.1; from 4000 on ours).
const (
	closeNormal    = 1000
	closeGoingAway = 1001 // the server shuts down
	closeProtocol  = 1002
	closePolicy    = 1008
	closeInternal  = 1011
	closeEvicted   = 4001 // the session was taken over, or has ended
)

// Messages to a connection actor, beside those of messages.go.
type (
	ended     struct{ err error } // reader or writer: the transport is gone
	ponged    struct{}            // reader; at most one is on its way
	pingDue   struct{}            // output has paused
	attachDue struct{ token uint64 }
	stallDue  struct{ answered uint64 } // the reader has waited for admission since then
	endDue    struct{}                  // the client had its time to read the end
)

const (
	// deliveryBytes is how much output one process may send before another's turn.
	deliveryBytes = 128 << 10
	// pingPause is how long output must pause before a Ping asks what was read.
	pingPause = 20 * time.Millisecond
	// attachTime is how long a session may take to answer.
	attachTime = 10 * time.Second
	// stallTime is how long a connection is not read because none of its requests
	// is answered: its Pongs are not read either, so it is then closed.
	stallTime = 10 * time.Second
	// endTime is how long an evicted client may take to read why.
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
	*shared
	troupe *actor.PID
	conn   Conn
	codec  protocol.Codec
	writer *writer
	admit  *admission

	// Shared with the reader.
	pong        atomic.Uint64 // serial of the newest Pong
	pongPending atomic.Bool   // a ponged is on its way

	// Owned by Receive.
	stage     stage
	init      *protocol.InitializeParams
	initReq   pending   // initialize, while attaching
	held      []inbound // while attaching
	session   *actor.PID
	sessionID string
	observer  bool
	acks      bool // the client acknowledges by session/ack

	token    uint64
	pending  map[uint64]pending   // requests without an answer
	starting map[string][]inbound // by process id: requests behind a process/start

	streams map[string]*stream // by process id
	queue   []*stream          // those with a delivery, in turn
	sent    []sentMark         // output that no Pong has answered yet
	unread  int64              // bytes of it
	unasked int64              // bytes of it that no Ping has asked for
	serial  uint64             // of the next Ping
	pausing bool               // a pingDue is on its way
}

// pending is a request without an answer.
type pending struct {
	id      protocol.ID
	weight  int
	process string   // process id; "" none
	start   bool     // process/start
	list    *listing // it is one part of a process/list
}

// listing gathers the answers for a process/list.
type listing struct {
	id     protocol.ID
	weight int
	left   int // processes that have not answered
	infos  []protocol.ProcessInfo
	err    *protocol.Error // one could not
}

// stream is the output of one process on this connection.
type stream struct {
	ref     ProcessRef
	shown   bool      // it was subscribed to
	placed  bool      // last counts
	begin   uint64    // seq after which it began: all that follows, up to last, was passed on
	last    uint64    // seq of the last entry passed to the writer
	closed  bool      // that was process/closed
	waiting *Delivery // for the window
}

// sentMark is output that was passed to the writer before Ping serial. Of a stream
// it counts from where that began: an Ack that is lost is made good by the next.
type sentMark struct {
	serial   uint64
	process  *actor.PID
	from, to uint64
	bytes    int64
}

func newConnection(s *shared, troupe *actor.PID, conn Conn) *connection {
	return &connection{
		shared:   s,
		troupe:   troupe,
		conn:     conn,
		codec:    protocol.JSON,
		admit:    newAdmission(s.MaxPending),
		pending:  make(map[uint64]pending),
		starting: make(map[string][]inbound),
		streams:  make(map[string]*stream),
		serial:   1,
	}
}

func (c *connection) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: ending is harmless twice
		c.end()
	case *actor.Terminated:
		ctx.Send(ctx.Self(), gone{m.Who}) // behind what it had said: this one overtakes
	case gone:
		if c.session.Equal(m.who) {
			c.evicted(ctx, "the session has ended")
		}
	case crashed:
		panic(m)
	case ended:
		c.Log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "err", m.err)
		ctx.Stop(ctx.Self())
	case endDue:
		ctx.Stop(ctx.Self())

	case inbound:
		c.inbound(ctx, m)
	case Attached:
		c.attached(ctx, m)
	case Reply:
		c.reply(ctx, m)
	case Delivery:
		c.delivery(ctx, m)
	case Resubscribe:
		c.resubscribe(ctx, m)
	case ProcessAdded:
		c.show(ctx, m.Process, Subscribe{Owner: !c.observer})
	case ProcessRemoved:
		c.removed(ctx, m)
	case Evicted:
		c.evicted(ctx, m.Reason)
	case Expiring:
		c.notify(protocol.NotifySessionExpiring, protocol.SessionExpiringNotification{InMs: m.InMs})

	case ponged:
		c.ponged(ctx)
	case pingDue:
		c.pausing = false
		c.ping()
	case attachDue:
		if c.stage == attaching && m.token == c.token {
			c.attachFailed(ctx, protocol.Errorf(protocol.CodeInternal, "the session did not answer within %v, try again", attachTime))
		}
	case stallDue:
		if c.admit.stalledAt(m.answered) {
			c.closeFor(ctx, closePolicy, "too many requests without an answer, and none has been answered for "+stallTime.String()+": wait for answers before sending more")
		}
	case *actor.DeadLetterResponse:
		if c.stage == attaching && c.init.ResumeSessionID != nil {
			c.attachFailed(ctx, unknownSession(*c.init.ResumeSessionID))
		}
	}
}

// start starts the two goroutines of the connection.
func (c *connection) start(ctx actor.Context) {
	self, root, log := ctx.Self(), ctx.ActorSystem().Root, c.Log
	fault := func(string) {}
	if c.fault != nil {
		fault = func(goroutine string) { c.fault(self, goroutine) }
	}
	pong := func(serial uint64) {
		if serial <= c.pong.Load() { // one goroutine calls this: no other stores
			return
		}
		c.pong.Store(serial)
		if c.pongPending.CompareAndSwap(false, true) {
			root.Send(self, ponged{})
		}
	}
	c.conn.SetPongHandler(func(payload []byte) {
		if len(payload) == 8 {
			pong(binary.BigEndian.Uint64(payload))
		}
	})
	c.writer = newWriter(c.conn, c.codec, c.admit, pong)
	w, conn, codec, admit := c.writer, c.conn, c.codec, c.admit
	run(log, root, self, "writer", func() {
		fault("writer")
		if err := w.run(); err != nil {
			root.Send(self, ended{err})
		}
	})
	run(log, root, self, "reader", func() {
		fault("reader")
		stalled := func(answered uint64) {
			time.AfterFunc(stallTime, func() { root.Send(self, stallDue{answered}) })
		}
		for admit.wait(stalled) {
			frame, err := conn.ReadMessage()
			if err != nil {
				root.Send(self, ended{err})
				return
			}
			admit.take(weightOf(frame))
			root.Send(self, decode(codec, frame))
		}
	})
}

func (c *connection) end() {
	c.admit.close()
	if c.writer != nil {
		c.writer.stop()
	}
	conn := c.conn
	go conn.Close(closeGoingAway, "") // it may wait for the peer a little
}

// closeFor ends the connection once what is queued has been written.
func (c *connection) closeFor(ctx actor.Context, code int, reason string) {
	c.stage = evicted
	c.writer.close(code, reason)
	after(ctx, endTime, endDue{})
}

func (c *connection) evicted(ctx actor.Context, reason string) {
	if c.stage == evicted {
		return
	}
	// The last message: behind the output that is here already, window or not.
	c.flush(ctx, math.MaxInt64)
	c.writer.output(outgoing{method: protocol.NotifySessionEvicted, body: protocol.SessionEvictedNotification{Reason: reason}})
	code := closeEvicted
	switch reason {
	case reasonShutdown:
		code = closeGoingAway
	case reasonClosed:
		code = closeNormal
	}
	c.closeFor(ctx, code, reason)
}

// Handshake

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
	c.Log.Warn("protocol violation", "remote", c.conn.RemoteAddr(), "session", c.sessionID, "what", what)
	c.closeFor(ctx, closeProtocol, what)
}

func (c *connection) notification(ctx actor.Context, in inbound) {
	switch {
	case in.method == protocol.MethodInitialized && c.stage == opened:
		c.violation(ctx, "initialized before a successful initialize")
	case in.method == protocol.MethodInitialized:
		if c.stage == attached {
			c.stage = ready
			c.replay(ctx)
		}
	case in.method == protocol.MethodSessionAck && in.err == nil:
		if c.acks && !c.observer {
			for id, seq := range in.params.(protocol.SessionAckParams).Processes {
				if s := c.streams[id]; s != nil {
					ctx.Request(s.ref.PID, Ack{0, seq})
				}
			}
		}
	case in.method == protocol.MethodSessionAck:
		c.violation(ctx, "session/ack: "+in.err.Message)
	default:
		c.violation(ctx, "unknown notification "+clip(in.method))
	}
}

// clip makes a client's text fit for an error or a Close frame.
func clip(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

func (c *connection) attach(ctx actor.Context, in inbound) {
	p := in.params.(protocol.InitializeParams)
	m := Attach{Role: p.Role, Takeover: p.Takeover, Options: p.Session}
	if p.ResumeSessionID != nil {
		if m.SessionID = *p.ResumeSessionID; m.SessionID == "" {
			c.fail(in, unknownSession(""))
			return
		}
	}
	c.token++
	m.Token = c.token
	c.stage, c.init, c.initReq = attaching, &p, pending{id: in.id, weight: in.weight}
	ctx.Request(c.troupe, m)
	after(ctx, attachTime, attachDue{c.token})
}

func (c *connection) attachFailed(ctx actor.Context, err *protocol.Error) {
	c.stage = opened
	c.answer(c.initReq, nil, err)
	c.replayHeld(ctx)
}

func (c *connection) replayHeld(ctx actor.Context) {
	held := c.held
	c.held = nil
	for _, in := range held {
		c.inbound(ctx, in)
	}
}

func (c *connection) attached(ctx actor.Context, m Attached) {
	if c.stage != attaching || m.Token != c.token {
		// Too late: the client was told that it failed. Nobody watches this session
		// for it; ending is what detaches.
		c.closeFor(ctx, closeInternal, "attached too late, resume again")
		return
	}
	c.stage = attached
	c.session, c.sessionID = m.Session, m.SessionID
	c.observer = m.Role == protocol.RoleObserver
	c.acks = c.init.Capabilities.Ack
	c.writer.gaps = c.init.Capabilities.Gap
	ctx.Watch(m.Session)
	c.answer(c.initReq, protocol.InitializeResult{
		SessionID:       m.SessionID,
		EnvironmentInfo: c.info,
		Server:          protocol.ServerInfo{Name: "troupe", Version: c.Version},
		ProtocolVersion: protocol.Version,
		Limits:          c.limits(),
	}, nil)
	for _, p := range m.Processes {
		if _, ok := c.init.ResumeFrom[p.ID]; ok {
			c.streams[p.ID] = &stream{ref: p} // replayed after initialized
		} else {
			c.show(ctx, p, Subscribe{Now: true, Owner: !c.observer})
		}
	}
	c.replayHeld(ctx)
}

// replay sends what the client has missed of the processes it named.
func (c *connection) replay(ctx actor.Context) {
	for id, after := range c.init.ResumeFrom {
		if s := c.streams[id]; s != nil && !s.shown {
			c.show(ctx, s.ref, Subscribe{After: after, Owner: !c.observer})
		}
	}
	c.init = nil
}

// Requests

func (c *connection) request(ctx actor.Context, in inbound) {
	family, known := familyOf(in.method)
	switch {
	case in.err != nil: // of the frame or its params: before the order of the handshake
		c.fail(in, in.err)
	case in.method == protocol.MethodInitialize && c.stage == opened:
		c.attach(ctx, in)
	case in.method == protocol.MethodInitialize:
		c.fail(in, protocol.Errorf(protocol.CodeInvalidRequest, "initialize may only be sent once per connection"))
	case family == "" || in.method == protocol.MethodInitialized || in.method == protocol.MethodSessionAck:
		c.fail(in, protocol.Errorf(protocol.CodeMethodNotFound, "unknown method %q", clip(in.method)))
	case c.stage == opened:
		c.fail(in, protocol.Errorf(protocol.CodeInvalidRequest, "client must call initialize before using %s methods", family))
	case c.stage == attached:
		c.fail(in, protocol.Errorf(protocol.CodeInvalidRequest, "client must send initialized before using %s methods", family))
	case !known:
		c.fail(in, protocol.Errorf(protocol.CodeMethodNotFound, "method %q is not implemented by this server", clip(in.method)))
	case c.observer && changes(in):
		c.fail(in, protocol.Errorf(protocol.CodeObserver, "an observer changes nothing: %s is for the session's owner", in.method))
	default:
		c.dispatch(ctx, in)
	}
}

func (c *connection) dispatch(ctx actor.Context, in inbound) {
	switch p := in.params.(type) {
	case environmentInfoRequest:
		c.respond(in, c.info)
	case environmentStatusRequest:
		c.respond(in, protocol.EnvironmentStatusResult{Status: "ready"})
	case SessionInfoRequest:
		c.ask(ctx, c.session, in, pending{})
	case protocol.SessionCloseParams:
		if p.SessionID != nil && *p.SessionID != c.sessionID {
			c.fail(in, protocol.Errorf(protocol.CodeInvalidRequest, "session/close is for the connection's own session %s, not for %s: resume that one first", c.sessionID, *p.SessionID))
			return
		}
		c.ask(ctx, c.session, in, pending{})
	case listRequest:
		c.list(ctx, in)
	default:
		c.process(ctx, in)
	}
}

// process passes on a request about one process. What comes behind a start that
// has no answer yet waits for it.
func (c *connection) process(ctx actor.Context, in inbound) {
	id := in.process()
	if held, ok := c.starting[id]; ok {
		c.starting[id] = append(held, in) // bounded by the admission
		return
	}
	if _, ok := in.params.(protocol.ProcessStartParams); ok {
		c.starting[id] = nil
		c.ask(ctx, c.session, in, pending{process: id, start: true})
		return
	}
	if s := c.streams[id]; s != nil {
		c.ask(ctx, s.ref.PID, in, pending{process: id})
		return
	}
	switch in.params.(type) { // as the peer answers for a process that it does not know
	case protocol.ProcessWriteParams:
		c.respond(in, protocol.ProcessWriteResult{Status: protocol.WriteUnknownProcess})
	case protocol.ProcessSignalParams:
		c.respond(in, protocol.Empty{})
	case protocol.ProcessTerminateParams:
		c.respond(in, protocol.ProcessTerminateResult{Running: false})
	default:
		c.fail(in, unknownProcess(id))
	}
}

func (c *connection) ask(ctx actor.Context, pid *actor.PID, in inbound, p pending) {
	c.token++
	p.id, p.weight = in.id, in.weight
	c.pending[c.token] = p
	ctx.Request(pid, Request{c.token, in.params})
}

func (c *connection) list(ctx actor.Context, in inbound) {
	l := &listing{id: in.id, weight: in.weight, left: len(c.streams), infos: []protocol.ProcessInfo{}}
	for id, s := range c.streams {
		c.token++
		c.pending[c.token] = pending{process: id, list: l}
		ctx.Request(s.ref.PID, Request{c.token, DescribeRequest{}})
	}
	c.listed(l)
}

// listed answers a process/list once every process has described itself.
func (c *connection) listed(l *listing) {
	if l.left > 0 {
		return
	}
	slices.SortFunc(l.infos, func(a, b protocol.ProcessInfo) int { return strings.Compare(a.ProcessID, b.ProcessID) })
	c.answer(pending{id: l.id, weight: l.weight}, protocol.ProcessListResult{Processes: l.infos}, l.err)
}

func (c *connection) reply(ctx actor.Context, m Reply) {
	if c.stage == attaching && m.Token == c.token && m.Err != nil {
		c.attachFailed(ctx, m.Err)
		return
	}
	p, ok := c.pending[m.Token]
	if !ok {
		return // it was answered when the process went
	}
	delete(c.pending, m.Token)
	if p.list != nil {
		if info, ok := m.Result.(protocol.ProcessInfo); ok {
			p.list.infos = append(p.list.infos, info)
		} else if m.Err != nil && m.Err.Code == protocol.CodeInternal {
			p.list.err = m.Err
		}
		p.list.left--
		c.listed(p.list)
		return
	}
	switch result := m.Result.(type) {
	case Started:
		c.answer(p, result.ProcessStartResult, nil)
		if s := c.streams[p.process]; s == nil || !s.ref.PID.Equal(result.Process.PID) {
			c.show(ctx, result.Process, Subscribe{Owner: !c.observer})
		}
	case protocol.ProcessReadResult:
		c.answer(p, result, nil)
		if s := c.streams[p.process]; s != nil && m.To > m.From {
			n := int64(0)
			for i := range result.Chunks {
				n += int64(len(result.Chunks[i].Chunk))
			}
			c.mark(ctx, s, m.From, m.To, n)
		}
	default:
		c.answer(p, m.Result, m.Err)
	}
	if p.start {
		held := c.starting[p.process]
		delete(c.starting, p.process)
		for _, in := range held {
			c.inbound(ctx, in)
		}
	}
}

func (c *connection) answer(p pending, result any, err *protocol.Error) {
	c.writer.control(outgoing{id: p.id, weight: p.weight, body: result, err: err})
}

func (c *connection) respond(in inbound, result any) {
	c.answer(pending{id: in.id, weight: in.weight}, result, nil)
}

func (c *connection) fail(in inbound, err *protocol.Error) {
	c.answer(pending{id: in.id, weight: in.weight}, nil, err)
}

func (c *connection) notify(method string, params any) {
	c.writer.control(outgoing{method: method, body: params})
}

// Output

// show subscribes to a process, from where m says, with a standing Pull.
func (c *connection) show(ctx actor.Context, p ProcessRef, m Subscribe) {
	if c.stage == evicted {
		return
	}
	s := &stream{ref: p, shown: true, placed: !m.Now, begin: m.After, last: m.After}
	if old := c.streams[p.ID]; old != nil {
		old.waiting = nil // it comes again
		if m.Resumed && old.placed {
			s.begin = old.begin
		}
	}
	c.streams[p.ID] = s
	m.Pull = deliveryBytes
	ctx.Request(p.PID, m)
}

func (c *connection) delivery(ctx actor.Context, m Delivery) {
	s := c.streams[m.Process]
	if s == nil || !s.ref.PID.Equal(ctx.Sender()) || c.stage == evicted {
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
		c.resubscribe(ctx, Resubscribe{Process: s.ref, After: s.last})
		return
	}
	s.waiting = &m
	c.queue = append(c.queue, s)
	c.flush(ctx, c.Window)
}

// flush passes deliveries to the writer, each process in turn, while the client
// has less than window unread.
func (c *connection) flush(ctx actor.Context, window int64) {
	for len(c.queue) > 0 && c.unread < window {
		s := c.queue[0]
		c.queue = c.queue[1:]
		if s.waiting == nil {
			continue // it was subscribed to anew, or has gone
		}
		c.pass(ctx, s)
		ctx.Request(s.ref.PID, Pull{deliveryBytes})
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
		n += entryBytes + int64(len(d.Entries[i].Data))
		s.closed = d.Entries[i].Kind == outlog.Closed
	}
	c.writer.output(outgoing{delivery: d})
	c.mark(ctx, s, s.begin, s.last, n)
}

// entryBytes is what a message costs the window beside its output, in bytes.
const entryBytes = 100

// mark remembers output that was passed to the writer, until a Pong says that it
// has been read.
func (c *connection) mark(ctx actor.Context, s *stream, from, to uint64, n int64) {
	c.unread += n
	c.unasked += n
	if k := len(c.sent) - 1; k >= 0 && c.sent[k].serial == c.serial && c.sent[k].process == s.ref.PID && c.sent[k].from == from {
		c.sent[k].to = max(c.sent[k].to, to)
		c.sent[k].bytes += n
	} else {
		c.sent = append(c.sent, sentMark{c.serial, s.ref.PID, from, to, n})
	}
	switch {
	case c.unasked >= c.Window/8:
		c.ping()
	case !c.pausing:
		c.pausing = true
		after(ctx, pingPause, pingDue{})
	}
}

// ping asks how far the client has read: its Pong to what follows all that was
// passed to the writer says that it has read all of that (RFC 6455 §5.5.3).
func (c *connection) ping() {
	if n := len(c.sent); n == 0 || c.sent[n-1].serial != c.serial {
		return
	}
	c.writer.output(outgoing{ping: c.serial})
	c.serial++
	c.unasked = 0
}

func (c *connection) ponged(ctx actor.Context) {
	c.pongPending.Store(false)
	serial := c.pong.Load()
	if serial >= c.serial {
		return // we never sent that
	}
	n := 0
	for n < len(c.sent) && c.sent[n].serial <= serial {
		m := &c.sent[n]
		c.unread -= m.bytes
		if !c.observer && !c.acks {
			ctx.Request(m.process, Ack{m.from, m.to})
		}
		n++
	}
	if c.sent = c.sent[n:]; len(c.sent) == 0 {
		c.sent = nil
	}
	c.flush(ctx, c.Window)
}

// resubscribe goes on behind what was passed to the writer.
func (c *connection) resubscribe(ctx actor.Context, m Resubscribe) {
	s := c.streams[m.Process.ID]
	if s == nil || s.closed || !s.ref.PID.Equal(m.Process.PID) {
		return
	}
	last := m.After
	if s.placed {
		last = s.last
	}
	c.show(ctx, s.ref, Subscribe{After: last, Owner: !c.observer, Resumed: true})
}

// removed forgets a process, and answers what can no longer be answered.
func (c *connection) removed(ctx actor.Context, m ProcessRemoved) {
	s := c.streams[m.ID]
	if s == nil {
		return
	}
	delete(c.streams, m.ID)
	if s.waiting != nil {
		c.pass(ctx, s) // with or without room: no more will come
	}
	if m.Reason != "" && !s.closed {
		// Its actor is gone, and the end of its log with it: say so, and close. In the
		// lane of its output, which comes before.
		c.writer.output(outgoing{method: protocol.NotifyEvicted, body: protocol.EvictedNotification{ProcessID: m.ID, Seq: s.last + 1, Reason: m.Reason}})
		c.writer.output(outgoing{method: protocol.NotifyClosed, body: protocol.ClosedNotification{ProcessID: m.ID, Seq: s.last + 2}})
	}
	for token, p := range c.pending {
		if p.process == m.ID && !p.start {
			c.reply(ctx, Reply{Token: token, Err: unknownProcess(m.ID)})
		}
	}
}
