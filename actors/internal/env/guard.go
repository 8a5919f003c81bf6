package env

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A request whose actor fails over it is answered all the same: its message is
// lost (protoactor delivers it to no later instance), and nobody else would.
type answerable interface {
	// failed is the message to the sender that says so.
	Failed(*protocol.Error) any
	// unheard is the message to the sender when the actor to has ended, and did not handle the
	// request; nil: the sender hears of that end by other means.
	Unheard(to *actor.PID) any
}

// Crashed is sent by a goroutine of an actor that panicked, to that actor, which
// panics with it: supervision decides, as if it had happened in Receive.
type Crashed struct {
	Goroutine string
	Reason    any
}

// again is from the guard of an actor: a message over which it failed, once more.
// What is no request has nobody who would repeat it: a stop, a timer.
type again struct {
	message any
	tries   int // how often it has failed
}

// maxTries is how often a message is tried that is no request. One that is dropped may be the
// only one that tells of an end, and a message that fails each time ends a restartable actor.
const maxTries = 5

// Reaction is what becomes of an actor that panics in Receive.
type Reaction bool

const (
	// contained: the actor goes on. For the error kernel: what owns children, and
	// has no state that could be broken. A restart there would stop every child;
	// only Started, before which it has none, is escalated.
	Contained Reaction = false
	// escalated: the parent's strategy decides.
	Escalated Reaction = true
)

// Props returns the Props of every actor of the tree: with the gate and the guard around its
// Receive, and with the one strategy for its children. They are for one actor each.
func (s *Env) Props(produce actor.Producer, r Reaction, opts ...actor.PropsOption) *actor.Props {
	g := &gate{shared: s}
	opts = append([]actor.PropsOption{
		actor.WithReceiverMiddleware(s.guard(g, r)),
		actor.WithMailbox(actor.Unbounded(g)),
		actor.WithSupervisor(s.Strategy),
		actor.WithDispatcher(s.Workers),
	}, opts...)
	return actor.PropsFromProducer(produce, opts...)
}

// guard logs each panic once, with its stack. The message that protoactor loses
// with it is answered if it is a request, and else done again, after what is in the
// mailbox, up to maxTries times. It lets no panic out of the messages that end an actor:
// protoactor resurrects an actor that panics in Stopping, and waits for ever for
// the parent of one that panics in Stopped.
func (s *Env) guard(g *gate, r Reaction) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			retry, retried := env.Message.(again)
			if retried {
				env = &actor.MessageEnvelope{Header: env.Header, Message: retry.message, Sender: env.Sender}
			}
			if !g.admits(ctx, env.Message) {
				if !retried {
					s.undelivered(g.root, g.self, env.Message, env.Sender)
				}
				return
			}
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				root := ctx.ActorSystem().Root
				s.Counts.panics.Add(1)
				logPanic(s.Log, reason, "actor", ctx.Self().GetId(), "message", fmt.Sprintf("%T", env.Message))
				switch m := env.Message.(type) {
				case *actor.Stopping, *actor.Stopped, *actor.Restarting:
					return
				case *actor.Started:
					panic(reason)
				case message.Connect:
					go m.Conn.Close(protocol.CloseInternalError, "internal error") // it may wait for the peer a little
				case answerable:
					if h, ok := m.(holder); ok {
						h.GiveBack() // who asked is told that nothing came of it
					}
					if env.Sender != nil {
						root.Send(env.Sender, m.Failed(protocol.Errorf(protocol.CodeInternal,
							"internal error in %T; the request may or may not have taken effect, the session goes on", env.Message)))
					}
				default:
					if tries := retry.tries + 1; tries < maxTries {
						root.RequestWithCustomSender(ctx.Self(), again{m, tries}, env.Sender)
					}
				}
				if r == Escalated && !g.stopping { // a restart would bring it back
					panic(reason)
				}
			}()
			if s.Faults.Actor != nil {
				s.Faults.Actor(ctx.Self(), env.Message)
			}
			next(ctx, env)
		}
	}
}

func logPanic(log *slog.Logger, reason any, args ...any) {
	log.Error("panic", append(args, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))...)
}

// Run starts a goroutine of the actor self. It may capture what is passed to it
// and self, never the context of the actor or the actor itself.
func (s *Env) Run(root *actor.RootContext, self *actor.PID, name string, body func()) {
	go s.Guarded(root, self, name, body)()
}

// OnWorker is go f(), for what has little to do and often.
func (s *Env) OnWorker(f func()) {
	if s.Workers == nil {
		go f()
		return
	}
	s.Workers.Schedule(f)
}

// Guarded is body for a goroutine of the actor self, which hears of its panic.
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
