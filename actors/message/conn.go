package message

import (
	"github.com/b6f6fdd7/troupe/protocol"
)

// Conn is what a troupe needs of a transport connection. Package transport has
// several.
type Conn interface {
	// ReadMessage returns the next message, which is valid until the next call.
	//
	// An error with a method InputEnded() bool that reports true means that the other
	// side sends no more and may still read: what it has sent is answered.
	ReadMessage() ([]byte, error)
	// WriteMessage writes one message. Ping sends the payload behind it, to come
	// back to the handler of pongs; its error is an errors.ErrUnsupported if the
	// transport has none. Both may wait for more until Flush. One goroutine calls these.
	WriteMessage(msg []byte, binary bool) error
	Ping(payload []byte) error
	Flush() error
	// SetPongHandler is called before the first ReadMessage; the handler runs
	// within ReadMessage.
	SetPongHandler(func(payload []byte))
	// Close ends the connection, if it can with a Close frame (RFC 6455 §7.4).
	// Any goroutine, any number of times.
	Close(code int, reason string) error
	RemoteAddr() string
	// Subprotocol is troupe.msgpack for that; anything else means JSON. It is asked once,
	// when the first message has come.
	Subprotocol() string

	// A Conn may have a method MaxMessage() int: the most that a message may have on it,
	// in bytes, in either direction. It may have a method Gone() bool: the other side neither
	// reads nor writes any more. That is asked while nobody calls ReadMessage. It may have a
	// method Admit(): the client has a session, and is no stranger any more; and a method
	// SetMaxMessage(bytes int): messages may have that many from now on, 0 means MaxMessage. It may have a
	// method Peer() string, which names the machine or user at the other side: see Config.MaxSessionsEach.
}

// DisconnectAll is from Shutdown, when no session is left: let no connection live.
type DisconnectAll struct{}

// Why a session ends; clients are told.
const (
	ReasonShutdown = "server shutdown"
	ReasonClosed   = "session closed by request"
)

// Connect is from Accept, to the root and on to connections.
type Connect struct{ Conn Conn }

func (m Connect) GiveBack() { go m.Conn.Close(protocol.CloseGoingAway, ReasonShutdown) } // it may wait for the peer a little
