package env

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// protoactor handles messages while a stopping actor waits for its children, drops without a
// word what is queued when an actor has stopped, and restarts an actor that was to stop if an
// earlier failure asked for it. A child that is spawned after Stopping is stopped by nobody, and
// its parent waits for it for ever. The gate closes all three, for every actor of the tree.

// A holder is a message that carries something to be given back. giveBack does so when no
// actor handles the message. It may not block.
type holder interface{ GiveBack() }

// gate stands between the mailbox of one actor and its Receive, for all instances of the
// actor. From Stopping on, Receive gets only what ends an actor: Stopping and Stopped, once,
// and the Terminated of its children. All other messages are undelivered.
//
// The goroutine that runs the actor's mailbox is the only one that uses it.
type gate struct {
	shared   *Env
	self     *actor.PID
	root     *actor.RootContext
	stopping bool
	stopped  bool
}

// admits reports whether Receive gets the message.
func (g *gate) admits(ctx actor.ReceiverContext, message any) bool {
	was := g.stopping
	switch message.(type) {
	case *actor.Stopping:
		g.stopping = true
		g.self, g.root = ctx.Self(), ctx.ActorSystem().Root
		if s, ok := ctx.(actor.Supervisor); ok {
			s.ResumeChildren(g.self) // what is queued behind a failure is undelivered, too
		}
		return !was
	case *actor.Started:
		if was && !g.stopped { // restarted for a failure before Stopping
			g.root.Stop(g.self)
		}
		return !was
	case *actor.Stopped:
		was, g.stopped = g.stopped, true
		return !was
	}
	return !was || ofSystem(message)
}

// ofSystem reports whether a message is protoactor's own: Terminated is.
func ofSystem(message any) bool {
	switch message.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}

// MessageReceived implements actor.MailboxMiddleware: it is called for each message that was
// taken from the mailbox. An actor that has stopped does not handle it.
func (g *gate) MessageReceived(message any) {
	if !g.stopped {
		return
	}
	_, message, sender := actor.UnwrapEnvelope(message)
	g.shared.undelivered(g.root, g.self, message, sender)
}

func (g *gate) MessagePosted(any) {}

func (g *gate) MailboxStarted() {}

func (g *gate) MailboxEmpty() {}

// undelivered answers a message that no actor will handle if it is a request, and has it give
// back what it holds. Any goroutine.
func (s *Env) undelivered(root *actor.RootContext, to *actor.PID, message any, sender *actor.PID) {
	// A message whose handling failed (again) may have been given back by the one who failed.
	if h, ok := message.(holder); ok {
		h.GiveBack()
	}
	if a, ok := message.(answerable); ok && sender != nil {
		if answer := a.Unheard(to); answer != nil {
			root.Send(sender, answer)
		}
	}
}

// WatchDeadLetters has the messages to actors under troupe that are gone count as undelivered,
// until the returned function is called.
func (s *Env) WatchDeadLetters(system *actor.ActorSystem, troupe *actor.PID) (end func()) {
	ours := func(pid *actor.PID) bool {
		return pid != nil && pid.Address == troupe.Address && (pid.Id == troupe.Id || strings.HasPrefix(pid.Id, troupe.Id+"/"))
	}
	letters := system.EventStream.Subscribe(func(event any) {
		if e, ok := event.(*actor.DeadLetterEvent); ok && (ours(e.PID) || ours(e.Sender)) {
			s.undelivered(system.Root, e.PID, e.Message, e.Sender)
		}
	})
	return func() { system.EventStream.Unsubscribe(letters) }
}
