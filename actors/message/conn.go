package message

// Conn is a transport connection as the troupe uses it. Package transport has several kinds.
//
// A Conn may have further methods:
//
//   - MaxMessage() int: the largest message in either direction, in bytes.
//   - SetMaxMessage(bytes int): sets the largest message from now on; 0 means MaxMessage.
//   - Gone() bool: this side was closed, or the other side neither reads nor writes any more. The troupe calls Gone while nobody
//     calls ReadMessage.
//   - Admit(): the client has a session now, and the transport does not count it as a stranger any more.
//   - OnlyResumes() string: why only a client that resumes a session may use the connection, such as a
//     limit that is used up; "": any client may.
//   - Peer() string: names the machine or the user at the other side, for Config.MaxSessionsEach.
//   - Identity() identity.Identity: who the client is, and whose sessions the client may reach. For all
//     other clients, a session does not exist. Zero: clients are alike.
//   - ReadsToken() bool: the transport looks for a credential in initialize; without ReadsToken, the
//     troupe refuses an initialize with a token, because nobody reads it.
type Conn interface {
	// ReadMessage returns the next message, which is valid until the next call.
	//
	// If the error has a method InputEnded() bool that reports true, the other side sends no more but
	// may still read: the troupe answers everything that the other side has sent.
	ReadMessage() ([]byte, error)
	// WriteMessage writes one message. The message may wait in a buffer until Flush. One goroutine calls
	// WriteMessage, Ping and Flush.
	WriteMessage(msg []byte, binary bool) error
	// Ping sends the payload after all earlier messages. The other side sends the payload back, for
	// the handler of pongs. If the transport has no pings, the error is an errors.ErrUnsupported.
	Ping(payload []byte) error
	// Flush writes everything that waits in a buffer.
	Flush() error
	// SetPongHandler is called before the first ReadMessage. The handler runs within ReadMessage.
	SetPongHandler(func(payload []byte))
	// Close ends the connection, with a Close frame (RFC 6455 §7.4) if the transport has them. Any
	// goroutine may call Close, any number of times.
	Close(code int, reason string) error
	// RemoteAddr returns the address of the other side, for the log.
	RemoteAddr() string
	// Subprotocol returns troupe.msgpack for that encoding; anything else means JSON. The troupe
	// calls Subprotocol once, when the first message has come.
	Subprotocol() string
}
