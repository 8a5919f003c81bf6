package transport

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// A Relayable is a connection of a server with ServerOptions.Relays: another server may serve the client over the same bytes.
type Relayable interface {
	Conn

	// Peek returns the first message, of at most so many bytes. The first ReadMessage returns the message again. Peek is called once, before
	// ReadMessage, and has its errors. The slice is valid until ReadMessage or HandOver.
	Peek(most int) ([]byte, error)

	// HandOver returns the stream below the connection, and every byte that was read from the stream since the handshake: the client's frames.
	// HandOver is called after Peek, in place of ReadMessage. From then on, nothing but the caller writes to the stream, and only Close counts
	// among the methods of the connection: it closes the stream. The server closes the stream when the client's credential is no longer right.
	HandOver() (s Stream, read []byte)
}

// A Stream carries the bytes of a websocket.
type Stream interface {
	net.Conn
	CloseWrite() error
	// Await waits until Read would not wait, or would wait only for the rest of a record of TLS. So a reader needs no buffer while nothing comes.
	Await() error
}

// Relay makes a server one for other servers, which relay their clients: each websocket is a client's. The handshake of TLS says which server it is, so
// ServerOptions.TLS asks for certificates.
type Relay struct {
	// Client returns who is at the other end of a websocket, and the address of the client for the log. The error is a *RefusedError.
	Client func(r *http.Request, from *tls.ConnectionState) (about About, remote string, err error)
	// Still returns why a server may relay no longer; nil: it may. The server asks again after each change of Edition.
	Still   func(from *tls.ConnectionState) error
	Edition func() uint64
	// Other answers all other requests. They have no Origin.
	Other func(w http.ResponseWriter, r *http.Request, from *tls.ConnectionState)
}

// record has the bytes that were read from a wire since the handshake.
type record struct {
	on   bool
	read []byte
}

func (r *record) add(p []byte) {
	if r.on {
		r.read = append(r.read, p...)
	}
}

// take returns the bytes, and ends the record.
func (r *record) take() []byte {
	read := r.read
	*r = record{}
	return read
}

// Peek implements Relayable.
func (c *webSocket) Peek(most int) ([]byte, error) {
	c.SetMaxMessage(most)
	msg, err := c.ReadMessage()
	c.peeked = err == nil
	return msg, err
}

// HandOver implements Relayable.
func (c *webSocket) HandOver() (Stream, []byte) {
	l := c.wire.state()
	c.keeping.Stop()
	l.writing.Lock() // a ping or a pong may be on its way
	l.handed = true
	l.writing.Unlock()
	l.visitor.handOver()
	c.message.close()
	c.message.buf = nil
	c.wire.SetReadDeadline(time.Time{})
	return &handed{c.wire.below(), c}, l.record.take()
}

// handed is the stream of a connection that was handed over.
type handed struct {
	Stream
	of *webSocket
}

// Read implements net.Conn.
func (h *handed) Read(p []byte) (int, error) {
	n, err := h.Stream.Read(p)
	if n > 0 {
		h.of.wire.state().visitor.hears()
	}
	return n, err
}

// Close implements net.Conn.
func (h *handed) Close() error { return h.of.Close(CloseGoingAway, "") }

// handOver records that another server serves v. That server pings the client, and answers the client's silence.
func (v *visitor) handOver() {
	v.admit()
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.ask, v.handed = nil, true
}
