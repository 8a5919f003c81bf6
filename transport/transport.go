// Package transport carries whole messages over one connection: a websocket, the
// lines of stdio, or a pipe in memory. It knows nothing of what they mean.
package transport

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Conn carries whole messages over one connection.
type Conn interface {
	// ReadMessage returns the next message. The slice is valid until the next call;
	// one goroutine reads. The error is io.EOF when the other side ended the
	// connection cleanly, a *CloseError when it gave another code, a *LimitError
	// when it sent too much, a *ViolationError when it broke the rules of the transport,
	// ErrDead when it fell silent, io.ErrUnexpectedEOF when
	// it left without a word, and net.ErrClosed after Close; io.EOF and the last three
	// may be wrapped. An error is final. A transport that has a Close frame has then sent
	// the one that the error asks for; every connection then wants a Close.
	ReadMessage() ([]byte, error)

	// WriteMessage writes one message, as binary or as text. It may keep a copy of a
	// small one until Flush or until there is more; what it does not keep the kernel has
	// when it returns; the other side may not have. One goroutine writes. After an
	// error the connection wants a Close.
	WriteMessage(msg []byte, binary bool) error

	// Ping sends a ping with a payload of 1 to 125 bytes, in order with the messages
	// written before it, and like them perhaps not before Flush. The writing goroutine
	// calls it. ErrNoPing when the transport has none (stdio, pipe).
	Ping(payload []byte) error

	// Flush returns when the kernel has all that was written. The writing goroutine
	// calls it before it waits for more to write.
	Flush() error

	// SetPongHandler names who is called, on the reading goroutine, with the payload
	// of each pong to a Ping. That pong says that all written before the Ping has
	// been read. A payload may come twice, or not at all when a later one does: RFC
	// 6455 §5.5.3 lets a peer answer only the latest ping. The slice is the
	// handler's. To be set before the first ReadMessage.
	SetPongHandler(func(payload []byte))

	// Close ends the connection: blocked calls return. Where the transport has a
	// Close frame it carries code and reason, cut to 123 bytes, as far as the other
	// side takes it within CloseWait. Any goroutine may call it any number of times;
	// the first code and reason count.
	Close(code int, reason string) error

	// RemoteAddr names the other side in logs and in error texts.
	RemoteAddr() string

	// Subprotocol is the one that both sides agreed on, "" for none. What comes in frames
	// (see Frames) says so itself: there it is known when ReadMessage has returned one.
	Subprotocol() string
}

// Memory bounds what the messages of one connection may hold while they are read. Any goroutine
// may call it.
type Memory interface {
	// Take waits until n more bytes may be held, at most for patience. Its error is told to the
	// other side.
	Take(n int, patience time.Duration) error
	Give(n int)
	Close() // gives all back, and ends a wait
}

// Codes for Close; package protocol says what each means.
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

// What an option left at zero means.
const (
	DefaultMaxFrame         = protocol.MaxFrame   // bytes of payload
	DefaultMaxMessage       = protocol.MaxMessage // bytes
	DefaultWriteTimeout     = 30 * time.Second
	DefaultPingEvery        = protocol.PingEvery
	DefaultDeadAfter        = protocol.DeadAfter
	DefaultHandshakeTimeout = 10 * time.Second
)

// The pace of messages: once one has begun, paceBytes more of it must come, or its end, within
// each paceTime. So a link of 1 Mbit/s may send a message of any size.
const (
	paceTime  = 10 * time.Second
	paceBytes = 640 << 10
)

// MaxFramed is the most that a length-prefixed frame holds, in bytes.
const MaxFramed = 8 << 20

// CloseWait is how long Close may wait for a Close frame to be taken. It waits at
// all only when the other side does not read.
const CloseWait = 250 * time.Millisecond

// Subprotocols. JSON is what is spoken without one.
const (
	SubprotocolJSON    = "troupe.json"
	SubprotocolMsgpack = "troupe.msgpack"
)

// ErrNoPing means that the transport has no pings.
var ErrNoPing = fmt.Errorf("transport: this connection has no pings: %w", errors.ErrUnsupported)

// ErrDead means that nothing came, not even a pong, for as long as DeadAfter.
var ErrDead = errors.New("transport: connection is dead")

// errClosed is what our own Close leaves behind.
var errClosed = fmt.Errorf("transport: this side closed the connection: %w", net.ErrClosed)

// A CloseError is a Close by the other side with a code that is not CloseNormal.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("transport: the other side closed the connection: code %d %q", e.Code, e.Reason)
}

// A LimitError means that the other side sent more than Max bytes at once.
type LimitError struct {
	What string // "frame", "message" or "line"
	Max  int    // bytes
}

func (e *LimitError) Error() string { return "transport: " + e.reason() }

// reason is what the other side is told in the Close frame.
func (e *LimitError) reason() string {
	return fmt.Sprintf("%s over the limit of %d bytes", e.What, e.Max)
}

// orDefault makes options useful at zero. Below zero they mean nothing, so the same.
func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
