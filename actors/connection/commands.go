package connection

import (
	"os"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/peer/command"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// commands are the running programs of the sister APIs on a connection.
type commands struct {
	named  map[commandKey]*runningCommand // a name is taken until the writer has the end
	actors map[string]*runningCommand     // the same, by the id of the actor
	serial uint64                         // of the newest without a name

	translator *dialect.Translator // nil before the first request
}

// commandKey names a command.
type commandKey struct {
	api, name string
	serial    uint64 // of a command without a name; else 0
}

// runningCommand is a command as its connection sees the command.
type runningCommand struct {
	stream  *stream
	key     commandKey
	dialect dialect.Dialect
	parcel  *message.Parcel // waits for its turn in the window; nil: nothing waits
	asked   pending         // the request answered by parcel.Answer
}

// forget frees the name of a command.
func (cs *commands) forget(cmd *runningCommand) {
	delete(cs.named, cmd.key)
	delete(cs.actors, cmd.stream.ref.PID.Id)
}

// ending returns the number of commands whose answer waits for the window.
func (cs *commands) ending() (n int) {
	for _, cmd := range cs.named {
		if cmd.parcel != nil && cmd.parcel.Answer != nil {
			n++
		}
	}
	return n
}

// over reports whether the command has ended, and its last parcel waits for the window.
func (cmd *runningCommand) over() bool { return cmd.parcel != nil && cmd.parcel.Last }

// giveBack gives back the memory of parcels that nobody will write.
func (cs *commands) giveBack() {
	for _, cmd := range cs.actors {
		if cmd.parcel != nil {
			cmd.parcel.GiveBack()
			cmd.parcel = nil
		}
	}
}

// command handles a request of the sister APIs.
func (c *connection) command(ctx actor.Context, in inbound) {
	switch r, ok, err := c.translator().Request(in.params); {
	case !ok:
		c.fail(in, protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "no sister API has requests with %T", in.params))
	case err != nil:
		c.fail(in, err)
	case r.Start != nil:
		c.startCommand(ctx, in, r.Start)
	default:
		c.callCommand(ctx, in, r)
	}
}

// translator returns the translator of the connection, and makes it at the first call.
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
	cmd := c.commands.named[commandKey{api: r.Dialect.API(), name: r.Name}]
	switch {
	case cmd == nil:
		result, err := r.Dialect.Unknown(r.Name, r.Call)
		c.answer(pending{id: in.id, weight: in.weight}, result, err)
	case cmd.over(): // the actor of the command may be gone
		result, err := r.Dialect.Over(r.Name, r.Call)
		c.answer(pending{id: in.id, weight: in.weight}, result, err)
	default:
		if r.Call.Kill || r.Call.CloseStdin {
			c.env.Audit.Put(audit.Request{Who: c.who(), Method: in.method, Process: audit.Text(r.Name)})
		}
		in.params = r.Call
		c.ask(ctx, cmd.stream.ref.PID, in, pending{command: cmd, call: &r.Call})
	}
}

func (c *connection) startCommand(ctx actor.Context, in inbound, spec *dialect.Spec) {
	key := commandKey{api: spec.Dialect.API(), name: spec.Name}
	if spec.Unnamed {
		c.commands.serial++
		key.serial = c.commands.serial
	}
	if c.commands.named[key] != nil {
		c.fail(in, spec.Dialect.Duplicate(spec.Name))
		return
	}
	c.env.Audit.Put(audit.ProgramStart{Who: c.who(), API: spec.Dialect.API(), Program: audit.Text(spec.Name)})
	if c.commands.named == nil {
		c.commands.named = make(map[commandKey]*runningCommand)
		c.commands.actors = make(map[string]*runningCommand)
	}
	pid := ctx.SpawnPrefix(command.New(c.env, command.Options{
		Spec:       spec,
		From:       c.ownerKey(),
		Identity:   c.about.Identity,
		Troupe:     c.troupe,
		Connection: ctx.Self(),
		Pull:       deliveryBytes,
	}), message.CommandPrefix)
	cmd := &runningCommand{stream: newStream(message.ProcessRef{PID: pid}), key: key, dialect: spec.Dialect}
	cmd.stream.command = cmd
	c.commands.named[key], c.commands.actors[pid.Id] = cmd, cmd
	in.params = message.StartCommand{}
	c.ask(ctx, pid, in, pending{command: cmd, server: spec.Dialect.Started(spec.Name) != nil})
}

// parcel takes a parcel of a command. Parcels and the output of processes take turns in the window.
func (c *connection) parcel(ctx actor.Context, m message.Parcel) {
	cmd := c.commands.actors[ctx.Sender().GetId()]
	if cmd == nil || c.stage == evicted {
		m.GiveBack()
		return
	}
	cmd.parcel = &m
	d := window.Delivery{Last: m.To, Bytes: m.Bytes + window.EntryBytes*int64(len(m.Notes)), AckEvery: m.AckEvery}
	if m.Answer != nil { // the connection answers now, even if the command fails
		d.Bytes += window.EntryBytes
		cmd.asked = c.pending[m.Answer.Token]
		delete(c.pending, m.Answer.Token)
	}
	c.window.Offer(&cmd.stream.out, d)
	c.flush(ctx, false)
}

// passParcel passes the parcel of a command to the writer.
func (c *connection) passParcel(cmd *runningCommand) {
	m := cmd.parcel
	cmd.parcel = nil
	for _, note := range m.Notes {
		c.writer.output(outgoing{method: note.Method, body: note.Params})
	}
	if m.Answer != nil {
		c.answerInTurn(cmd.asked, m.Answer.Result, nil)
	}
	if m.Release != nil {
		c.writer.output(outgoing{release: m.Release})
	}
	if m.Last {
		c.commands.forget(cmd) // everything of a later command with this name follows in the writer
	}
}

// commandGone handles the end of a command's actor, and answers the requests that the actor left.
// Usually the client has been told the end of the command. Otherwise the actor has failed, the
// program is killed, and commandGone tells the client an end with dialect.LostCode.
func (c *connection) commandGone(ctx actor.Context, pid *actor.PID) {
	failed := c.commands.actors[pid.Id]
	if failed != nil && failed.over() {
		failed = nil // the end waits for the window
	} else if failed != nil {
		c.commands.forget(failed)
	}
	begun := true
	for token, p := range c.pending {
		switch {
		case p.command == nil || !p.command.stream.ref.PID.Equal(pid):
		case p.begins():
			begun = false
			c.reply(ctx, message.Reply{Token: token, Err: protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "internal error: the command was ended")})
		default:
			result, err := p.command.dialect.Unknown(p.command.key.name, *p.call)
			c.reply(ctx, message.Reply{Token: token, Result: result, Err: err})
		}
	}
	if failed == nil || !begun {
		return
	}
	c.passLast(ctx, failed.stream) // the waiting parcel comes before the end
	if method, body := failed.dialect.Ended(failed.key.name, dialect.End{Code: dialect.LostCode}); method != "" {
		c.writer.output(outgoing{method: method, body: body})
	}
}
