package env

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Crashed is from a goroutine to its actor, after a panic of the goroutine. The actor panics with the Crashed: the
// supervision decides, as for a panic in Receive.
type Crashed struct {
	Goroutine string
	Reason    any
}

// again is from the guard of an actor to the actor: a message whose handler has panicked.
type again struct {
	message any
	tries   int // how often the handler has panicked
}

// maxTries is how often the guard hands the same message to an actor. Dropping a message at its first
// panic could lose the only news of an end. If a message fails each time, a restartable actor
// ends.
const maxTries = 5

// Reaction is the answer to a panic in Receive.
type Reaction bool

const (
	// Contained: the actor goes on. Actors of the error kernel own children, and have no state for a
	// panic to break. A restart would stop all children. Only a panic in
	// Started, before which there are no children, goes to the parent's strategy.
	Contained Reaction = false
	// Escalated: the parent's strategy decides.
	Escalated Reaction = true
)

// Props returns the Props of one actor: every actor of the tree has a gate, a guard, and Strategy for its
// children, unless opts say otherwise. The Props are for a single actor.
func (s *Env) Props(produce actor.Producer, r Reaction, opts ...actor.PropsOption) *actor.Props {
	g := &gate{env: s}
	opts = append([]actor.PropsOption{
		actor.WithReceiverMiddleware(s.guard(g, r)),
		actor.WithMailbox(newMailbox(g)),
		actor.WithSupervisor(s.Strategy),
		actor.WithDispatcher(s.Workers),
	}, opts...)
	return actor.PropsFromProducer(produce, opts...)
}

// guard passes admitted messages to Receive, and recovers panics.
func (s *Env) guard(g *gate, r Reaction) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			retry, retried := env.Message.(again)
			if retried {
				env = &actor.MessageEnvelope{Header: env.Header, Message: retry.message, Sender: env.Sender}
			}
			if s.dropped(ctx, env) {
				return
			}
			if !g.admits(ctx, env.Message) {
				if !retried {
					s.undelivered(g.root, g.self, env.Message, env.Sender)
				}
				return
			}
			switch env.Message.(type) {
			case message.Watch:
				g.watch(ctx, env.Sender)
				return
			case message.Look:
				ctx.ActorSystem().Root.Send(env.Sender, g.sight(ctx))
				return
			case *actor.Stopped:
				defer g.tellWatchers() // after everything that Receive sends
			}
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				s.Counts.panics.Add(1)
				logPanic(s.Log, reason, "actor", ctx.Self().GetId(), "message", fmt.Sprintf("%T", env.Message))
				switch env.Message.(type) {
				case *actor.Stopping, *actor.Stopped, *actor.Restarting:
					// After a panic in Stopping protoactor revives the actor. After a panic in
					// Stopped the parent waits for ever.
					return
				case *actor.Started:
					panic(reason)
				}
				s.rescue(ctx, env, retry.tries+1)
				if r == Escalated && !g.stopping { // a restart would revive a stopping actor
					panic(reason)
				}
			}()
			if fault := s.Faults.Actor(); fault != nil {
				fault(ctx.Self(), env.Message)
			}
			if !refused(ctx, env) {
				next(ctx, env)
			}
		}
	}
}

// rescue saves a message from being lost: its handler has panicked for the time tries. A message.Answerable
// is answered, and its sender may repeat the request. Nobody would repeat any other message, so the
// actor gets the message again, after all queued messages.
func (s *Env) rescue(ctx actor.ReceiverContext, env *actor.MessageEnvelope, tries int) {
	root := ctx.ActorSystem().Root
	switch m := env.Message.(type) {
	case message.Connect:
		go m.Conn.Close(protocol.CloseInternalError, "internal error") // it may wait for the peer a little
	case message.Answerable:
		if h, ok := m.(message.Holder); ok {
			h.GiveBack() // the answer says that the request has failed
		}
		if env.Sender != nil {
			root.Send(env.Sender, m.Failed(protocol.Errorf(protocol.KindInternal, protocol.CodeInternal,
				"internal error in %T; the request may or may not have taken effect, the session goes on", env.Message)))
		}
	default:
		if tries < maxTries {
			root.RequestWithCustomSender(ctx.Self(), again{m, tries}, env.Sender)
		}
	}
}

// Contain calls f for the actor self, and reports whether f has returned. A panic of f is logged, and goes no further: f is about a part
// of the actor, which can fail alone.
func (s *Env) Contain(self *actor.PID, part string, f func()) (returned bool) {
	defer func() {
		if reason := recover(); reason != nil {
			s.Counts.panics.Add(1)
			logPanic(s.Log, reason, "actor", self.GetId(), "part", part)
		}
	}()
	f()
	return true
}

func logPanic(log *slog.Logger, reason any, args ...any) {
	log.Error("panic", append(args, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))...)
}

// Run calls body on a new goroutine of the actor self, as Guarded says. body may capture PIDs and values,
// never the actor or its context.
func (s *Env) Run(root *actor.RootContext, self *actor.PID, name string, body func()) {
	go s.Guarded(root, self, name, body)()
}

// OnWorker calls f on another goroutine, like go f(). OnWorker is cheaper for a short and frequent f.
func (s *Env) OnWorker(f func()) {
	if s.Workers == nil {
		go f()
		return
	}
	s.Workers.Schedule(f)
}

// Guarded returns a function that calls body. If body panics, the actor self gets a Crashed.
func (s *Env) Guarded(root *actor.RootContext, self *actor.PID, name string, body func()) func() {
	return func() {
		defer func() {
			if reason := recover(); reason != nil {
				s.Counts.panics.Add(1)
				logPanic(s.Log, reason, "actor", self.GetId(), "goroutine", name)
				root.Send(self, Crashed{name, reason})
			}
		}()
		body()
	}
}
