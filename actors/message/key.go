package message

import "github.com/asynkron/protoactor-go/actor"

// Key stands for an actor in maps: two PIDs of one actor have equal Keys. (PID.String is slow.)
type Key struct{ address, id string }

// KeyOf returns the Key of an actor.
func KeyOf(pid *actor.PID) Key { return Key{pid.Address, pid.Id} }
