package message

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Who is an actor as a key of maps; PID.String is slow.
type Who struct{ address, id string }

// WhoOf returns the key of an actor.
func WhoOf(pid *actor.PID) Who { return Who{pid.Address, pid.Id} }
