package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

const (
	holdMessage = 4 << 10  // bytes of a message that may wait for Flush; larger messages are not copied
	holdMax     = 32 << 10 // bytes of all waiting frames

	minBuffer  = 512 // bytes: the first size of a message's buffer
	maxPayload = 125 // bytes in a control frame; RFC 6455 §5.5
	maxReason  = maxPayload - 2
)

// settings are the options of either side of a websocket, with defaults filled in.
type settings struct {
	masks                              bool // true for a client (RFC 6455 §5.1)
	maxFrame, maxMessage               int  // maxFrame 0: frames are not limited
	writeTimeout, pingEvery, deadAfter time.Duration
	pace                               time.Duration // of a server: the time in which paceBytes of a message must come
	memory                             func() Memory // nil: the memory of all messages together is not bounded
}

// A webSocket is a Conn for either side. An idle webSocket has no goroutine: a timer sends the
// keep-alive pings, and a goroutine lives only while a pong is written.
type webSocket struct {
	// Fixed at the handshake.
	ws     *websocket.Conn
	wire   wire
	raw    syscall.RawConn
	remote string
	settings

	// Owned by the writer, on a server.
	held *[]byte // whole frames waiting for Flush; nil: none
	asks *string // payload of the last Ping in held

	// Owned by the reader.
	message assembly
	peeked  bool // message has the message that ReadMessage returns next
	err     error
	onPong  func([]byte)

	pong    atomic.Pointer[string] // the ping to answer now or next
	pinged  atomic.Pointer[string] // the payload of the last Ping without an answer
	keeping *time.Timer            // calls keepAlive

	closeOnce sync.Once
	settled   chan struct{}         // closed when this side waits for nothing after Close; nil on a server
	ending    atomic.Bool           // Close was called: the deadline of the Close frame also ends a write in progress
	closed    atomic.Pointer[error] // what the Close frame of the other side means; nil: it has sent none, or this side was first
	expelled  atomic.Pointer[error]
}

func newWebSocket(ws *websocket.Conn, w wire, s settings) (*webSocket, error) {
	raw, err := w.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := w.state()
	l.deadAfter = s.deadAfter
	l.waiting = func() bool { return bytesWait(raw) }
	l.frames.max = s.maxFrame

	c := &webSocket{ws: ws, wire: w, raw: raw, settings: s, remote: name(w)}
	c.message.open(s.memory)
	if c.masks {
		c.settled = make(chan struct{})
	}
	ws.SetPingHandler(c.pinging)
	ws.SetPongHandler(c.ponged)
	ws.SetCloseHandler(c.closing)
	c.keeping = time.AfterFunc(time.Hour, c.keepAlive)
	c.keeping.Reset(untilBeat(s.pingEvery)) // separate from AfterFunc because keepAlive uses c.keeping
	return c, nil
}

// name returns the address of the other side, or of the socket if the other side has no address.
func name(c net.Conn) string {
	if c.RemoteAddr().Network() != "unix" {
		return c.RemoteAddr().String()
	}
	if path := c.RemoteAddr().String(); strings.HasPrefix(path, "/") {
		return "unix:" + path
	}
	return "unix:" + c.LocalAddr().String()
}

func (c *webSocket) RemoteAddr() string { return c.remote }

func (c *webSocket) About() About {
	return c.wire.state().visitor.about(About{Transport: "websocket"})
}

// Admit marks this connection of a server as no longer a stranger. Any goroutine may call Admit.
func (c *webSocket) Admit() { c.wire.state().visitor.admit() }

// Gone reports whether this side was closed, or the other side neither reads nor writes any more. A caller
// that does not read would not notice otherwise. The kernel detects a vanished peer by the unanswered
// keep-alive pings.
func (c *webSocket) Gone() bool { return c.ending.Load() || hungUp(c.raw) }

// Heard returns a number that grows when bytes of the other side come: a whole message, a part of a
// message, or a ping. Any goroutine may call Heard.
func (c *webSocket) Heard() uint64 { return c.wire.state().heard.Load() }

func (c *webSocket) Subprotocol() string { return c.ws.Subprotocol() }

func (c *webSocket) ReadMessage() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.peeked {
		c.peeked = false
		c.wire.state().record.take()
		return c.message.buf, nil
	}
	c.message.begin()
	err := c.read()
	if err == nil {
		c.wire.state().visitor.speaks()
		return c.message.buf, nil
	}
	c.err = c.meaning(err)
	if why := c.expelled.Load(); why != nil {
		c.err = *why
	}
	c.message.buf = nil
	c.Close(closeFor(c.err)) // does nothing if this side called Close before
	return nil, c.err
}

// SetMaxMessage limits messages to a number of bytes from now on. 0 or less restores the limit of the
// options. Any goroutine may call SetMaxMessage.
func (c *webSocket) SetMaxMessage(bytes int) { c.message.limit.Store(int64(bytes)) }

// read reads a message. The buffer grows as bytes arrive, so a header alone costs no memory.
func (c *webSocket) read() error {
	_, r, err := c.ws.NextReader()
	if err != nil {
		return err
	}
	m, l := &c.message, c.wire.state()
	if !c.masks {
		l.expect(c.pace)
		defer func() { l.due = time.Time{} }()
	}
	most := m.most(c.maxMessage)
	for paced := 0; ; {
		if len(m.buf) == cap(m.buf) {
			// The buffer may hold one byte over the limit: this byte proves that the message is too
			// large.
			waited, err := m.grow(most + 1)
			if err != nil {
				return err
			}
			l.due = l.due.Add(waited)
		}
		n, err := r.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+n]
		switch {
		case len(m.buf) > most:
			return &LimitError{What: "message", Max: most}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !c.masks && len(m.buf)-paced >= paceBytes:
			paced = len(m.buf)
			l.expect(c.pace)
		}
	}
}

func (c *webSocket) WriteMessage(msg []byte, bin bool) error {
	opcode := websocket.TextMessage
	if bin {
		opcode = websocket.BinaryMessage
	}
	if c.masks {
		c.ws.SetWriteDeadline(time.Now().Add(c.writeTimeout))
		return c.wrote(c.ws.WriteMessage(opcode, msg))
	}
	return c.frame(opcode, msg)
}

// holding has buffers for frames that wait for Flush.
var holding = sync.Pool{New: func() any { return new([]byte) }}

// frame writes a frame of a server. gorilla would write each frame with its own system call; frame
// holds small frames back, so that a thousand small messages are not a thousand packets. Meanwhile
// gorilla may write control frames from other goroutines. Each control frame and each flush is a single
// Write, so their bytes do not mix. (RFC 6455 §5.4 allows control frames between any two frames.)
func (c *webSocket) frame(opcode int, payload []byte) error {
	if c.held == nil {
		c.held = holding.Get().(*[]byte)
	}
	*c.held = appendHeader(*c.held, opcode, len(payload))
	if len(payload) <= holdMessage && len(*c.held) < holdMax-holdMessage {
		*c.held = append(*c.held, payload...)
		return nil
	}
	return c.flush(payload)
}

// appendHeader appends the header of an unmasked frame with a whole message: RFC 6455 §5.2.
func appendHeader(b []byte, opcode, size int) []byte {
	const final = 0x80
	b = append(b, final|byte(opcode))
	switch {
	case size < 126:
		return append(b, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(size))
}

func (c *webSocket) Flush() error {
	if c.held == nil {
		return nil
	}
	return c.flush(nil)
}

// flush writes the held frames, and then more, in one system call.
func (c *webSocket) flush(more []byte) error {
	if c.ending.Load() || c.closed.Load() != nil { // nothing follows a Close frame: RFC 6455 §5.5.1
		return c.wrote(websocket.ErrCloseSent)
	}
	err := c.writeAll(*c.held, more)
	*c.held = (*c.held)[:0]
	holding.Put(c.held)
	c.held = nil
	if c.asks != nil && err == nil {
		c.pinged.Store(c.asks)
		c.asks = nil
	}
	return c.wrote(err)
}

// writeAll writes a and then b. writeAll fails once the other side has taken nothing for writeTimeout.
// As in link.read, the time is divided into parts: if this side slept for a part, another attempt
// follows.
func (c *webSocket) writeAll(a, b []byte) error {
	writing := &c.wire.state().writing
	writing.Lock()
	defer writing.Unlock()
	attempts := c.wire.attempts()
	for part := 1; ; part++ {
		// Set the deadline before looking at ending. Close does both in the opposite order, so one of
		// the two sees the other.
		c.wire.SetWriteDeadline(time.Now().Add(c.writeTimeout / time.Duration(attempts)))
		if c.ending.Load() {
			c.wire.SetWriteDeadline(time.Now().Add(CloseWait)) // for the Close frame
			return errClosed
		}
		n, err := c.wire.writev(a, b)
		if n > 0 {
			part = 0
		}
		if part >= attempts || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		inA := min(n, len(a))
		a, b = a[inA:], b[n-inA:]
	}
}

func (c *webSocket) wrote(err error) error {
	if err == nil {
		return nil
	}
	var timeout net.Error // declared here because it is allocated
	switch {
	case c.closed.Load() != nil: // the reader returns the same
		return *c.closed.Load()
	case c.wire.state().closing.Load(), c.ending.Load():
		return errClosed
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("transport: %s did not take a message within %v: %w", c.remote, c.writeTimeout, err)
	}
	return fmt.Errorf("transport: write to %s: %w", c.remote, err)
}

func (c *webSocket) Ping(payload []byte) error {
	if len(payload) == 0 || len(payload) > maxPayload {
		return fmt.Errorf("transport: ping payload of %d bytes; expected 1 to %d", len(payload), maxPayload)
	}
	p := string(payload)
	if c.masks {
		c.pinged.Store(&p)
		return c.control(websocket.PingMessage, payload)
	}
	c.asks = &p // keepAlive may repeat the payload only after all frames before it were written
	return c.frame(websocket.PingMessage, payload)
}

func (c *webSocket) control(opcode int, payload []byte) error {
	return c.wrote(c.ws.WriteControl(opcode, payload, time.Now().Add(c.writeTimeout)))
}

// keepAlive sends an empty ping, as exec-server does. While a Ping is unanswered, keepAlive repeats its
// payload instead: a peer may answer only the latest ping, and would skip the caller's Ping.
func (c *webSocket) keepAlive() {
	var payload []byte
	if p := c.pinged.Load(); p != nil {
		payload = []byte(*p)
	}
	if c.control(websocket.PingMessage, payload) != nil {
		return // the reader or the writer sees the same error
	}
	c.keeping.Reset(untilBeat(c.pingEvery))
	if c.wire.state().closing.Load() {
		c.keeping.Stop()
	}
}

// beats is the number of times within pingEvery at which connections are pinged.
const beats = 15

// untilBeat returns the time until the next ping of a connection, which is at most every, and at least every without a beat. The
// connections of a server are pinged together at each beat: a processor that wakes for one ping and its pong does most of its work for
// the waking, and then sends the pings of the other connections for little.
func untilBeat(every time.Duration) time.Duration {
	beat := every / beats
	if beat <= 0 {
		return every
	}
	return every - time.Duration(time.Now().UnixNano())%beat
}

func (c *webSocket) SetPongHandler(h func(payload []byte)) { c.onPong = h }

func (c *webSocket) ponged(payload string) error {
	ackAtOnce(c.raw)
	if payload == "" {
		return nil // the pong answers a keep-alive ping, or no ping
	}
	if p := c.pinged.Load(); p != nil && *p == payload {
		c.pinged.CompareAndSwap(p, nil)
	}
	if c.onPong != nil {
		c.onPong([]byte(payload))
	}
	return nil
}

// closing answers a Close frame, as gorilla would, and prevents later frames.
func (c *webSocket) closing(code int, text string) error {
	if !c.ending.Load() {
		why := c.meaning(&websocket.CloseError{Code: code, Text: text})
		c.closed.Store(&why) // before the answer: a write that fails because of the answer has the same reason
	}
	c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""))
	return nil
}

// pinging lets another goroutine answer a ping. The reader must not wait for a slow peer to take the
// pong: the next message of the peer may be a signal. While a pong waits, only the latest ping is
// remembered.
func (c *webSocket) pinging(payload string) error {
	if c.pong.Swap(&payload) == nil {
		go c.answerPings()
	}
	return nil
}

func (c *webSocket) answerPings() {
	for {
		p := c.pong.Load()
		if c.control(websocket.PongMessage, []byte(*p)) != nil {
			return // c.pong stays set: a broken connection gets no more answers
		}
		if c.pong.CompareAndSwap(p, nil) {
			return
		}
	}
}

func (c *webSocket) Close(code int, reason string) error {
	c.end(code, reason, true)
	return nil
}

// expel closes the connection, and ReadMessage returns why.
func (c *webSocket) expel(why error) {
	c.expelled.Store(&why)
	c.Close(ClosePolicy, why.Error()+connectAgain)
}

// end does the work of Close. Without linger the other side may not see code and reason. Turning away
// many strangers with linger would cost too much.
func (c *webSocket) end(code int, reason string, linger bool) {
	c.closeOnce.Do(func() {
		if len(reason) > maxReason {
			reason = strings.ToValidUTF8(reason[:maxReason], "")
		}
		c.ending.Store(true)
		c.wire.state().visitor.leave()
		// Send the frame before ending the reader: a program that waits for the reader may exit at
		// once.
		err := c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(CloseWait))
		c.wire.state().endRead(c.wire)
		c.message.close()
		c.keeping.Stop()
		if !linger || err != nil && err != websocket.ErrCloseSent { // err is ErrCloseSent if gorilla has sent the Close frame as an answer
			c.wire.Close()
			c.settle()
			return
		}
		c.wire.CloseWrite()
		go func() {
			c.wire.linger()
			c.settle()
		}()
	})
}

func (c *webSocket) settle() {
	if c.settled != nil {
		close(c.settled)
	}
}

// Settled returns a channel that is closed after Close, once the other side has closed the connection or is no longer waited for. If a
// program exits before that, the kernel may reset the connection, and the other side loses code and reason. Settled is for a
// client; on a server the channel is nil.
func (c *webSocket) Settled() <-chan struct{} { return c.settled }
