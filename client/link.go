package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 2 * time.Second

	// attemptTimeout is for one dial and handshake; the peer's client uses the same time. Two of three
	// attempts to resume get only shortTimeout: an attempt begun while the network was down may hang
	// after the network is back. The third attempt succeeds also if the server is slow.
	attemptTimeout = 10 * time.Second
	shortTimeout   = 3 * time.Second

	// firstCuts is how many cuts Dial takes before it gives up.
	firstCuts = 3

	ackEvery = 64 << 10 // bytes, or a quarter of the retention if less
	ackAfter = 20 * time.Millisecond

	// lastWords is how long the reader may still read the server's last messages after the server closed its side.
	lastWords = 2 * time.Second

	// A larger message buffer is not kept for reuse.
	keptBuffer = 256 << 10
)

// A link is a connection with the codec for its messages.
type link struct {
	transport.Conn
	wire  protocol.Codec
	token string // for initialize; "": none, or a header had the token
}

// newLink returns conn with the codec that both sides agreed on.
func newLink(conn transport.Conn) link {
	return link{Conn: conn, wire: protocol.CodecOf(conn.Subprotocol())}
}

func (l link) send(msg []byte) error { return l.WriteMessage(msg, l.wire.Binary()) }

// sendNow sends msg and flushes.
func (l link) sendNow(msg []byte) error {
	if err := l.send(msg); err != nil {
		return err
	}
	return l.Flush()
}

// run keeps the session attached until the client ends. run is also the reader goroutine: the client
// reads a single connection at a time.
func (c *Client) run(conn link) {
	defer close(c.finished)
	var pace pace
	for {
		began := time.Now()
		lost := c.serve(conn)
		if time.Since(began) >= min(attemptTimeout, c.opts.ReconnectFor) { // an idle connection makes no progress
			pace.since = time.Time{}
		}
		err := c.after(lost)
		if err == nil {
			c.lost(lost)
			conn, err = c.resume(&pace, lost)
		}
		if err != nil {
			c.end(err)
			if err == ErrClosed {
				settle(conn)
			}
			if c.opts.Ended != nil {
				c.opts.Ended(err)
			}
			return
		}
		c.opts.Log.Info("session resumed", "session", c.SessionID())
		if c.opts.Resumed != nil {
			c.opts.Resumed()
		}
	}
}

// settle waits until the server has closed conn, too, at most for transport.CloseWait. If a program exited at once after Close, the kernel
// could reset the connection, and the server would take a client that has left for one that was lost.
func settle(conn link) {
	if s, ok := conn.Conn.(interface{ Settled() <-chan struct{} }); ok {
		select {
		case <-s.Settled():
		case <-time.After(transport.CloseWait):
		}
	}
}

func (c *Client) lost(why error) {
	c.opts.Log.Info("connection lost", "session", c.SessionID(), "err", why)
	if c.opts.Lost != nil {
		c.opts.Lost(why)
	}
}

// after decides what follows the end of a connection: the error with which the client ends; nil: another connection.
func (c *Client) after(lost error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil, c.ended:
		return ErrClosed
	case c.evicted != nil:
		return c.evicted
	case final(lost) != nil:
		return final(lost)
	case c.opts.ReconnectFor < 0:
		return errorf("connection lost: %w", lost)
	}
	return nil
}

// closeEvicted is the close code after which the session is out of reach (PROTOCOL.md).
const closeEvicted = 4001

// final returns why another connection is pointless after a Close by the server, or nil.
func final(lost error) error {
	closed, ok := errors.AsType[*transport.CloseError](lost)
	switch {
	case errors.Is(lost, ErrSessionGone): // says InProcess
		return lost
	case !ok:
		return nil
	case closed.Code == closeEvicted: // the connection ended before session/evicted came
		return fmt.Errorf("%w: %w", ErrSessionGone, lost)
	case closed.Code == transport.CloseProtocolError && strings.HasPrefix(closed.Reason, "resumeFrom: "):
		return fmt.Errorf("%w: while the connection was lost, another process got its id: %w", ErrProcessGone, lost)
	case closed.Code == transport.CloseProtocolError:
		return errorf("the server refuses the protocol of this client; use matching versions of client and server: %w", lost)
	}
	return nil
}

// end fails every pending call and every process. Output already received is still delivered.
func (c *Client) end(err error) {
	c.mu.Lock()
	c.err = err
	if c.closing { // the end of the session is the end that CloseSession wants
		c.err = ErrClosed
	}
	calls := slices.Collect(maps.Values(c.pending))
	clear(c.pending)
	c.giveUp(c.err)
	c.mu.Unlock()
	for _, k := range calls {
		if k.method == protocol.MethodSessionClose {
			k.end(err)
		} else {
			k.end(c.err)
		}
	}
	c.cancel()
}

// giveUp fails every process with err. If the caller has closed the client, the caller may no longer read
// the pipes, and Wait must not wait for a reader.
func (c *Client) giveUp(err error) {
	for p := range c.unsettled { // settle removes processes
		if err == ErrClosed {
			p.closePipes(err)
		}
		p.fail(err)
	}
}

// A pace says how long to wait before the next attempt to resume, and when to give up. A short connection
// without progress does not reset the pace: otherwise a request that the server answers with a cut
// would be repeated forever.
type pace struct {
	since    time.Time     // time of the cut; zero: the next cut resets the pace
	delay    time.Duration // zero: no delay before the first attempt
	attempts int           // since the cut
}

func (p *pace) reset() { *p = pace{since: time.Now()} }

// next returns the delay now. Each delay is up to twice the previous one, at random between half and
// all of this value.
func (p *pace) next() time.Duration {
	d := p.delay
	p.delay = min(max(firstDelay, 2*d), maxDelay)
	p.attempts++
	return d/2 + rand.N(d/2+1)
}

// timeout returns the time for the attempt that next has announced.
func (p *pace) timeout() time.Duration {
	if p.attempts%3 == 0 {
		return attemptTimeout
	}
	return shortTimeout
}

// first opens or resumes the session requested by Options.
func (c *Client) first(ctx context.Context) (link, error) {
	var pace pace
	pace.reset()
	pace.next()
	for cuts := 0; ; {
		conn, err := c.connect(ctx, attemptTimeout)
		if transport.IsCut(err) && cuts < firstCuts && sleep(ctx, pace.next()) == nil {
			cuts++
			continue
		}
		if !attachedElsewhere(err) {
			return conn, err
		}
		if time.Since(pace.since) >= c.opts.WaitForOwner || sleep(ctx, pace.next()) != nil {
			return link{}, fmt.Errorf("%w; set Takeover to take the session over, WaitForOwner to wait, Control to join it, or Observe to watch", err)
		}
	}
}

// resume attaches the session again after a cut.
func (c *Client) resume(pace *pace, lost error) (link, error) {
	c.mu.Lock()
	if c.progress || pace.since.IsZero() {
		pace.reset()
	}
	c.progress = false
	c.mu.Unlock()
	for err := lost; ; {
		if pace.delay > 0 && time.Since(pace.since) > c.opts.ReconnectFor {
			return link{}, errorf("connection lost (%w) and not resumed within %v: %w", lost, c.opts.ReconnectFor, err)
		}
		in := pace.next()
		if c.opts.Retrying != nil {
			c.opts.Retrying(Retry{pace.attempts, time.Since(pace.since), in, err})
		}
		if sleep(c.ctx, in) != nil {
			return link{}, ErrClosed
		}
		var conn link
		if conn, err = c.connect(c.ctx, pace.timeout()); err == nil {
			return conn, nil
		}
		refused, ok := errors.AsType[*protocol.Error](err)
		switch {
		case c.ctx.Err() != nil:
			return link{}, ErrClosed
		case ok && !attachedElsewhere(err) && refused.Code != protocol.CodeInternal, unauthorized(err):
			return link{}, err
		case final(err) != nil:
			return link{}, final(err)
		}
		c.opts.Log.Debug("resume failed", "session", c.SessionID(), "err", err)
	}
}

// attachedElsewhere reports whether err is a refusal that may pass: the server has not noticed yet that
// the other connection is dead (exec-server wire §7).
func attachedElsewhere(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Code == protocol.CodeAlreadyAttached
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect makes a single attempt to dial and initialize.
func (c *Client) connect(ctx context.Context, timeout time.Duration) (link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.dialAside(ctx)
	if err != nil {
		return link{}, errorf("%w", asUnauthorized(err))
	}
	unblock := context.AfterFunc(ctx, func() { conn.Close(1001, "handshake timed out") })
	err = c.handshake(conn)
	if !unblock() {
		err = errorf("initialize: no answer: %w", context.Cause(ctx))
	}
	if err != nil {
		conn.Close(1000, "")
		return link{}, err
	}
	return conn, nil
}

// dialAside is dial, and returns when ctx is done even if a function of the caller, Dialer or Token, goes
// on. A connection that comes later is closed.
func (c *Client) dialAside(ctx context.Context) (link, error) {
	type result struct {
		conn link
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, err := c.dial(ctx)
		dialed <- result{conn, err}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-dialed; r.err == nil {
				r.conn.Close(transport.CloseGoingAway, "the client no longer waits for this connection")
			}
		}()
		return link{}, fmt.Errorf("dial: %w", context.Cause(ctx))
	}
}

// dial opens a connection, and shows the server the credential of this client.
func (c *Client) dial(ctx context.Context) (link, error) {
	if c.opts.Dialer != nil {
		conn, err := c.opts.Dialer(ctx)
		if err != nil {
			return link{}, err
		}
		return newLink(conn), nil
	}
	o := &transport.DialOptions{
		Subprotocols: []string{transport.SubprotocolMsgpack, transport.SubprotocolJSON},
		TLS:          c.opts.TLS,
		Proxy:        c.opts.Proxy,
		PingEvery:    Forever, // the client's pulse pings,
		DeadAfter:    Forever, // and cuts dead connections
	}
	if c.opts.JSON {
		o.Subprotocols = o.Subprotocols[1:]
	}
	var token string
	var err error
	if strings.HasPrefix(c.url, "unix+frames://") {
		token, err = c.opts.credential(c.url)
	} else {
		o.Header, err = c.opts.Header(c.url)
	}
	if err != nil {
		return link{}, err
	}
	conn, err := transport.Dial(ctx, c.url, o)
	if err != nil {
		return link{}, err
	}
	l := newLink(conn)
	l.token = token
	return l, nil
}

// handshake sends initialize and initialized. Only the connecting goroutine uses conn, and before
// initialized the server sends nothing except the answer.
func (c *Client) handshake(conn link) error {
	params := c.introduction()
	params.Token = conn.token
	msg, err := conn.wire.AppendRequest(nil, protocol.IntID(0), protocol.MethodInitialize, params)
	if err != nil {
		return errorf("initialize: %w", err)
	}
	unsent := conn.sendNow(msg)
	frame, err := conn.ReadMessage() // also if nothing was sent: the server may have said why
	if err == nil {
		err = unsent
	}
	if err != nil {
		return errorf("initialize: %w", err)
	}
	m, err := conn.wire.Decode(frame)
	switch {
	case err != nil:
		return errorf("initialize: answer: %w", err)
	case m.Kind == protocol.Failure && params.ResumeSessionID != nil && m.Error.Code == protocol.CodeInvalidRequest:
		return fmt.Errorf("%w: %w", ErrSessionGone, m.Error) // the session id is unknown (exec-server wire §7)
	case m.Kind == protocol.Failure:
		return &requestError{protocol.MethodInitialize, m.Error}
	case m.Kind != protocol.Response || m.ID != protocol.IntID(0):
		return errors.New("client: initialize: answered by another message: this is not a troupe server")
	}
	var hello protocol.InitializeResult
	if err := conn.wire.Unmarshal(m.Payload, &hello); err != nil {
		return errorf("initialize: answer: %w", err)
	}
	c.mu.Lock()
	c.hello = hello
	c.mu.Unlock()
	if msg, err = conn.wire.AppendNotification(msg[:0], protocol.MethodInitialized, protocol.Empty{}); err == nil {
		err = conn.sendNow(msg)
	}
	if err != nil {
		return errorf("initialized: %w", err)
	}
	return nil
}

// introduction returns the parameters of initialize: the session to resume, and the last seq received
// from each process. The reader of the connection before has ended.
func (c *Client) introduction() protocol.InitializeParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := protocol.InitializeParams{
		ClientName:   c.opts.Name,
		Role:         c.opts.role(),
		Capabilities: protocol.Capabilities{Gap: true, Restarted: true, Ready: true, Ack: true, OnlyNamed: true, Times: c.opts.Times},
	}
	switch {
	case c.hello.SessionID != "":
		p.ResumeSessionID, p.Takeover = &c.hello.SessionID, !c.opts.beside()
	case c.opts.Session != "":
		p.ResumeSessionID, p.Takeover = &c.opts.Session, c.opts.Takeover
	default:
		p.Session, p.Placement = c.opts.newSession(), c.opts.Placement
	}
	for id, proc := range c.processes {
		if proc.closed || !proc.started && proc.last > 0 { // of Attach, and the process may have no such seq
			continue
		}
		if proc.named() { // resumeFrom would take any process with the id, without Hold: attach subscribes
			proc.unnamed = true
			continue
		}
		if p.ResumeFrom == nil {
			p.ResumeFrom = make(map[string]uint64)
		}
		p.ResumeFrom[id] = proc.last
		if proc.missed = false; proc.started {
			proc.unnamed = false
		}
	}
	if c.opts.Initialize != nil {
		c.opts.Initialize(&p)
	}
	return p
}

// millis returns d in milliseconds, rounded up; 0 if d is negative.
func millis(d time.Duration) uint64 {
	return uint64(max(0, (d+time.Millisecond-1)/time.Millisecond))
}

// serve reads conn until conn ends, with a writer beside the reader, and returns why conn ended.
func (c *Client) serve(conn link) error {
	defer conn.Close(1000, "")
	unblock := context.AfterFunc(c.ctx, func() {
		conn.Close(1000, "")
		c.mu.Lock() // without the lock, a reader about to wait for room would miss the broadcast
		c.room.Broadcast()
		c.mu.Unlock()
	})
	defer unblock()

	c.attach(conn)
	pulse := c.listen(conn)
	stop, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		c.write(conn, stop)
	}()
	err := c.read(conn, pulse)
	if dead := pulse.end(); dead != nil {
		err = dead
	}
	conn.Close(1000, "") // ends a blocked write
	close(stop)
	<-written

	c.mu.Lock()
	c.conn, c.outbound = nil, nil
	c.endBodies(errOldLink)
	var bound []*call
	for id, k := range c.pending {
		if k.bound != 0 {
			bound = append(bound, k)
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	for _, k := range bound {
		k.end(errOldLink)
	}
	return err
}

// attach makes conn the connection of the session. The client sends every call without an answer again,
// in the original order, and acknowledges all delivered output again: nothing else would make up for a
// lost ack of an idle or closed process.
func (c *Client) attach(conn link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn.Conn
	c.connN++
	for id, last := range c.lastAcks {
		if c.processes[id] != nil { // a later process, and so the server has forgotten the closed one
			delete(c.lastAcks, id)
			continue
		}
		c.acks[id], c.lastAcks[id] = last.seq, lastAck{seq: last.seq}
	}
	var held []*process
	var again []*call // to send once, on this connection
	for _, p := range c.processes {
		if !p.started {
			continue
		}
		if p.acked > 0 {
			c.acks[p.id] = p.acked
		}
		switch {
		case p.closed:
		case p.named():
			again = append(again, p.subscription())
		default:
			held = append(held, p)
		}
	}
	c.ackDue = len(c.acks) > 0
	for id, k := range c.pending {
		if k.once {
			delete(c.pending, id)
		}
	}
	c.outbound = slices.SortedFunc(maps.Values(c.pending), func(a, b *call) int { return int(a.n - b.n) })
	if len(held) > 0 {
		// If a process ended and was forgotten during the cut, the server replays no event of the process.
		// So the client asks for the list of processes.
		var list protocol.ProcessListResult
		k := &call{method: protocol.MethodProcessList, params: protocol.Empty{}, result: &list}
		k.done = func() {
			if k.err == nil {
				c.compare(held, list.Processes)
			}
		}
		again = append(again, k)
	}
	if c.sees != nil {
		again = append(again, c.sees.again())
	}
	for _, k := range again {
		k.once = true
		c.number(k)
		c.outbound = append(c.outbound, k)
	}
}

// compare ends each process in held of which the server has no further events.
func (c *Client) compare(held []*process, list []protocol.ProcessInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range held {
		i := slices.IndexFunc(list, func(info protocol.ProcessInfo) bool { return info.ProcessID == p.id })
		switch {
		case p.closed:
		case i < 0:
			p.fail(ErrProcessGone)
			p.forget()
		default:
			p.compare(list[i])
		}
	}
}

// compare takes what an answer of the server says of p: the end may be in events that p has had before.
func (p *process) compare(info protocol.ProcessInfo) {
	if p.status == nil && info.Status != nil {
		p.status = info.Status
	}
	if info.State == "closed" && info.NextSeq <= p.last+1 {
		p.close()
	}
}

// write sends messages until stop is closed or conn fails.
func (c *Client) write(conn link, stop <-chan struct{}) {
	var buf []byte
	for {
		err := c.askIfDue(conn)
		if err == nil {
			if buf = c.message(conn.wire, buf[:0]); len(buf) > 0 {
				err = conn.send(buf)
			} else {
				err = conn.Flush()
			}
		}
		if err != nil {
			endReading(conn, err, stop)
			return
		}
		if len(buf) > 0 {
			if cap(buf) > keptBuffer {
				buf = nil
			}
			continue
		}
		select {
		case <-c.wake:
		case <-stop:
			return
		}
	}
}

// endReading ends the reader of conn after a failed write. The reader returns the reason. If the server has closed its side, the reader
// has time to read the server's last messages, such as session/evicted. stop is closed at the reader's end.
func endReading(conn link, failed error, stop <-chan struct{}) {
	if errors.Is(failed, syscall.EPIPE) {
		select {
		case <-stop:
		case <-time.After(lastWords):
		}
	}
	conn.Close(1000, "")
}

// message appends the next message to send, and returns an empty slice if there is none. Acks go first,
// because the server waits for them.
func (c *Client) message(wire protocol.Codec, buf []byte) []byte {
	c.mu.Lock()
	if c.hello.Server.Name == "" { // the peer's server ends the connection after a notification that it does not know
		clear(c.acks)
		clear(c.lastAcks)
		c.ackBytes, c.ackDue = 0, false
	}
	if c.ackDue {
		msg, err := wire.AppendNotification(buf, protocol.MethodSessionAck, protocol.SessionAckParams{Processes: c.acks})
		for id, last := range c.lastAcks {
			if c.acks[id] == last.seq {
				c.lastAcks[id] = lastAck{last.seq, c.nextID + 1}
			}
		}
		clear(c.acks)
		c.ackBytes, c.ackDue = 0, false
		if err == nil {
			c.mu.Unlock()
			return msg
		}
		c.opts.Log.Error("session/ack cannot be encoded", "err", err)
	}
	for len(c.outbound) > 0 {
		k := c.outbound[0]
		c.outbound = c.outbound[1:]
		msg, err := wire.AppendRequest(buf, k.id, k.method, k.params)
		if most := c.hello.Limits.MaxMessageBytes; err == nil && most > 0 && int64(len(msg)) > most {
			// The server would cut the connection, and the next connection, too, when the request is
			// repeated.
			err = fmt.Errorf("the request has %d bytes; this server takes at most %d", len(msg), most)
		}
		if err == nil {
			k.sent = true
			k.sends++
			c.mu.Unlock()
			return msg
		}
		delete(c.pending, k.id)
		c.mu.Unlock()
		k.end(&requestError{k.method, err})
		c.mu.Lock()
	}
	c.mu.Unlock()
	return buf[:0]
}

// read handles messages from the server until conn ends or the server breaks the protocol.
func (c *Client) read(conn link, pulse *pulse) error {
	var out protocol.OutputNotification
	for {
		frame, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		pulse.heard.Add(1)
		m, err := conn.wire.Decode(frame)
		if err != nil {
			return errorf("message from the server: %w", err)
		}
		switch m.Kind {
		case protocol.Response, protocol.Failure:
			c.answered(conn.wire, m)
		case protocol.Notification:
			if err := c.notified(conn.wire, m, &out); err != nil {
				return errorf("%s from the server: %w", m.Method, err)
			}
		case protocol.Request:
			// No troupe server sends requests. Other servers send requests only to a client that
			// announced support for them.
			c.opts.Log.Warn("request from the server ignored", "method", m.Method)
		}
	}
}

func (c *Client) answered(wire protocol.Codec, m protocol.Message) {
	c.mu.Lock()
	k := c.pending[m.ID]
	if k == nil || !k.sent {
		c.mu.Unlock()
		if m.Kind == protocol.Failure { // otherwise the call was withdrawn
			c.opts.Log.Warn("failure of no request", "err", m.Error)
		}
		return
	}
	delete(c.pending, m.ID)
	k.on = c.connN
	maps.DeleteFunc(c.lastAcks, func(_ string, last lastAck) bool { return last.sent > 0 && last.sent <= k.n })
	c.progress = c.progress || !k.once
	c.ended = c.ended || k.method == protocol.MethodSessionClose && m.Kind == protocol.Response
	c.mu.Unlock()
	var failed error
	if m.Kind == protocol.Failure {
		failed = &requestError{k.method, m.Error}
	} else if k.result != nil {
		if err := wire.Unmarshal(m.Payload, k.result); err != nil {
			failed = errorf("%s: answer: %w", k.method, err)
		}
	}
	k.end(failed)
}

// notified hands an event to its process. out belongs to the reader, and is reused.
func (c *Client) notified(wire protocol.Codec, m protocol.Message, out *protocol.OutputNotification) error {
	if take := c.opts.Notified; take != nil && m.Method != protocol.NotifySessionEvicted && m.Method != protocol.NotifySessionExpiring {
		return take(m.Method, func(n any) error { return wire.Unmarshal(m.Payload, n) })
	}
	switch m.Method {
	case protocol.NotifyOutput:
		*out = protocol.OutputNotification{Chunk: out.Chunk[:0]}
		if err := wire.Unmarshal(m.Payload, out); err != nil {
			return err
		}
		c.event(out.ProcessID, out.Seq, out.Seq, func(p *process) { p.output(out) })
		if cap(out.Chunk) > keptBuffer {
			out.Chunk = nil
		}
	case protocol.NotifyExited:
		return decoded(wire, m, func(n *protocol.ExitedNotification) {
			c.event(n.ProcessID, n.Seq, n.Seq, func(p *process) { p.exit(n) })
		})
	case protocol.NotifyRestarted:
		return decoded(wire, m, func(n *protocol.RestartedNotification) {
			c.event(n.ProcessID, n.Seq, n.Seq, func(p *process) { p.restarted(n) })
		})
	case protocol.NotifyReady:
		return decoded(wire, m, func(n *protocol.ReadyNotification) {
			c.event(n.ProcessID, n.Seq, n.Seq, func(p *process) { p.ready(n) })
		})
	case protocol.NotifyClosed:
		return decoded(wire, m, func(n *protocol.ClosedNotification) { c.event(n.ProcessID, n.Seq, n.Seq, (*process).close) })
	case protocol.NotifyGap:
		return decoded(wire, m, func(n *protocol.GapNotification) {
			c.event(n.ProcessID, n.FromSeq, n.ToSeq, func(p *process) { p.skip(); p.gap(n) })
		})
	case protocol.NotifyEvicted:
		return decoded(wire, m, func(n *protocol.EvictedNotification) {
			c.event(n.ProcessID, n.Seq, n.Seq, func(p *process) { p.evict(n.Reason) })
		})
	case protocol.NotifyHTTPBodyDelta:
		return decoded(wire, m, c.piece)
	case protocol.NotifyServerChanged:
		return decoded(wire, m, c.serverChanged)
	case protocol.NotifyMissingChanged:
		return decoded(wire, m, c.watched)
	case protocol.NotifySessionExpiring:
		return decoded(wire, m, func(n *protocol.SessionExpiringNotification) {
			if c.opts.Expiring != nil {
				c.opts.Expiring(protocol.FromMillis(n.InMs), n.Reason)
			}
		})
	case protocol.NotifySessionEvicted:
		var n protocol.SessionEvictedNotification
		if err := wire.Unmarshal(m.Payload, &n); err != nil {
			return err
		}
		c.mu.Lock()
		c.evicted = &EvictedError{n.Reason}
		c.mu.Unlock()
		return errors.New(n.Reason)
	default:
		c.opts.Log.Debug("notification ignored", "method", m.Method)
	}
	return nil
}

// decoded passes the payload of a notification to take.
func decoded[N any](wire protocol.Codec, m protocol.Message, take func(*N)) error {
	n := new(N)
	if err := wire.Unmarshal(m.Payload, n); err != nil {
		return err
	}
	take(n)
	return nil
}

// holdWhile keeps the reader from reading on while somebody is behind. The caller holds c.mu.
func (c *Client) holdWhile(behind func() bool) {
	for behind() && c.ctx.Err() == nil {
		c.away.Store(true)
		c.room.Wait()
	}
	c.away.Store(false)
}

// event applies the event at from..to in the sequence of a process, if this event is the next. The
// client ignores a process to which nobody attached, whose start is not answered, or which no resume has
// named yet, and does not acknowledge its output: the output stays on the server for the resume, or for a
// later attach.
func (c *Client) event(id string, from, to uint64, apply func(*process)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[id]
	c.holdWhile(func() bool { // this server does not wait for acknowledgements, so stop reading
		return p != nil && !p.lossy && !p.discard && p.queued > p.maxQueued()
	})
	if p != nil && p.unnamed {
		p.missed = true
		return
	}
	if p == nil || !p.advance(from, to) {
		return
	}
	c.progress = true
	apply(p)
	p.acknowledge()
}
