// Package command has the actor of a program of the sister APIs (app-server wire). The program runs in a
// session and a process like all others. The package dialect below has the wording of each API: it turns params into what to run, and
// output and ends into notifications. The package outcome below decides when the client is told output and the end of the program.
package command

import (
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/actors/peer/command/outcome"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages of a command to itself.
type (
	drainDue struct{} // the timer for outcome.Outcome.Tick
	roomDue  struct{} // from the goroutine of pull: there may be memory for more output
)

// Options describe a command.
type Options struct {
	Spec       *dialect.Spec
	From       string            // as message.Attach.From
	Identity   identity.Identity // as message.Attach.Identity
	Troupe     *actor.PID
	Connection *actor.PID
	Pull       int // as message.Pull.Bytes
}

// command is the actor of a program of the sister APIs. It owns the session in which the program runs, and
// the session ends with the actor. Its parent is the connection.
type command struct {
	// Fixed at spawn.
	Options
	env *env.Env

	// Owned by Receive.
	token    uint64             // of the start
	answered bool               // the start was answered
	refused  bool               // the start has failed, and the actor stops
	process  message.ProcessRef // its PID is nil before the process has started
	waiting  []heldCall         // for the start; bounded by the admission
	calls    map[uint64]*runningCall
	newest   uint64 // token of the newest Request to the process
	asked    uint64 // token of the DescribeRequest; 0: none was sent
	noMore   bool   // the client has closed stdin

	outcome outcome.Outcome
	memory  *budget.Account // for output kept until the end; nil: the parcel with the end has the account
	held    int             // bytes of memory; as outcome.Held, once counted
	starved bool            // a roomDue is on its way
	pulled  bool            // the connection takes the next parcel
	left    bool            // nothing more is told: the actor waits for processes left behind by the program
	drainAt env.Alarm
}

// New returns the Props of a command.
func New(e *env.Env, o Options) *actor.Props {
	return e.Props(func() actor.Actor {
		return &command{
			Options: o,
			env:     e,
			calls:   make(map[uint64]*runningCall),
			outcome: outcome.Outcome{Spec: o.Spec},
			memory:  e.KeptBudget.Account(),
		}
	}, env.Escalated)
}

// heldCall is a call before the program has started.
type heldCall struct {
	token uint64 // of the connection
	call  dialect.Call
}

// runningCall is a call without an answer of the process.
type runningCall struct {
	token uint64 // of the connection
	call  dialect.Call
	left  int  // requests without an answer; 0 or less: the call was answered
	over  bool // a request came after the exit
}

func (c *command) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Stopping:
		c.drainAt.Stop()
		c.memory.Close()
	case message.Gone, *actor.Terminated:
		if c.left { // processes left behind by the program have ended, too
			ctx.Stop(ctx.Self())
			return
		}
		c.lost(ctx, "its session has ended")

	case message.Attached:
		c.env.Watch(ctx, m.Session)
		ctx.Request(m.Session, message.Request{Params: c.Spec.Params})
	case message.Reply:
		c.reply(ctx, m)
	case message.Delivery:
		c.delivery(ctx, m)
	case message.Resubscribe:
		c.subscribe(ctx, message.Subscribe{After: c.outcome.Last(), Resumed: true})
	case message.ProcessRemoved:
		c.lost(ctx, m.Reason)
	case message.Evicted, message.Expiring: // Gone follows when the session ends
	case drainDue:
		c.tick(ctx)
	case roomDue:
		c.starved = false
		c.goOn(ctx)

	case message.Request:
		c.request(ctx, m)
	case message.Pull:
		c.pulled = true
		c.goOn(ctx)
	case message.Ack:
		ctx.Request(c.process.PID, m)

	default:
		c.env.Unexpected(ctx, ctx.Self().Id, m)
	}
}

// request handles a Request of the connection.
func (c *command) request(ctx actor.Context, m message.Request) {
	switch call := m.Params.(type) {
	case message.StartCommand:
		c.token, c.pulled = m.Token, true
		ctx.Request(c.Troupe, message.Attach{Ephemeral: true, From: c.From, Identity: c.Identity, Options: protocol.SessionOptions{Name: c.Spec.Dialect.API()}})
	case dialect.Call:
		if c.process.PID == nil {
			c.waiting = append(c.waiting, heldCall{m.Token, call})
			return
		}
		c.call(ctx, m.Token, call)
	default:
		c.answer(ctx, m.Token, nil, protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a command does not answer %T", m.Params))
	}
}

// answer answers a Request of the connection.
func (c *command) answer(ctx actor.Context, token uint64, result any, err *protocol.Error) {
	ctx.Request(c.Connection, message.Reply{Token: token, Result: result, Err: err})
}

// call sends the process the requests for a call of the client.
func (c *command) call(ctx actor.Context, token uint64, call dialect.Call) {
	if c.outcome.Exited() {
		result, err := c.Spec.Dialect.Over(c.Spec.Name, call)
		c.answer(ctx, token, result, err)
		return
	}
	if err := c.Spec.Refuses(call, c.noMore); err != nil {
		c.answer(ctx, token, nil, err)
		return
	}
	c.noMore = c.noMore || call.CloseStdin
	var params []any
	if call.Write != nil {
		params = append(params, protocol.ProcessWriteParams{Chunk: *call.Write, WriteID: strconv.FormatUint(c.newest, 36)})
	}
	if call.CloseStdin {
		params = append(params, protocol.ProcessCloseStdinParams{})
	}
	if call.Resize != nil {
		params = append(params, protocol.ProcessResizeParams{Size: *call.Resize})
	}
	if call.Kill {
		params = append(params, message.KillTreeRequest{})
	}
	r := &runningCall{token: token, call: call, left: len(params)}
	for _, p := range params {
		c.calls[c.ask(ctx, p)] = r
	}
}

// ask sends a request to the process, and returns its token.
func (c *command) ask(ctx actor.Context, params any) uint64 {
	c.newest++
	ctx.Request(c.process.PID, message.Request{Token: c.newest, Params: params})
	return c.newest
}

// reply takes an answer of the session or the process, and tells them apart by the token.
func (c *command) reply(ctx actor.Context, m message.Reply) {
	switch {
	case m.Token == 0:
		c.begun(ctx, m)
	case m.Token == c.asked:
		info, _ := m.Result.(protocol.ProcessInfo)
		c.outcome.LogEnds(max(info.NextSeq, 1) - 1)
		c.goOn(ctx)
	default:
		c.called(ctx, m)
	}
}

// begun takes the answer of the session to the start.
func (c *command) begun(ctx actor.Context, m message.Reply) {
	started, ok := m.Result.(message.StartResult)
	if !ok {
		c.refuse(ctx, m.Err)
		return
	}
	c.process = started.Process
	c.Spec.Params = protocol.ProcessStartParams{TTY: c.Spec.Params.TTY} // the process has the rest
	if result := c.Spec.Dialect.Started(c.Spec.Name); result != nil {
		c.answered = true
		c.answer(ctx, c.token, result, nil)
	}
	c.subscribe(ctx, message.Subscribe{})
	for _, h := range c.waiting {
		c.call(ctx, h.token, h.call)
	}
	c.waiting = nil
}

// refuse answers a failed start, and ends the command.
func (c *command) refuse(ctx actor.Context, err *protocol.Error) {
	c.answer(ctx, c.token, nil, c.Spec.NotStarted(err))
	for _, h := range c.waiting {
		result, err := c.Spec.Dialect.Unknown(c.Spec.Name, h.call)
		c.answer(ctx, h.token, result, err)
	}
	c.refused = true
	ctx.Stop(ctx.Self())
}

// called takes the answer of the process to a request of a call.
func (c *command) called(ctx actor.Context, m message.Reply) {
	r := c.calls[m.Token]
	if r == nil {
		return
	}
	delete(c.calls, m.Token)
	switch result := m.Result.(type) {
	case protocol.ProcessWriteResult:
		r.over = result.Status != protocol.WriteAccepted
	case protocol.ProcessTerminateResult:
		r.over = !result.Running
	}
	if r.left--; r.left > 0 && m.Err == nil {
		return
	}
	switch {
	case r.left < 0: // an earlier error has answered the call
	case m.Err != nil:
		r.left = 0
		c.answer(ctx, r.token, nil, m.Err)
	case r.over:
		result, err := c.Spec.Dialect.Over(c.Spec.Name, r.call)
		c.answer(ctx, r.token, result, err)
	default:
		c.answer(ctx, r.token, c.Spec.Dialect.Called(r.call), nil)
	}
}

// subscribe has the process deliver.
func (c *command) subscribe(ctx actor.Context, m message.Subscribe) {
	m.Owner = true
	if c.outcome.Wants(c.pulled) {
		m.Pull = c.Pull
	}
	ctx.Request(c.process.PID, m)
}

// delivery passes output on, or keeps the output for the end.
func (c *command) delivery(ctx actor.Context, m message.Delivery) {
	if m.Cut { // without its output, the end of a command would look like success. The process stops next, and that end is told
		m.Release()
		return
	}
	pieces, ok := c.outcome.Take(time.Now(), m.Entries)
	if !ok {
		m.Release()
		c.subscribe(ctx, message.Subscribe{After: c.outcome.Last(), Resumed: true})
		return
	}
	if len(pieces) == 0 {
		m.Release()
		ctx.Request(c.process.PID, message.Ack{To: c.outcome.Last()}) // this Ack may overtake the Ack of a parcel
	} else {
		p := message.Parcel{To: c.outcome.Last(), AckEvery: m.AckEvery, Release: m.Release}
		for _, piece := range pieces {
			method, params := c.Spec.Dialect.Delta(c.Spec.Name, piece.Stream, piece.Data, piece.CapReached)
			p.Notes = append(p.Notes, message.Note{Method: method, Params: params})
			p.Bytes += int64(len(piece.Data))
		}
		c.send(ctx, p)
	}
	c.goOn(ctx)
}

// goOn tells the end once the end is known, and asks the process for the next delivery if one is wanted.
func (c *command) goOn(ctx actor.Context) {
	if c.refused {
		return
	}
	if c.outcome.Cut() && !c.answered {
		c.refuse(ctx, c.Spec.TooLarge())
		return
	}
	c.hold()
	if c.pulled {
		if end, ok := c.outcome.End(); ok {
			c.tellEnd(ctx, end)
		}
	}
	if due := c.outcome.Due(); due.IsZero() {
		c.drainAt.Stop()
	} else {
		c.drainAt.Sooner(ctx, time.Until(due), drainDue{})
	}
	switch {
	case c.outcome.Over():
		c.leave(ctx)
	case c.outcome.Wants(c.pulled):
		c.pull(ctx)
	}
}

// hold counts the memory that the output takes.
func (c *command) hold() {
	held := c.outcome.Held()
	c.memory.Force(max(held-c.held, 0))
	c.memory.Give(max(c.held-held, 0))
	c.held = held
}

// pull asks the process for the next delivery, or waits until there is memory for more output. Meanwhile the log of the process
// becomes full, and the program waits in its write.
func (c *command) pull(ctx actor.Context) {
	room, over := c.memory.Over()
	switch {
	case !over:
		ctx.Request(c.process.PID, message.Pull{Bytes: c.Pull})
	case !c.starved:
		c.starved = true
		self, root, done := ctx.Self(), ctx.ActorSystem().Root, c.memory.Done()
		go func() {
			select {
			case <-room:
				root.Send(self, roomDue{})
			case <-done: // the command is over
			}
		}()
	}
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the command may end while it waits.
func (roomDue) IgnoreDeadLetterLogging() {}

// tick asks the process how far its log goes, once the end waits no longer for descendants.
func (c *command) tick(ctx actor.Context) {
	c.drainAt.Stop()
	if c.outcome.Tick(time.Now()) {
		c.asked = c.ask(ctx, message.DescribeRequest{})
	} else if due := c.outcome.Due(); !due.IsZero() {
		c.drainAt.Set(ctx, time.Until(due), drainDue{})
	}
}

// tellEnd sends the connection a Parcel with the end.
func (c *command) tellEnd(ctx actor.Context, end dialect.End) {
	p := message.Parcel{To: c.outcome.Last(), Last: true, Bytes: int64(len(end.Output[0]) + len(end.Output[1]))}
	if method, body := c.Spec.Dialect.Ended(c.Spec.Name, end); method != "" {
		p.Notes = []message.Note{{Method: method, Params: body}}
	} else {
		p.Answer = &message.Reply{Token: c.token, Result: body}
	}
	p.Release, c.memory = c.memory.Close, nil
	c.answered = true
	c.send(ctx, p)
}

// send sends the connection the Parcel for its Pull.
func (c *command) send(ctx actor.Context, p message.Parcel) {
	c.pulled = false
	ctx.Request(c.Connection, p)
}

// leave waits for processes left behind by the program. They may go on until the connection ends: then this
// actor ends, and with it the session.
func (c *command) leave(ctx actor.Context) {
	if !c.left {
		c.left = true
		ctx.Request(c.process.PID, message.Ack{To: c.outcome.Last()})
		ctx.Request(c.process.PID, message.Unsubscribe{})
		c.env.Watch(ctx, c.process.PID)
	}
}

// lost ends a command that has lost its process or its session.
func (c *command) lost(ctx actor.Context, why string) {
	switch {
	case c.refused:
	case c.answered || c.outcome.Ended():
		c.outcome.Lost()
		c.goOn(ctx)
	default:
		c.refuse(ctx, protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "the command was lost: %s", why))
	}
}
