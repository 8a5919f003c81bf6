package env

import (
	"fmt"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The gate repairs four habits of protoactor. While a stopping actor waits for its children, it
// still handles messages: nobody would stop a child spawned then, and the parent would wait for ever. A
// stopped actor drops its queue silently. After a failure just before Stopping, a restart revives the
// actor. Each PID caches a pointer to the mailbox of its actor, and the mailbox keeps the actor: whoever names a stopped actor
// would keep its memory.

// gate stands between the mailbox of an actor and its Receive, for all instances of the actor, and lets go of a stopped actor. From
// Stopping on, Receive gets only the messages of the end: Stopping and Stopped, once, and the
// Terminated of its children. All other messages are undelivered.
//
// Only the goroutine of the actor's mailbox uses a gate.
type gate struct {
	env      *Env
	queue    actor.Mailbox
	passed   uint8                // messages, for DepthEach
	actor    actor.MessageInvoker // protoactor's context of the actor; nil once the actor has stopped
	self     *actor.PID           // nil before Stopping
	root     *actor.RootContext   // nil before Stopping
	stopping bool                 // Stopping has come
	stopped  bool                 // Stopped has come; stopping is true as well
	watchers []*actor.PID         // by message.Watch: they get a Gone
	prune    int                  // at so many watchers, stopped ones are dropped
}

// admits reports whether Receive gets the message. Otherwise the message is undelivered.
func (g *gate) admits(ctx actor.ReceiverContext, m any) bool {
	was := g.stopping
	switch m.(type) {
	case *actor.Stopping:
		g.stopping = true
		g.self, g.root = ctx.Self(), ctx.ActorSystem().Root
		if s, ok := ctx.(actor.Supervisor); ok {
			s.ResumeChildren(g.self) // messages queued after a failure must reach their gate
		}
		return !was
	case *actor.Started:
		if was && !g.stopped { // the actor had failed before Stopping
			g.root.Stop(g.self)
		}
		return !was
	case *actor.Stopped:
		was, g.stopped = g.stopped, true
		return !was
	}
	return !was || ofSystem(m)
}

// ofSystem reports whether a message belongs to protoactor, such as Terminated.
func ofSystem(m any) bool {
	switch m.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}

// Unexpected logs a message that an actor has no case for, under the name of the actor. Messages of
// protoactor are not logged. A host that has sent a pointer to a message gets an answer.
func (e *Env) Unexpected(ctx actor.Context, name string, m any) {
	if _, letter := m.(*actor.DeadLetterResponse); letter || ofSystem(m) {
		return
	}
	e.Log.Warn("unexpected message", "actor", name, "message", m)
	v := reflect.ValueOf(m)
	if ctx.Sender() == nil || v.Kind() != reflect.Pointer || v.IsNil() || !message.NeedsSender(v.Elem().Interface()) {
		return
	}
	err := protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a troupe takes no %T: send the value, not a pointer", m)
	var answer any = message.Reply{Err: err}
	if a, ok := v.Elem().Interface().(message.Answerable); ok {
		answer = a.Failed(err)
	}
	if answer != nil {
		ctx.Respond(answer)
	}
}

// dropped reports whether a message needs a sender and has none. The caller drops such a message, which dropped has logged.
func (e *Env) dropped(ctx actor.ReceiverContext, env *actor.MessageEnvelope) bool {
	if env.Sender != nil || !message.NeedsSender(env.Message) {
		return false
	}
	e.Log.Warn("a message without a sender was dropped: send it with Request, RequestWithCustomSender or RequestFuture, not with Send",
		"actor", ctx.Self().GetId(), "message", fmt.Sprintf("%T", env.Message))
	e.undelivered(ctx.ActorSystem().Root, ctx.Self(), env.Message, nil)
	return true
}

// refused reports whether a message is wrong, and then answers it.
func refused(ctx actor.ReceiverContext, env *actor.MessageEnvelope) bool {
	m, ok := env.Message.(message.Checked)
	if !ok {
		return false
	}
	err := m.Wrong()
	if _, attaches := m.(message.Attach); attaches && err == nil {
		err = message.FromFuture(ctx, env.Sender)
	}
	if err == nil {
		return false
	}
	ctx.ActorSystem().Root.Send(env.Sender, m.Failed(err))
	return true
}

// behind returns how many messages wait in the mailbox.
func (g *gate) behind() int { return max(g.queue.UserMessageCount(), 0) } // protoactor counts a message after it was posted

// InvokeUserMessage implements actor.MessageInvoker: the mailbox calls it for each message taken from the queue. If
// the actor has stopped, the message is undelivered.
func (g *gate) InvokeUserMessage(queued any) {
	if g.passed++; g.passed%meters.DepthEach == 0 {
		g.env.Meters.Mailbox.Add(g.behind())
	}
	if g.actor != nil {
		g.actor.InvokeUserMessage(queued)
		return
	}
	_, m, sender := actor.UnwrapEnvelope(queued)
	g.env.undelivered(g.root, g.self, m, sender)
}

// InvokeSystemMessage implements actor.MessageInvoker.
func (g *gate) InvokeSystemMessage(m any) {
	if g.actor != nil {
		g.actor.InvokeSystemMessage(m)
		if g.stopped {
			g.actor = nil
		}
		return
	}
	if watch, ok := m.(*actor.Watch); ok {
		if watcher, lives := g.root.ActorSystem().ProcessRegistry.Get(watch.Watcher); lives {
			watcher.SendSystemMessage(watch.Watcher, &actor.Terminated{Who: g.self})
		}
	}
}

// EscalateFailure implements actor.MessageInvoker: the mailbox calls it after a panic.
func (g *gate) EscalateFailure(reason, m any) {
	if g.actor != nil {
		g.actor.EscalateFailure(reason, m)
	} else {
		logPanic(g.env.Log, reason, "actor", g.self.GetId(), "message", fmt.Sprintf("%T", m))
	}
}

// undelivered is for a message without an actor to handle it: a message.Answerable is answered, and a
// message.Holder gives back its resources. Any goroutine may call undelivered.
func (s *Env) undelivered(root *actor.RootContext, to *actor.PID, m any, sender *actor.PID) {
	if h, ok := m.(message.Holder); ok {
		h.GiveBack()
	}
	if a, ok := m.(message.Answerable); ok && sender != nil {
		if answer := a.Unheard(to); answer != nil {
			root.Send(sender, answer)
		}
	}
}

// WatchDeadLetters treats messages to stopped actors under troupe as undelivered, until end is called. Before, no actor
// may call Watch.
func (s *Env) WatchDeadLetters(system *actor.ActorSystem, troupe *actor.PID) (end func()) {
	s.troupe = troupe
	letters := system.EventStream.Subscribe(func(event any) {
		if e, ok := event.(*actor.DeadLetterEvent); ok && (s.ours(e.PID) || s.ours(e.Sender)) {
			s.Meters.Letters.Add(1)
			s.undelivered(system.Root, e.PID, e.Message, e.Sender)
		}
	})
	return func() { system.EventStream.Unsubscribe(letters) }
}
