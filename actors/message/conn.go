package message

// Conn is a transport connection as the troupe uses it. Package transport has several kinds. A Conn may also be a Socket.
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

// Socket has further methods, which websockets and frames have.
type Socket interface {
	// SetMaxMessage sets the largest message from now on; 0 means About.MaxMessage.
	SetMaxMessage(bytes int)
	// Gone reports whether this side was closed, or the other side neither reads nor writes any more. The troupe calls Gone while nobody
	// calls ReadMessage.
	Gone() bool
	// Admit says that the client has a session now: the transport does not count the client as a stranger any more.
	Admit()
}
