package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/actors/peer"
)

// Place is a place within a handler.
type Place = env.Place

// WithFaults returns c with hooks that may panic: fault in place of each message
// to an actor (and once for each goroutine of a connection, with its name as the
// message, and at each Place with that), child where child.HostConfig.Fault says.
func WithFaults(c config.Config, fault func(self *actor.PID, message any), child func(point string)) config.Config {
	c.Faults = faults.New(fault, child)
	return c
}

// System returns the actor system of the troupe.
func (t *Troupe) System() *actor.ActorSystem {
	<-t.spawned
	return t.system
}

// Methods is the table of all methods.
var Methods = peer.Methods
