package actors

import (
	"os"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/command/dialect"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// commands are the programs of the sister APIs that a connection runs.
type commands struct {
	active map[commandKey]*runningCommand // until the writer has their end
	serial uint64                         // of the newest without a name
	output heldOutput                     // they add to it

	translator *dialect.Translator // nil: no request came yet
}

// commandKey is what a command is called.
type commandKey struct {
	api, name string
	serial    uint64 // of one without a name; else 0
}

// runningCommand is what a connection has of a command.
type runningCommand struct {
	stream
	key     commandKey
	dialect dialect.Dialect
	parcel  *parcel // for the window; nil: none
	asked   pending // what it answers
}

// ending is how many have an answer that waits for the window.
func (cs *commands) ending() (n int) {
	for _, cmd := range cs.active {
		if cmd.parcel != nil && cmd.parcel.answer != nil {
			n++
		}
	}
	return n
}

// over reports whether the command has told its end, which waits for the window.
func (cmd *runningCommand) over() bool { return cmd.parcel != nil && cmd.parcel.last }

// command handles a request of the sister APIs.
func (c *connection) command(ctx actor.Context, in inbound) {
	switch r, ok, err := c.translator().Request(in.params); {
	case !ok:
		c.fail(in, protocol.Errorf(protocol.CodeInternal, "no sister API has requests with %T", in.params))
	case err != nil:
		c.fail(in, err)
	case r.Start != nil:
		c.startCommand(ctx, in, r.Start)
	default:
		c.callCommand(ctx, in, r)
	}
}

// translator returns the one translator of the connection.
func (c *connection) translator() *dialect.Translator {
	if c.commands.translator == nil {
		c.commands.translator = &dialect.Translator{
			Cwd:        c.env.Info.Cwd,
			Env:        serverEnv,
			MaxMessage: c.limits().MaxMessageBytes,
		}
	}
	return c.commands.translator
}

// serverEnv is the server's environment without its secrets.
func serverEnv() map[string]string { return child.WithoutSecrets(os.Environ()) }

// callCommand passes a call to its command, or answers the call if the command has ended.
func (c *connection) callCommand(ctx actor.Context, in inbound, r dialect.Request) {
	cmd := c.commands.active[commandKey{api: r.Dialect.API(), name: r.Name}]
	switch {
	case cmd == nil:
		result, err := r.Dialect.Unknown(r.Name, r.Call)
		c.answer(pending{id: in.id, weight: in.weight}, result, err)
	case cmd.over(): // its actor may be gone
		result, err := r.Dialect.Over(r.Name, r.Call)
		c.answer(pending{id: in.id, weight: in.weight}, result, err)
	default:
		in.params = r.Call
		c.ask(ctx, cmd.ref.PID, in, pending{command: cmd, call: &r.Call})
	}
}

func (c *connection) startCommand(ctx actor.Context, in inbound, spec *dialect.Spec) {
	key := commandKey{api: spec.Dialect.API(), name: spec.Name}
	if spec.Unnamed {
		c.commands.serial++
		key.serial = c.commands.serial
	}
	if c.commands.active[key] != nil {
		c.fail(in, spec.Dialect.Duplicate(spec.Name))
		return
	}
	it := &command{spec: spec, key: key, from: ownerKey(c.conn), troupe: c.troupe, connection: ctx.Self(), store: &c.commands.output}
	pid := ctx.Spawn(c.env.Props(func() actor.Actor { return it }, env.Escalated))
	cmd := &runningCommand{stream: stream{ref: message.ProcessRef{PID: pid}}, key: key, dialect: spec.Dialect}
	cmd.stream.command, cmd.stream.out.Of = cmd, &cmd.stream
	if c.commands.active == nil {
		c.commands.active = make(map[commandKey]*runningCommand)
	}
	c.commands.active[key] = cmd
	in.params = message.StartCommand{}
	c.ask(ctx, pid, in, pending{command: cmd, server: spec.Dialect.Started(spec.Name) != nil})
}

// parcel takes what a command has to say; it is passed to the writer in turn with the output of
// processes.
func (c *connection) parcel(ctx actor.Context, m parcel) {
	cmd := c.commands.active[m.key]
	if cmd == nil || !cmd.ref.PID.Equal(ctx.Sender()) || c.stage == evicted {
		return
	}
	cmd.parcel = &m
	c.window.Offer(&cmd.stream.out, window.Delivery{Last: m.to, Bytes: m.bytes, AckEvery: m.ackEvery})
	if m.answer != nil { // it is no longer the command that has to answer
		cmd.asked = c.pending[m.answer.Token]
		delete(c.pending, m.answer.Token)
	}
	c.flush(ctx, false)
}

// passParcel passes what a command has said to the writer.
func (c *connection) passParcel(cmd *runningCommand) {
	m := cmd.parcel
	cmd.parcel = nil
	for _, o := range m.out {
		c.writer.output(o)
	}
	if m.answer != nil {
		c.answerInTurn(cmd.asked, m.answer.Result, nil)
	}
	if m.last {
		delete(c.commands.active, cmd.key) // what is called so next comes behind it
	}
}

// commandGone is for the end of a command's actor. What was asked meanwhile it does not answer any
// more; most often it has told its end before. Else it has failed, and its program is killed.
func (c *connection) commandGone(ctx actor.Context, pid *actor.PID) {
	var failed *runningCommand
	for key, cmd := range c.commands.active {
		if cmd.ref.PID.Equal(pid) && !cmd.over() {
			failed = cmd
			delete(c.commands.active, key)
		}
	}
	begun := true
	for token, p := range c.pending {
		switch {
		case p.command == nil || !p.command.ref.PID.Equal(pid):
		case p.begins():
			begun = false
			c.reply(ctx, message.Reply{Token: token, Err: protocol.Errorf(protocol.CodeInternal, "internal error: the command was ended")})
		default:
			result, err := p.command.dialect.Unknown(p.command.key.name, *p.call)
			c.reply(ctx, message.Reply{Token: token, Result: result, Err: err})
		}
	}
	if failed == nil || !begun {
		return
	}
	c.passLast(ctx, &failed.stream) // it comes before
	if method, body := failed.dialect.Ended(failed.key.name, dialect.End{Code: dialect.LostCode}); method != "" {
		c.writer.output(outgoing{method: method, body: body})
	}
}
