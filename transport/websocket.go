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
	holdMessage = 4 << 10  // bytes of a message that waits for Flush; more is not copied
	holdMax     = 32 << 10 // bytes of all that wait

	minBuffer  = 512 // bytes that a message is first given
	maxPayload = 125 // bytes in a control frame; RFC 6455 §5.5
	maxReason  = maxPayload - 2
)

// settings are what both ends of a websocket have in common, defaults filled in.
type settings struct {
	masks                              bool // it is a client (RFC 6455 §5.1)
	maxFrame, maxMessage               int  // maxFrame 0: not limited
	writeTimeout, pingEvery, deadAfter time.Duration
	pace                               time.Duration // for paceBytes of a message to come; a server's
	memory                             func() Memory // nil: messages are not bounded together
}

// webSocket is a Conn, for either end. An idle one has no goroutine: a timer sends
// the keep-alive pings, and a goroutine lives as long as a pong is being written.
type webSocket struct {
	// Fixed at the handshake.
	ws     *websocket.Conn
	wire   wire
	raw    syscall.RawConn
	remote string
	settings

	// Owned by the writer, of a server.
	held *[]byte // whole frames that wait for Flush; nil: none
	asks *string // payload of the last Ping in held

	// Owned by the reader.
	message assembly
	err     error
	onPong  func([]byte)

	pong    atomic.Pointer[string] // being answered, or next to be
	pinged  atomic.Pointer[string] // the last Ping's payload, until it is answered
	keeping *time.Timer            // due: keepAlive

	closeOnce sync.Once
	ending    atomic.Bool // Close was called: the deadline of its frame ends what is being written
	closed    atomic.Bool // the other side has sent its Close frame
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
	if s.memory != nil {
		c.message.memory = s.memory()
	}
	ws.SetPingHandler(c.pinging)
	ws.SetPongHandler(c.ponged)
	ws.SetCloseHandler(c.closing)
	c.keeping = time.AfterFunc(time.Hour, c.keepAlive)
	c.keeping.Reset(s.pingEvery) // not above: keepAlive uses c.keeping
	return c, nil
}

// name is the other side's address, or the socket's when it has none.
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

// Peer names the other side of this connection of a server: its machine, or its user at a unix socket.
func (c *webSocket) Peer() string { return c.wire.state().guest.peer(c.remote) }

// Admit says that this connection of a server is no stranger any more. Any goroutine may call it.
func (c *webSocket) Admit() { c.wire.state().guest.leave() }

// Gone reports whether the other side neither reads nor writes any more. It is for one who does
// not read, and would not notice: the pings that nobody answers make the system notice.
func (c *webSocket) Gone() bool { return hungUp(c.raw) }

func (c *webSocket) Subprotocol() string { return c.ws.Subprotocol() }

func (c *webSocket) ReadMessage() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	c.message.begin()
	err := c.read()
	if err == nil {
		c.wire.state().guest.speaks()
		return c.message.buf, nil
	}
	c.err = c.meaning(err)
	c.message.buf = nil
	c.Close(closeFor(c.err)) // after our own Close it does nothing
	return nil, c.err
}

// SetMaxMessage lets messages have at most so many bytes from now on; 0 or less: as many as the
// options say. Any goroutine may call it.
func (c *webSocket) SetMaxMessage(bytes int) { c.message.limit.Store(int64(bytes)) }

// read makes room for a message as it arrives, whatever its header announced.
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
			// At most one byte over the limit: that byte is the proof.
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

// holding are buffers for frames that wait for Flush.
var holding = sync.Pool{New: func() any { return new([]byte) }}

// frame writes a frame of a server. gorilla writes each with a system call of its own;
// a thousand small messages should not be a thousand packets. What gorilla
// itself writes meanwhile, from other goroutines, are control frames, each in
// one Write, and so is this: they do not mix. (RFC 6455 §5.4 allows them anywhere between
// frames.)
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

// appendHeader appends the header of a frame that is a whole message and not masked:
// RFC 6455 §5.2.
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

// flush writes what is held, and more behind it, in one system call.
func (c *webSocket) flush(more []byte) error {
	switch { // after a Close frame nothing follows: RFC 6455 §5.5.1
	case c.ending.Load():
		return errClosed
	case c.closed.Load():
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

// writeAll writes a and then b. It fails once the other side has taken nothing for
// writeTimeout. The time is in parts, as that of link.read: a part in which this side slept is
// followed by another attempt.
func (c *webSocket) writeAll(a, b []byte) error {
	writing := &c.wire.state().writing
	writing.Lock()
	defer writing.Unlock()
	for part := 1; ; part++ {
		// First the deadline, then the look: Close does the two the other way round.
		c.wire.SetWriteDeadline(time.Now().Add(c.writeTimeout / silenceParts))
		if c.ending.Load() {
			c.wire.SetWriteDeadline(time.Now().Add(CloseWait)) // of the Close frame
			return errClosed
		}
		n, err := c.wire.writev(a, b)
		if n > 0 {
			part = 0
		}
		if part >= silenceParts || !errors.Is(err, os.ErrDeadlineExceeded) {
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
	var timeout net.Error // not above: it is allocated
	switch {
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
	c.asks = &p // keepAlive repeats only what was written, and so all before it
	return c.frame(websocket.PingMessage, payload)
}

func (c *webSocket) control(opcode int, payload []byte) error {
	return c.wrote(c.ws.WriteControl(opcode, payload, time.Now().Add(c.writeTimeout)))
}

// keepAlive pings with nothing, as exec-server does, unless a Ping has not been
// answered. That one is repeated: a peer may answer only the latest ping, and
// would pass over the caller's in favour of ours.
func (c *webSocket) keepAlive() {
	var payload []byte
	if p := c.pinged.Load(); p != nil {
		payload = []byte(*p)
	}
	if c.control(websocket.PingMessage, payload) != nil {
		return // the reader will hear of it, or the writer has
	}
	c.keeping.Reset(c.pingEvery)
	if c.wire.state().closing.Load() {
		c.keeping.Stop()
	}
}

func (c *webSocket) SetPongHandler(h func(payload []byte)) { c.onPong = h }

func (c *webSocket) ponged(payload string) error {
	ackAtOnce(c.raw)
	if payload == "" {
		return nil // to a keep-alive ping, or to none
	}
	if p := c.pinged.Load(); p != nil && *p == payload {
		c.pinged.CompareAndSwap(p, nil)
	}
	if c.onPong != nil {
		c.onPong([]byte(payload))
	}
	return nil
}

// closing answers a Close frame, as gorilla would, and lets no frame follow.
func (c *webSocket) closing(code int, _ string) error {
	c.closed.Store(true)
	c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""))
	return nil
}

// pinging answers on a goroutine of its own, for the reader must not wait until
// the writer is done with a slow peer: what that peer still sends may be a signal.
// While a pong waits, only the latest ping is remembered.
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
			return // with c.pong set: no more answers on a broken connection
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

// end is Close. Without linger the other side may not see code and reason: so many strangers
// that are turned away would cost too much.
func (c *webSocket) end(code int, reason string, linger bool) {
	c.closeOnce.Do(func() {
		if len(reason) > maxReason {
			reason = strings.ToValidUTF8(reason[:maxReason], "")
		}
		c.ending.Store(true)
		c.Admit() // it takes no place in the lobby any more
		// First the frame, then the end of the reader: whoever waits for that may exit.
		err := c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(CloseWait))
		c.wire.state().endRead(c.wire)
		if c.message.memory != nil {
			c.message.memory.Close()
		}
		c.keeping.Stop()
		if !linger || err != nil && err != websocket.ErrCloseSent { // by gorilla, as an answer
			c.wire.Close()
			return
		}
		c.wire.CloseWrite()
		go c.wire.linger()
	})
}
