// Package transport carries whole messages over a connection: a websocket, length-prefixed frames,
// lines on stdio, or a pipe in memory. The package does not look into the messages, except for a token in
// the first message of frames.
//
// # Where to look
//
//   - transport.go: the interface Conn
//   - server.go, dial.go, tls.go: listening and dialling
//   - given.go: the socket that a service manager has opened
//   - handover.go: the bytes of a websocket that another node serves
//   - pages.go: web pages of a server, and what they may do
//   - websocket.go, frames.go, stdio.go, pipe.go: the kinds of connections
//   - wire.go, direct_linux.go, quickack_linux.go: the socket below: deadlines, signs of life, system calls
//   - assembly.go: messages that come in, and their memory
//   - visitor.go: what a server knows of a connection, from its accept to its end
//   - lobby.go, places.go: who has no session yet, and who gives way; how many connections one identity or address may have
//   - passes.go, auth: credentials of open connections; package auth says who connects
//   - ended.go: which Close code answers which end
package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Conn carries whole messages over a connection.
type Conn interface {
	// ReadMessage returns the next message. The slice is valid until the next call. A single goroutine
	// reads. The errors are:
	//
	//  - io.EOF: the other side ended the connection cleanly.
	//  - *CloseError: the other side sent another close code.
	//  - *LimitError: the other side sent too much.
	//  - *ViolationError: the other side broke the rules of the transport.
	//  - ErrDead: the other side fell silent.
	//  - io.ErrUnexpectedEOF: the other side left without a Close frame.
	//  - net.ErrClosed: Close was called.
	//
	// io.EOF, ErrDead, io.ErrUnexpectedEOF and net.ErrClosed may be wrapped. An error is final. A
	// websocket has then sent the Close frame for the error; the caller must still call Close.
	ReadMessage() ([]byte, error)

	// WriteMessage writes a message, as binary or as text. It may copy a small message and keep the
	// copy until Flush or a larger write. When WriteMessage returns, the kernel has every message not
	// kept; the other side may not have received it. A single goroutine writes. After an error the
	// caller must call Close.
	WriteMessage(msg []byte, binary bool) error

	// Ping sends a ping with a payload of 1 to 125 bytes, after the messages written before. Like a
	// message, a ping may wait for Flush. Only the writing goroutine calls Ping. If the transport has
	// no pings (stdio, frames, pipe), Ping returns ErrNoPing.
	Ping(payload []byte) error

	// Flush returns when the kernel has all messages written so far. The writing goroutine calls Flush
	// before waiting for more messages to write.
	Flush() error

	// SetPongHandler sets the function that the reading goroutine calls with the payload of each pong
	// to a Ping. The pong says: the other side has read all messages written before the Ping. A payload
	// may come twice. A payload may not come at all if a later payload does: RFC 6455 §5.5.3 lets a
	// peer answer only the latest ping. The handler owns the slice. The caller sets the handler before
	// the first ReadMessage.
	SetPongHandler(func(payload []byte))

	// Close ends the connection and makes blocked calls return. If the transport has a Close frame, the
	// frame carries code and reason, cut to 123 bytes; Close waits up to CloseWait for the other side
	// to take the frame. Any goroutine may call Close any number of times; the first code and reason
	// count.
	Close(code int, reason string) error

	// RemoteAddr names the other side for logs and error texts.
	RemoteAddr() string

	// About returns what is known about the client of a server's connection. On other connections all members about the client are zero.
	About() About

	// Subprotocol returns the subprotocol that both sides agreed on, or "" for none. On a server's
	// connection of frames (see Frames), the subprotocol is known once ReadMessage has returned the
	// first message.
	Subprotocol() string
}

// About is what a transport knows about a client.
type About = identity.About

// Memory bounds the bytes held by the messages of one connection while they are read. Any goroutine may
// call the methods.
type Memory interface {
	// Take waits, at most for patience, until n more bytes may be held. The connection sends the text
	// of an error to the other side.
	Take(n int, patience time.Duration) error
	// Give returns n bytes.
	Give(n int)
	Close() // gives all bytes back, and ends a waiting Take
}

// Codes for Close; package protocol explains them.
const (
	CloseNormal        = protocol.CloseNormal
	CloseGoingAway     = protocol.CloseGoingAway
	CloseProtocolError = protocol.CloseProtocolError
	ClosePolicy        = protocol.ClosePolicy
	CloseTooBig        = protocol.CloseTooBig
	CloseInternalError = protocol.CloseInternalError
	CloseTryLater      = protocol.CloseTryLater
	CloseLost          = protocol.CloseLost
)

// Defaults of options left at zero.
const (
	DefaultMaxFrame         = protocol.MaxFrame   // bytes of payload
	DefaultMaxMessage       = protocol.MaxMessage // bytes
	DefaultWriteTimeout     = 30 * time.Second
	DefaultPingEvery        = protocol.PingEvery
	DefaultDeadAfter        = protocol.DeadAfter
	DefaultCheckEvery       = 2 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultReadBuffer       = 64 << 10 // bytes, of a client
)

// Once a message has begun, paceBytes more of the message, or its end, must come within each paceTime.
// So a link of 1 Mbit/s can send a message of any size.
const (
	paceTime  = 10 * time.Second
	paceBytes = 640 << 10
)

// MaxFramed is the largest message in a length-prefixed frame, in bytes.
const MaxFramed = 8 << 20

// CloseWait is how long Close may wait for the other side to take a Close frame. Close waits only if
// the other side does not read. A client that exits after Close waits as long for Settled.
const CloseWait = 250 * time.Millisecond

// Websocket subprotocols. A connection without a subprotocol speaks JSON.
const (
	SubprotocolJSON    = "troupe.json"
	SubprotocolMsgpack = "troupe.msgpack"
)

// ErrNoPing means: the transport has no pings.
var ErrNoPing = fmt.Errorf("transport: this connection has no pings: %w", errors.ErrUnsupported)

// ErrDead means: nothing came for DeadAfter, not even a pong.
var ErrDead = errors.New("transport: connection is dead")

// errClosed is the error of calls after this side called Close.
var errClosed = fmt.Errorf("transport: this side closed the connection: %w", net.ErrClosed)

// A CloseError reports a Close frame of the other side with another code than CloseNormal.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("transport: the other side closed the connection: code %d %q", e.Code, e.Reason)
}

// IsCut reports whether err is the end of a connection without a Close frame: the server may have been killed, and another one may follow.
// A proxy in front of the server then answers 502.
func IsCut(err error) bool {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Status == http.StatusBadGateway
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

// A LimitError reports a frame, message or line from the other side of more than Max bytes.
type LimitError struct {
	What string // "frame", "message" or "line"
	Max  int    // bytes
}

func (e *LimitError) Error() string { return "transport: " + e.reason() }

// reason is the text in the Close frame.
func (e *LimitError) reason() string {
	return fmt.Sprintf("%s over the limit of %d bytes", e.What, e.Max)
}

// orDefault returns def for an option that is zero or below.
func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
