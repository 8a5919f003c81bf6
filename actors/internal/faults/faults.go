// Package faults has the hooks with which tests make a troupe fail.
package faults

import "github.com/asynkron/protoactor-go/actor"

// Hooks are called at points where a test may panic. The zero Hooks call nothing. Other modules can make no other Hooks: the
// fields are for New alone.
type Hooks struct {
	actor func(self *actor.PID, message any)
	child func(point string)
}

// New returns Hooks. Each may be nil, and then is not called. Any goroutine may call a hook.
//
// onActor is called before each message to an actor, once for each goroutine of a connection (message is the name of the
// goroutine), and at each env.Place (message is the place). child is called where child.HostConfig.Fault says.
func New(onActor func(self *actor.PID, message any), child func(point string)) Hooks {
	return Hooks{actor: onActor, child: child}
}

// Actor returns the hook of actors; nil: there is none.
func (h Hooks) Actor() func(self *actor.PID, message any) { return h.actor }

// Child returns the hook of children; nil: there is none.
func (h Hooks) Child() func(point string) { return h.child }
