package env

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// protoactor logs each message to a stopped actor at INFO, and a Terminated, Stop or Unwatch is such a message. Two
// actors that watch each other both stop in a normal close, and the second would write to the first. So the actors of a troupe
// watch each other with message.Watch: the gate of the watched actor answers with message.Gone, which protoactor does not log.

// Watch has the actor of ctx receive a message.Gone when the actor pid stops, or if it is not there. An actor of
// the host gets protoactor's own Watch: Terminated comes instead of Gone.
func (s *Env) Watch(ctx actor.Context, pid *actor.PID) {
	if s.ours(pid) {
		ctx.Request(pid, message.Watch{})
	} else {
		ctx.Watch(pid)
	}
}

// Unwatch ends a Watch of an actor of the host. A watcher that stops calls Unwatch: the host's actor would send
// its Terminated to nobody. The actors of a troupe need no Unwatch.
func (s *Env) Unwatch(ctx actor.Context, pid *actor.PID) {
	if !s.ours(pid) {
		Unwatch(ctx, pid)
	}
}

// Unwatch is ctx.Unwatch, except that protoactor logs nothing if the actor pid has stopped.
func Unwatch(ctx actor.Context, pid *actor.PID) {
	if process, ok := ctx.ActorSystem().ProcessRegistry.Get(pid); ok {
		process.SendSystemMessage(pid, &actor.Unwatch{Watcher: ctx.Self()})
	}
}

// StopChildren stops the children of the actor of ctx. protoactor logs nothing if a child has stopped already.
func StopChildren(ctx actor.Context) {
	for _, pid := range slices.Clone(ctx.Children()) {
		if process, ok := ctx.ActorSystem().ProcessRegistry.Get(pid); ok {
			process.Stop(pid)
		}
	}
}

// ours reports whether pid is an actor of the troupe. In the test of a single actor, none is.
func (s *Env) ours(pid *actor.PID) bool {
	t := s.troupe
	return t != nil && pid != nil && pid.Address == t.Address && (pid.Id == t.Id || strings.HasPrefix(pid.Id, t.Id+"/"))
}

// watch adds the sender of a message.Watch to the watchers.
func (g *gate) watch(ctx actor.ReceiverContext, watcher *actor.PID) {
	if watcher == nil || slices.ContainsFunc(g.watchers, watcher.Equal) {
		return
	}
	if len(g.watchers) >= g.prune { // the actor may outlive many watchers
		g.watchers = slices.DeleteFunc(g.watchers, func(pid *actor.PID) bool {
			_, lives := ctx.ActorSystem().ProcessRegistry.Get(pid)
			return !lives
		})
		g.prune = max(8, 2*len(g.watchers))
	}
	g.watchers = append(g.watchers, watcher)
}

// tellWatchers tells the watchers that the actor has stopped.
func (g *gate) tellWatchers() {
	for _, pid := range g.watchers {
		g.root.Send(pid, message.Gone{Who: g.self})
	}
	g.watchers = nil
}
