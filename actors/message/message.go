// Package message has the messages that the actors of a troupe send to each other, and Conn, through
// which a connection reaches its client. A message is a value: nobody changes a message after it was
// sent.
//
// The messages stand in one file for each receiver. host.go has the messages that a troupe and an
// actor of the host exchange; package actors has an alias for each.
package message

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Answerable is a message whose sender waits for an answer. If no actor handles the message to its
// end, the environment of the actors (actors/internal/env) sends the answer.
type Answerable interface {
	// Failed returns the answer when the receiver has panicked: err says so.
	Failed(err *protocol.Error) any
	// Unheard returns the answer when the receiver, to, had ended before it could handle the
	// message. Nil: the sender learns of that end in another way.
	Unheard(to *actor.PID) any
}

// NeedsSender reports whether the receiver of a message needs to know the sender. Hosts send these messages; actors send Watch, too.
func NeedsSender(m any) bool {
	switch m.(type) {
	case Attach, Request, Subscribe, Pull, Ack, Unsubscribe, Watch:
		return true
	}
	return false
}

// Checked is a message that a host may fill in wrongly. The environment of the actors answers a wrong message, and no actor
// receives it.
type Checked interface {
	Answerable
	// Wrong returns the error in the answer to a wrong message; nil: the message is right.
	Wrong() *protocol.Error
}

// Holder is a message that carries something to be given back: memory, or an open connection.
type Holder interface {
	// GiveBack gives back everything that the message carries. The environment of the actors
	// calls GiveBack when no actor handles the message. GiveBack does not block.
	GiveBack()
}
