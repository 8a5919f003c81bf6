package env

import "github.com/asynkron/protoactor-go/actor"

// An Outbox holds the messages that an actor sends while it handles a message, until the record of the actor is kept. So nobody hears of a state
// that the next server would not know. Messages, and functions of Then, have their effect in the order in which they were given.
//
// A nil Outbox holds nothing. Only the goroutine of the actor's mailbox uses an Outbox. A handler sends a bounded number of messages.
type Outbox struct {
	keep func()
	send actor.SenderFunc
	open bool // the actor handles a message
	held []mail
}

// A mail is a message on its way, or a function that waits.
type mail struct {
	then func() // nil: a message
	ctx  actor.SenderContext
	to   *actor.PID
	env  *actor.MessageEnvelope
}

// NewOutbox returns an outbox that calls keep after each message that its actor has handled, also after a panic. Without an estate NewOutbox
// returns nil.
func (s *Env) NewOutbox(keep func()) *Outbox {
	if s.Estate == nil {
		return nil
	}
	return &Outbox{keep: keep}
}

// Props gives an actor the outbox.
func (o *Outbox) Props(p *actor.Props) {
	if o != nil {
		actor.WithReceiverMiddleware(o.receiver)(p)
		actor.WithSenderMiddleware(o.sender)(p)
	}
}

// Then has f called once the record is kept.
func (o *Outbox) Then(f func()) {
	if o == nil || !o.open {
		f()
		return
	}
	o.held = append(o.held, mail{then: f})
}

func (o *Outbox) receiver(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		o.open = true
		defer o.leave()
		next(ctx, env)
	}
}

func (o *Outbox) sender(next actor.SenderFunc) actor.SenderFunc {
	o.send = next
	return func(ctx actor.SenderContext, to *actor.PID, env *actor.MessageEnvelope) {
		if o.open {
			o.held = append(o.held, mail{ctx: ctx, to: to, env: env})
			return
		}
		next(ctx, to, env)
	}
}

// leave keeps the record, and then does what was held. A function of Then gives nothing more to the outbox.
func (o *Outbox) leave() {
	o.open = false
	o.keep()
	held := o.held
	o.held = held[:0] // a panic loses what is left, and does not come again with the next message
	for i, m := range held {
		held[i] = mail{}
		if m.then != nil {
			m.then()
		} else {
			o.send(m.ctx, m.to, m.env)
		}
	}
}
