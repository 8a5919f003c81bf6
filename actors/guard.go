package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A request whose actor fails over it is answered all the same: its message is
// lost (protoactor delivers it to no later instance), and nobody else would.
type answerable interface {
	// failed is the message to the sender that says so.
	failed(*protocol.Error) any
	// unheard is the message to the sender when the actor to has ended, and did not handle the
	// request; nil: the sender hears of that end by other means.
	unheard(to *actor.PID) any
}

// crashed is sent by a goroutine of an actor that panicked, to that actor, which
// panics with it: supervision decides, as if it had happened in Receive.
type crashed struct {
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

// reaction is what becomes of an actor that panics in Receive.
type reaction bool

const (
	// contained: the actor goes on. For the error kernel: what owns children, and
	// has no state that could be broken. A restart there would stop every child;
	// only Started, before which it has none, is escalated.
	contained reaction = false
	// escalated: the parent's strategy decides.
	escalated reaction = true
)

// props returns the Props of every actor of the tree: with the gate and the guard around its
// Receive, and with the one strategy for its children. They are for one actor each.
func (s *shared) props(produce actor.Producer, r reaction, opts ...actor.PropsOption) *actor.Props {
	g := &gate{shared: s}
	opts = append([]actor.PropsOption{
		actor.WithReceiverMiddleware(s.guard(g, r)),
		actor.WithMailbox(actor.Unbounded(g)),
		actor.WithSupervisor(s.strategy),
		actor.WithDispatcher(s.workers),
	}, opts...)
	return actor.PropsFromProducer(produce, opts...)
}

// guard logs each panic once, with its stack. The message that protoactor loses
// with it is answered if it is a request, and else done again, after what is in the
// mailbox, up to maxTries times. It lets no panic out of the messages that end an actor:
// protoactor resurrects an actor that panics in Stopping, and waits for ever for
// the parent of one that panics in Stopped.
func (s *shared) guard(g *gate, r reaction) actor.ReceiverMiddleware {
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
				s.counts.panics.Add(1)
				logPanic(s.Log, reason, "actor", ctx.Self().GetId(), "message", fmt.Sprintf("%T", env.Message))
				switch m := env.Message.(type) {
				case *actor.Stopping, *actor.Stopped, *actor.Restarting:
					return
				case *actor.Started:
					panic(reason)
				case connect:
					go m.conn.Close(protocol.CloseInternalError, "internal error") // it may wait for the peer a little
				case answerable:
					if h, ok := m.(holder); ok {
						h.giveBack() // who asked is told that nothing came of it
					}
					if env.Sender != nil {
						root.Send(env.Sender, m.failed(protocol.Errorf(protocol.CodeInternal,
							"internal error in %T; the request may or may not have taken effect, the session goes on", env.Message)))
					}
				default:
					if tries := retry.tries + 1; tries < maxTries {
						root.RequestWithCustomSender(ctx.Self(), again{m, tries}, env.Sender)
					}
				}
				if r == escalated && !g.stopping { // a restart would bring it back
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

// run starts a goroutine of the actor self. It may capture what is passed to it
// and self, never the context of the actor or the actor itself.
func (s *shared) run(root *actor.RootContext, self *actor.PID, name string, body func()) {
	go s.guarded(root, self, name, body)()
}

// onWorker is go f(), for what has little to do and often.
func (s *shared) onWorker(f func()) {
	if s.workers == nil {
		go f()
		return
	}
	s.workers.Schedule(f)
}

// guarded is body for a goroutine of the actor self, which hears of its panic.
func (s *shared) guarded(root *actor.RootContext, self *actor.PID, name string, body func()) func() {
	return func() {
		defer func() {
			if reason := recover(); reason != nil {
				s.counts.panics.Add(1)
				logPanic(s.Log, reason, "actor", self.GetId(), "goroutine", name)
				root.Send(self, crashed{name, reason})
			}
		}()
		body()
	}
}
