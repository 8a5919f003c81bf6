package connection

import (
	"encoding/base64"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/fifo"
	"github.com/b6f6fdd7/troupe/protocol"
)

// requests are what the client has asked, and what has no answer.
type requests struct {
	token    uint64
	pending  map[uint64]pending   // by the token of the question to another actor, or of the wait
	reads    fifo.Queue[fullRead] // answered once the window has room
	lists    listings
	starting map[string]*start // by process id: processes that are being started
	finished uint64            // answers that waited for the server alone, since the beginning
	stall    stall             // while the reader waits for admission
}

// pending is a request without an answer.
type pending struct {
	asked
	of     *stream // of the process that is asked; nil: another actor is
	server bool    // the answer waits for the server alone
	// then goes on with the reply. Nil: the reply answers the request.
	then    func(*connection, actor.Context, pending, message.Reply)
	program *Program    // nil: the request is not about a program
	call    any         // to program; nil: the start of program
	events  *eventsWait // of server/events; nil: another request
}

// begins reports whether p is the start of a program.
func (p *pending) begins() bool { return p.program != nil && p.call == nil }

func (c *connection) request(ctx actor.Context, in inbound) {
	m := in.entry
	switch {
	case in.err != nil: // of the frame or its params: before the order of the handshake
		c.fail(in, in.err)
	case m.Notification:
		c.fail(in, protocol.Errorf(protocol.KindMethod, protocol.CodeMethodNotFound, "%s is a notification: send it without id", in.method))
	case m.Early:
		m.in(in.wire).handle(Request{c, ctx, in})
	case m.section.Family == "":
		c.fail(in, protocol.Errorf(protocol.KindMethod, protocol.CodeMethodNotFound, "exec-server stub does not implement `%s` yet", wireerr.Clip(in.method)).
			Advise("this server has no such method"))
	case c.stage == opened && in.wire == dialect:
		c.fail(in, c.table.dialect.Early())
	case c.stage == opened:
		c.fail(in, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "client must call initialize before using %s methods", m.section.Family))
	case c.stage == attached:
		c.fail(in, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "client must send initialized before using %s methods", m.section.Family))
	case m.in(in.wire).handle == nil:
		c.fail(in, protocol.Errorf(protocol.KindMethod, protocol.CodeMethodNotFound, "method %q is not implemented by this server", wireerr.Clip(in.method)))
	case !m.allows(c.role, c.guest != "", in.params):
		err := protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "an observer changes nothing: %s is for the session's owner and its controllers", in.method)
		if c.guest != "" {
			err = protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s is not for the guest of a share whose role is %s", in.method, c.role)
		}
		c.refusal(in.method)(err.Message)
		c.fail(in, err)
	default:
		m.in(in.wire).handle(Request{c, ctx, in})
	}
}

// Handlers of the methods about the server, the session and groups.

// environmentInfo answers environment/info. Where programs have users, the answer waits for the database of users.
func (c *connection) environmentInfo(ctx actor.Context, in inbound, _ protocol.NoParams) {
	if c.env.Users == nil {
		c.respond(in, c.env.Info)
		return
	}
	env, identity := c.env, c.who().Identity
	var info *protocol.EnvironmentInfo
	c.askHost(ctx, in, func() error { info = env.InfoFor(identity); return nil }, func(c *connection, err error) {
		if err != nil {
			c.fail(in, wireerr.From(err))
			return
		}
		c.respond(in, info)
	})
}

func (c *connection) environmentStatus(_ actor.Context, in inbound, _ struct{}) {
	c.respond(in, protocol.EnvironmentStatusResult{Status: "ready"})
}

// askHost makes a look that may wait for files, in a turn of the host, and then answers a request.
func (c *connection) askHost(ctx actor.Context, in inbound, look func() error, answer func(*connection, error)) {
	c.token++
	token := c.token
	c.pending[token] = pending{asked: in.asked, server: true}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	c.env.Host.Ask(child.Spec{Owner: c.sessionID}, func(func(string)) error { return look() }, func(err error) {
		root.Send(self, goOn{func(c *connection, ctx actor.Context) {
			delete(c.pending, token)
			c.finished++
			answer(c, err)
			c.mayClose(ctx)
		}})
	})
}

// tellServer answers server/info. The first time, the host must find out about sandboxes.
func (c *connection) tellServer(ctx actor.Context, in inbound, _ struct{}) {
	host := c.env.Host
	if _, ok := host.Sandbox(); ok {
		c.serverTold(in)
		return
	}
	c.askHost(ctx, in, func() error { return host.TrySandbox().Err }, func(c *connection, _ error) { c.serverTold(in) })
}

func (c *connection) serverTold(in inbound) {
	info := c.env.ServerInfo()
	info.Limits = c.limits()
	if who := c.about.Identity; who.Name != "" && !who.Operator {
		c.respond(in, info.AboutServer) // the rest counts for all identities together
		return
	}
	c.respond(in, info)
}

func (c *connection) closeSession(ctx actor.Context, in inbound, _ protocol.SessionCloseParams) {
	c.ask(ctx, c.session, in, pending{then: func(c *connection, ctx actor.Context, p pending, m message.Reply) {
		c.flush(ctx, true) // the answer comes after all output
		c.answerInTurn(p, m.Result, m.Err)
	}})
}

func (c *connection) startGroup(ctx actor.Context, in inbound, p protocol.GroupStartParams) {
	var ids []string
	for i := range p.Processes {
		ids = append(ids, p.Processes[i].ProcessID)
	}
	c.startAll(ctx, in, ids)
}

func (c *connection) startProcess(ctx actor.Context, in inbound, p protocol.ProcessStartParams) {
	c.startAll(ctx, in, []string{p.ProcessID})
}

func (c *connection) readProcess(ctx actor.Context, in inbound, p protocol.ProcessReadParams) {
	c.askProcess(ctx, in, p.ProcessID, pending{then: readOf(&p)}, nil)
}

// subscribeProcess asks the process whether it has the seq. The answer comes between the notifications that were sent before and those that
// begin again.
func (c *connection) subscribeProcess(ctx actor.Context, in inbound, params protocol.ProcessSubscribeParams) {
	c.askProcess(ctx, in, params.ProcessID, pending{then: func(c *connection, ctx actor.Context, p pending, m message.Reply) {
		c.answerInTurn(p, m.Result, m.Err)
		if m.Err == nil {
			c.show(ctx, p.of.ref, message.Subscribe{After: params.AfterSeq, Hold: params.Hold})
		}
	}}, nil)
}

// readScreen asks for a screen, whose answer counts as memory of the client.
func (c *connection) readScreen(ctx actor.Context, in inbound, params protocol.ProcessScreenParams) {
	c.askProcess(ctx, in, params.ProcessID, pending{then: func(c *connection, _ actor.Context, p pending, m message.Reply) {
		result, ok := m.Result.(protocol.ProcessScreenResult)
		if !ok {
			c.answer(p, m.Result, m.Err)
			return
		}
		held := 2 * result.Footprint() // as a value, and encoded
		if !c.memory.Try(held) {
			c.answer(p, nil, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%v: try again later", budget.ErrFull))
			return
		}
		c.writer.control(outgoing{asked: p.asked, body: result, held: held})
	}}, nil)
}

// askProcess passes on a request about a process. While the process is being started, the request waits. If there is no
// such process, the answer is unknown; nil: an error.
func (c *connection) askProcess(ctx actor.Context, in inbound, id string, p pending, unknown any) {
	if s := c.starting[id]; s != nil {
		s.held = append(s.held, in)
		return
	}
	if p.of = c.streams[id]; p.of != nil {
		c.ask(ctx, p.of.ref.PID, in, p)
		return
	}
	if unknown == nil {
		c.fail(in, wireerr.UnknownProcess(id))
		return
	}
	c.respond(in, unknown)
}

// start is a process that is being started. Requests about the process wait until it can answer or does not exist.
type start struct {
	asked bool      // this client waits for the answer to its process/start or group/start
	told  bool      // the session has told of the start: ProcessAdded or ProcessRemoved follows
	held  []inbound // bounded by the admission
}

// startOf returns the start of a process; new if there was none.
func (c *connection) startOf(id string) *start {
	s := c.starting[id]
	if s == nil {
		s = &start{}
		c.starting[id] = s
	}
	return s
}

// startAll asks the session for processes. Later requests about these processes wait for the answer. A start that this
// client has not asked for is asked for again: startToken may make the answer its own.
func (c *connection) startAll(ctx actor.Context, in inbound, ids []string) {
	for _, id := range ids {
		if s := c.starting[id]; s != nil && s.asked {
			s.held = append(s.held, in)
			return
		}
	}
	for _, id := range ids {
		c.startOf(id).asked = true
	}
	c.ask(ctx, c.session, in, pending{then: func(c *connection, ctx actor.Context, p pending, m message.Reply) { c.started(ctx, ids, p, m) }})
}

// started is for the reply to a request that starts processes. After an error the session may still tell of starts of others.
func (c *connection) started(ctx actor.Context, ids []string, p pending, m message.Reply) {
	switch result := m.Result.(type) {
	case message.StartResult:
		c.answer(p, result.ProcessStartResult, nil)
		c.showNew(ctx, result.Process)
	case message.GroupStarted:
		c.answer(p, result.GroupStartResult, nil)
		for _, p := range result.Processes {
			c.showNew(ctx, p)
		}
	default:
		c.answer(p, m.Result, m.Err)
	}
	for _, id := range ids {
		s := c.starting[id]
		s.asked, s.told = false, s.told && m.Err != nil
	}
	c.release(ctx, ids...)
}

// startOver is for the news that a process can answer, or does not exist.
func (c *connection) startOver(ctx actor.Context, id string) {
	if s := c.starting[id]; s != nil {
		s.told = false
		c.release(ctx, id)
		c.mayClose(ctx)
	}
}

// release ends the starts for which nobody waits any more, and handles the requests that were held.
func (c *connection) release(ctx actor.Context, ids ...string) {
	var held []inbound
	for _, id := range ids {
		if s := c.starting[id]; s != nil && !s.asked && !s.told {
			delete(c.starting, id)
			held = append(held, s.held...)
		}
	}
	for _, in := range held {
		c.inbound(ctx, in)
	}
}

// waiting reports whether a request waits for a start.
func (c *connection) waiting() bool {
	for _, s := range c.starting {
		if len(s.held) > 0 {
			return true
		}
	}
	return false
}

// ask passes a request on to an actor, which answers it.
func (c *connection) ask(ctx actor.Context, pid *actor.PID, in inbound, p pending) {
	c.recordRequest(in)
	p.asked, p.server = in.asked, p.server || in.entry.Server
	c.send(ctx, pid, message.Request{Params: in.params, Guest: c.guest}, p)
}

// send sends a request to an actor. The reply is for p.
func (c *connection) send(ctx actor.Context, pid *actor.PID, m message.Request, p pending) {
	c.token++
	m.Token = c.token
	c.pending[c.token] = p
	ctx.Request(pid, m)
}

func (c *connection) reply(ctx actor.Context, m message.Reply) {
	if c.stage == attaching && m.Token == c.token && m.Err != nil {
		c.attachFailed(ctx, m.Err)
		return
	}
	p, ok := c.pending[m.Token]
	if !ok {
		return // answered already, when the process was removed
	}
	delete(c.pending, m.Token)
	if p.server {
		c.finished++
	}
	if p.then != nil {
		p.then(c, ctx, p, m)
	} else {
		c.answer(p, m.Result, m.Err)
	}
	c.mayClose(ctx)
}

// readOf returns what goes on with the reply to a process/read. The answer counts in the window like other output, and waits while
// the window is full. While memory is short, the answer has deliveryBytes at most.
func readOf(params *protocol.ProcessReadParams) func(*connection, actor.Context, pending, message.Reply) {
	return func(c *connection, ctx actor.Context, p pending, m message.Reply) {
		result, ok := m.Result.(protocol.ProcessReadResult)
		switch {
		case !ok:
			c.answer(p, m.Result, m.Err)
			return
		case len(result.Chunks) > 0 && c.window.Full():
			c.reads.Push(fullRead{p, params}) // only the request waits; the output is read again
			return
		}
		if c.about.MaxMessage > 0 {
			fit(&result, c.about.MaxMessage)
			m.To = result.NextSeq - 1
		}
		n := bytesOf(&result)
		if n > deliveryBytes && !c.memory.Try(encoded(n)) {
			fit(&result, deliveryBytes) // the client reads on
			m.To, n = result.NextSeq-1, bytesOf(&result)
			c.memory.Force(encoded(n))
		} else if n <= deliveryBytes {
			c.memory.Force(encoded(n))
		}
		c.writer.control(outgoing{asked: p.asked, body: result, held: encoded(n)})
		if c.streams[params.ProcessID] == p.of && m.To > m.From {
			c.askRead(ctx, c.window.Sent(&p.of.out, m.From, m.To, int64(n), 0))
		}
	}
}

// fullRead is a process/read whose answer waits for room in the window.
type fullRead struct {
	pending
	params *protocol.ProcessReadParams
}

func bytesOf(r *protocol.ProcessReadResult) (n int) {
	for i := range r.Chunks {
		n += len(r.Chunks[i].Chunk)
	}
	return n + eventBytes*len(r.Events)
}

// The cost of an answer to process/read in JSON beside its output, at most, in bytes.
const (
	readBytes  = 1 << 10
	chunkBytes = 64 + 20 // with a time
	eventBytes = 512
)

// fit leaves out chunks from the end until the message has at most most bytes. The client reads on
// from NextSeq. The first chunk always stays, and has deliveryBytes at most.
func fit(r *protocol.ProcessReadResult, most int) {
	left := most - readBytes - eventBytes*len(r.Events)
	for i := range r.Chunks {
		left -= chunkBytes + base64.StdEncoding.EncodedLen(len(r.Chunks[i].Chunk))
		if left < 0 && i > 0 {
			r.Chunks, r.NextSeq = r.Chunks[:i], r.Chunks[i-1].Seq+1
			r.TimesMs = r.TimesMs[:min(i, len(r.TimesMs))]
			r.CutEvents()
			return
		}
	}
}

// readAgain asks again for output that found no room in the window.
func (c *connection) readAgain(ctx actor.Context, r fullRead) {
	if c.streams[r.params.ProcessID] != r.of {
		c.answer(r.pending, nil, wireerr.UnknownProcess(r.params.ProcessID))
		c.mayClose(ctx)
		return
	}
	now := *r.params
	now.WaitMs = 0 // there was something
	c.send(ctx, r.of.ref.PID, message.Request{Params: now}, r.pending)
}

func (c *connection) answer(p pending, result any, err *protocol.Error) {
	c.writer.control(outgoing{asked: p.asked, body: result, err: err})
}

// answerInTurn answers after all output in the writer.
func (c *connection) answerInTurn(p pending, result any, err *protocol.Error) {
	c.writer.output(outgoing{asked: p.asked, body: result, err: err})
}

func (c *connection) respond(in inbound, result any) {
	c.answer(pending{asked: in.asked}, result, nil)
}

func (c *connection) fail(in inbound, err *protocol.Error) {
	c.answer(pending{asked: in.asked}, nil, err)
}
