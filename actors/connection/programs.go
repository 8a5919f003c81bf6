package connection

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Program is an actor that runs a program for the client alone. Like a process, it answers each Request with a Reply, and each Pull with a
// message.Parcel. Parcels and the output of processes take turns in the window.
type Program struct {
	stream *stream
	words  Words
	parcel *message.Parcel // waits for its turn in the window; nil: nothing waits
	asked  pending         // the request answered by parcel.Answer
}

// Words are what a connection says of a Program in place of its actor.
type Words interface {
	// Left answers a call that the actor has left without an answer.
	Left(call any) (result any, err *protocol.Error)
	// Lost is the notification of the end of a Program whose actor has failed. "": nobody is told.
	Lost() (method string, params any)
	// Forget is called once: the Program has not begun, or the writer has its end.
	Forget()
}

// Pull is how many bytes the first Parcel of a Program may have.
const Pull = deliveryBytes

// Start spawns the actor of a Program, and asks it to start. The answer of the actor, or its last Parcel, answers the request. soon: the
// answer waits for the server alone. props get the PIDs of the connection and of the troupe.
func (r Request) Start(words Words, soon bool, props func(connection, troupe *actor.PID) *actor.Props) *Program {
	c := r.c
	pid := r.ctx.SpawnPrefix(props(r.ctx.Self(), c.troupe), message.CommandPrefix)
	p := &Program{stream: newStream(message.ProcessRef{PID: pid}), words: words}
	p.stream.program = p
	if c.programs == nil {
		c.programs = make(map[string]*Program)
	}
	c.programs[pid.Id] = p
	r.in.params = message.StartCommand{}
	c.ask(r.ctx, pid, r.in, pending{program: p, server: soon, then: func(c *connection, _ actor.Context, asked pending, m message.Reply) {
		if m.Err != nil {
			c.forget(p) // before the answer: the name is free again
		}
		c.answerInTurn(asked, m.Result, m.Err) // after the end of an earlier Program with the same name
	}})
	return p
}

// Call passes a call on to the actor of a Program, which answers the request.
func (r Request) Call(p *Program, call any) {
	r.in.params = call
	r.c.ask(r.ctx, p.stream.ref.PID, r.in, pending{program: p, call: call})
}

// Over reports whether the Program has ended, and its last parcel waits for the window. Its actor may be gone.
func (p *Program) Over() bool { return p.parcel != nil && p.parcel.Last }

// forget frees what is known of a Program.
func (c *connection) forget(p *Program) {
	if id := p.stream.ref.PID.Id; c.programs[id] == p {
		delete(c.programs, id)
		p.words.Forget()
	}
}

// programsEnding returns the number of Programs whose answer waits for the window.
func (c *connection) programsEnding() (n int) {
	for _, p := range c.programs {
		if p.parcel != nil && p.parcel.Answer != nil {
			n++
		}
	}
	return n
}

// giveBackParcels gives back the memory of parcels that nobody will write.
func (c *connection) giveBackParcels() {
	for _, p := range c.programs {
		if p.parcel != nil {
			p.parcel.GiveBack()
			p.parcel = nil
		}
	}
}

func (c *connection) parcel(ctx actor.Context, m message.Parcel) {
	p := c.programs[ctx.Sender().GetId()]
	if p == nil || c.stage == evicted {
		m.GiveBack()
		return
	}
	p.parcel = &m
	d := window.Delivery{Last: m.To, Bytes: m.Bytes + window.EntryBytes*int64(len(m.Notes)), AckEvery: m.AckEvery}
	if m.Answer != nil { // the connection answers now, even if the actor fails
		d.Bytes += window.EntryBytes
		p.asked = c.pending[m.Answer.Token]
		delete(c.pending, m.Answer.Token)
	}
	c.window.Offer(&p.stream.out, d)
	c.flush(ctx, false)
}

// passParcel passes the parcel of a Program to the writer.
func (c *connection) passParcel(p *Program) {
	m := p.parcel
	p.parcel = nil
	for _, note := range m.Notes {
		c.writer.output(outgoing{method: note.Method, body: note.Params})
	}
	if m.Answer != nil {
		c.answerInTurn(p.asked, m.Answer.Result, nil)
	}
	if m.Release != nil {
		c.writer.output(outgoing{release: m.Release})
	}
	if m.Last {
		c.forget(p) // everything of a later Program with this name follows in the writer
	}
}

// programGone handles the end of an actor, and answers the requests that it left. Usually the client has been told the end of the
// Program. Otherwise the actor has failed, the program is killed, and programGone tells the client an end.
func (c *connection) programGone(ctx actor.Context, pid *actor.PID) {
	failed := c.programs[pid.Id]
	if failed != nil && failed.Over() {
		failed = nil // the end waits for the window
	} else if failed != nil {
		c.forget(failed)
	}
	begun := true
	for token, p := range c.pending {
		switch {
		case p.program == nil || !p.program.stream.ref.PID.Equal(pid):
		case p.begins():
			begun = false
			c.reply(ctx, message.Reply{Token: token, Err: protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "internal error: the command was ended")})
		default:
			result, err := p.program.words.Left(p.call)
			c.reply(ctx, message.Reply{Token: token, Result: result, Err: err})
		}
	}
	if failed == nil || !begun {
		return
	}
	c.passLast(ctx, failed.stream) // the waiting parcel comes before the end
	if method, params := failed.words.Lost(); method != "" {
		c.writer.output(outgoing{method: method, body: params})
	}
}
