package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// commands are the programs of the sister APIs that a connection runs.
type commands struct {
	active map[commandKey]*runningCommand // until the writer has their end
	serial uint64                         // of the newest without a name
	firsts int                            // how many there were of the first wire
	output heldOutput                     // they add to it
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
	dialect dialect
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

// command is a request of the sister APIs; false: it is of none.
func (c *connection) command(ctx actor.Context, in inbound) bool {
	var (
		d    dialect
		name string
		call commandCall
		spec *commandSpec
		err  *protocol.Error
	)
	switch p := in.params.(type) {
	case protocol.ProcessSpawnParams:
		spec, err = spawnDialect{}.spec(c, p)
	case protocol.ProcessWriteStdinParams:
		d, name = spawnDialect{}, p.ProcessHandle
		call, err = spawnDialect{}.write(p)
	case protocol.ProcessResizePtyParams:
		d, name = spawnDialect{}, p.ProcessHandle
		call, err = spawnDialect{}.resize(p)
	case protocol.ProcessKillParams:
		d, name, call = spawnDialect{}, p.ProcessHandle, commandCall{kill: true}

	case protocol.CommandExecParams:
		spec, err = execDialect{}.spec(c, p)
	case protocol.CommandExecWriteParams:
		d, name = execDialect{}, p.ProcessID
		call, err = execDialect{}.write(p)
	case protocol.CommandExecResizeParams:
		d, name = execDialect{}, p.ProcessID
		call, err = execDialect{}.resize(p)
	case protocol.CommandExecTerminateParams:
		d, name, call = execDialect{}, p.ProcessID, commandCall{kill: true}

	case protocol.FirstExecParams:
		spec, err = firstDialect{}.spec(c, p)
	case protocol.FirstExecWriteParams:
		d, name, call = firstDialect{}, p.SessionID, commandCall{write: &p.Chunk}
	case protocol.FirstExecTerminateParams:
		d, name, call = firstDialect{}, p.SessionID, commandCall{kill: true}
	default:
		return false
	}
	switch {
	case err != nil:
		c.fail(in, err)
	case spec != nil:
		c.startCommand(ctx, in, spec)
	default:
		cmd := c.commands.active[commandKey{api: d.api(), name: name}]
		if cmd == nil {
			result, err := d.unknown(name, call)
			c.answer(pending{id: in.id, weight: in.weight}, result, err)
			return true
		}
		if cmd.over() { // its actor may be gone
			result, err := d.over(name, call)
			c.answer(pending{id: in.id, weight: in.weight}, result, err)
			return true
		}
		asked := call // or each request would cost an allocation, also those of others
		in.params = asked
		c.ask(ctx, cmd.ref.PID, in, pending{command: cmd, call: &asked})
	}
	return true
}

func (c *connection) startCommand(ctx actor.Context, in inbound, spec *commandSpec) {
	key := commandKey{api: spec.dialect.api(), name: spec.name}
	if spec.unnamed {
		c.commands.serial++
		key.serial = c.commands.serial
	}
	if c.commands.active[key] != nil {
		c.fail(in, spec.dialect.duplicate(spec.name))
		return
	}
	if !spec.stream {
		spec.limit = c.heldCap(spec.limit)
	}
	it := &command{spec: spec, key: key, from: ownerKey(c.conn), troupe: c.troupe, connection: ctx.Self(), store: &c.commands.output}
	pid := ctx.Spawn(c.props(func() actor.Actor { return it }, escalated))
	cmd := &runningCommand{stream: stream{ref: ProcessRef{PID: pid}}, key: key, dialect: spec.dialect}
	cmd.stream.command = cmd
	if c.commands.active == nil {
		c.commands.active = make(map[commandKey]*runningCommand)
	}
	c.commands.active[key] = cmd
	in.params = startCommand{}
	c.ask(ctx, pid, in, pending{command: cmd})
}

// parcel takes what a command has to say; it is passed to the writer in turn with the output of
// processes.
func (c *connection) parcel(ctx actor.Context, m parcel) {
	cmd := c.commands.active[m.key]
	if cmd == nil || !cmd.ref.PID.Equal(ctx.Sender()) || c.stage == evicted {
		return
	}
	cmd.parcel = &m
	c.queue = append(c.queue, &cmd.stream)
	if m.answer != nil { // it is no longer the command that has to answer
		cmd.asked = c.pending[m.answer.Token]
		delete(c.pending, m.answer.Token)
	}
	c.flush(ctx, c.Window)
}

// passParcel passes what a command has said to the writer.
func (c *connection) passParcel(ctx actor.Context, cmd *runningCommand) {
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
	c.mark(ctx, &cmd.stream, 0, m.to, m.bytes, m.ackEvery)
	c.mayClose(ctx)
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
			c.reply(ctx, Reply{Token: token, Err: protocol.Errorf(protocol.CodeInternal, "internal error: the command was ended")})
		default:
			result, err := p.command.dialect.unknown(p.command.key.name, *p.call)
			c.reply(ctx, Reply{Token: token, Result: result, Err: err})
		}
	}
	if failed == nil || !begun {
		return
	}
	if failed.parcel != nil { // it comes before
		c.passParcel(ctx, failed)
	}
	if method, body := failed.dialect.ended(failed.key.name, commandEnd{code: lostCode}); method != "" {
		c.writer.output(outgoing{method: method, body: body})
	}
}
