// Package faults has the hooks with which tests make a troupe fail.
package faults

import "github.com/asynkron/protoactor-go/actor"

// Hooks are called at points where a test may panic. A nil hook is not called. Any
// goroutine may call a hook.
type Hooks struct {
	// Actor is called before each message to an actor, once for each goroutine of a
	// connection (message is the name of the goroutine), and at each env.Place (message is
	// the place).
	Actor func(self *actor.PID, message any)
	// Child is called where child.HostConfig.Fault says.
	Child func(point string)
}
