package message

import (
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// WatchServer is from a connection, through the root, to the actor that watches all sessions: Who gets what changes, in a WatchPiece for each PullPiece. An earlier
// WatchServer of the connection is over, and the state begins anew. The end of the connection ends the watch.
type WatchServer struct {
	Who    identity.Identity
	Every  time.Duration // the shortest time between two changes of a number. 0: the watch is over
	Serial uint64        // comes back in each WatchPiece
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the server may be ending.
func (WatchServer) IgnoreDeadLetterLogging() {}

// PullPiece is from a connection, through the root, to the actor that watches all sessions: the last WatchPiece was written, and the connection has room for one more.
type PullPiece struct{ Serial uint64 } // as in WatchServer

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: as with WatchServer.
func (PullPiece) IgnoreDeadLetterLogging() {}

// WatchPiece is from the actor that watches all sessions to a connection. It answers PullPiece, as soon as there is something to tell.
type WatchPiece struct {
	Serial uint64 // as in WatchServer
	protocol.ServerChangedNotification
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the connection may have ended.
func (WatchPiece) IgnoreDeadLetterLogging() {}
