package message

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

// Key stands for an actor in maps: two PIDs of one actor have equal Keys. (PID.String is slow.)
type Key struct{ address, id string }

// KeyOf returns the Key of an actor.
func KeyOf(pid *actor.PID) Key { return Key{pid.Address, pid.Id} }

// NewName returns a name that no other actor has: prefix and a UUID. Names sort as they were made, also when the clock is set back.
func NewName(prefix string) string { return prefix + uuid.Must(uuid.NewV7()).String() }

// LastName returns the name of an actor under its parent. The LastName of a session's supervisor is the
// id of the session.
func LastName(pid *actor.PID) string { return pid.Id[strings.LastIndexByte(pid.Id, '/')+1:] }

// ConnectionOf returns the name of the connection to which an actor belongs: a connection, or a command of it.
// An actor of the host has its own LastName.
func ConnectionOf(pid *actor.PID) string {
	for name := range strings.SplitSeq(pid.Id, "/") {
		if strings.HasPrefix(name, ConnectionPrefix) {
			return name
		}
	}
	return LastName(pid)
}

// ConnectionPrefix begins the name of each actor of a connection.
const ConnectionPrefix = "c-"

// FromFuture returns why the sender of a message can be neither attached nor a viewer; nil: it can. protoactor's futures
// (RequestFuture) send no Terminated when they go.
func FromFuture(ctx actor.ReceiverContext, sender *actor.PID) *protocol.Error {
	if sender.Address != ctx.Self().Address {
		return nil
	}
	process, ok := ctx.ActorSystem().ProcessRegistry.GetLocal(sender.Id)
	if _, lives := process.(*actor.ActorProcess); lives || !ok {
		return nil
	}
	return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "the sender %s is a future, which is gone with the answer: send the message with Request from an actor", sender.Id)
}
