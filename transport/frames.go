package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

const (
	framedScheme = "unix+frames://"
	frameHeader  = 4       // bytes: the length of the payload, little-endian
	frameBuffer  = 4 << 10 // bytes read at once; larger reads bypass this buffer
)

// frames is a connection of length-prefixed frames. Each frame holds a message, in JSON or msgpack.
type frames struct {
	piped
	subprotocol string // owned by the reader until the first message has come
	spoken      bool   // subprotocol is known
	firstDue    bool   // owned by the pump: the first message has a deadline
	message     assembly
	out         []byte // owned by the writer: a frame

	// Fixed. These fields belong to a socket.
	conn         net.Conn      // nil: no socket
	writeTimeout time.Duration // the time in which the kernel must take a message
	pace         time.Duration // the time in which paceBytes of a message must come
	waiting      func() bool   // reports whether bytes wait to be read; nil: never
	visitor      *visitor      // nil for a client

	first []byte // the first message, if welcome has read it and ReadMessage has not returned it; else nil
}

// Frames returns a Conn that reads frames from r and writes frames to w. A frame is a length, 4 bytes
// little-endian, and then a message of this many bytes, 1 to MaxFramed. Close closes both r and w.
//
// The first byte from the other side selects the encoding for both sides: a msgpack map begins with
// 0x80 or more, JSON with less. If r ends between two frames, the error of ReadMessage has a method
// InputEnded, as with Stdio, and wraps io.EOF. If r ends within a frame, or a length is out of range,
// the error has InputEnded, too, and does not wrap io.EOF.
func Frames(r io.ReadCloser, w io.WriteCloser, o *StdioOptions) Conn {
	if o == nil {
		o = &StdioOptions{}
	}
	c := &frames{piped: newPiped(r, w, framedLimit(o.MaxMessage), "stdio", o.Closed)}
	c.start()
	return c
}

func framedLimit(max int) int { return min(orDefault(max, MaxFramed), MaxFramed) }

func (c *frames) start() {
	in := bufio.NewReaderSize(c.r, frameBuffer)
	go func() {
		c.pump(func(*[]byte) ([]byte, error) {
			c.message.begin()
			err := c.nextFrame(in)
			if err == nil && c.firstDue {
				c.firstDue = false
			}
			if err != nil && c.conn == nil {
				err = inputEnded{err}
			}
			return c.message.buf, err
		})
		c.message.close()
	}()
}

// SetMaxMessage limits messages to a number of bytes from now on. 0 or less restores the limit of the
// options. Any goroutine may call SetMaxMessage.
func (c *frames) SetMaxMessage(bytes int) { c.message.limit.Store(int64(bytes)) }

// dueIn sets a deadline for the next bytes. 0 removes the deadline. The first message has a single
// deadline for all its bytes, and dueIn leaves this deadline alone.
func (c *frames) dueIn(d time.Duration) {
	switch {
	case c.conn == nil || c.firstDue:
	case d == 0:
		c.conn.SetReadDeadline(time.Time{})
	default:
		c.conn.SetReadDeadline(time.Now().Add(d))
	}
}

// nextFrame reads a frame. The buffer grows as bytes arrive, so a header alone costs no memory.
func (c *frames) nextFrame(in *bufio.Reader) error {
	if _, err := in.Peek(1); err == io.EOF {
		return err
	} else if err != nil {
		return c.cut(err)
	}
	defer func() { // also after the first message
		if c.conn != nil {
			c.conn.SetReadDeadline(time.Time{})
		}
	}()
	var head [frameHeader]byte
	if _, err := c.fill(in, head[:]); err != nil {
		return c.cut(err)
	}
	size, m, most := binary.LittleEndian.Uint32(head[:]), &c.message, c.message.most(c.max)
	switch {
	case size == 0:
		return fmt.Errorf("transport: %s sent a frame of no bytes; a frame has at least 1 byte", c.name)
	case size > uint32(most):
		limit := &LimitError{What: "frame", Max: most}
		if head[0] == '{' && c.conn == nil {
			return fmt.Errorf("%w: its length reads %q, as JSON begins; is --framing lines meant?", limit, head)
		}
		return limit
	}
	for left := int(size); left > 0; left = int(size) - len(m.buf) {
		if len(m.buf) == cap(m.buf) {
			if _, err := m.grow(int(size)); err != nil {
				return err
			}
		}
		part := m.buf[len(m.buf):min(cap(m.buf), int(size), len(m.buf)+paceBytes)]
		n, err := c.fill(in, part)
		if m.buf = m.buf[:len(m.buf)+n]; err != nil {
			return c.cut(err)
		}
	}
	return nil
}

// fill reads all of part within pace. If bytes are waiting when the time is over, this side may have
// slept, and fill allows pace once more.
func (c *frames) fill(in *bufio.Reader, part []byte) (n int, err error) {
	c.dueIn(c.pace)
	n, err = io.ReadFull(in, part)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.waiting != nil && c.waiting() {
		c.dueIn(c.pace)
		var more int
		more, err = io.ReadFull(in, part[n:])
		n += more
	}
	return n, err
}

// cut returns the error for an input that broke within a frame.
func (c *frames) cut(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("transport: read from %s: %w", c.name, err)
}

func (c *frames) ReadMessage() ([]byte, error) {
	if msg := c.first; msg != nil {
		c.first = nil
		return msg, nil
	}
	msg, err := c.piped.ReadMessage()
	if err == nil {
		c.visitor.speaks()
	}
	if err == nil && !c.spoken {
		c.spoken, c.subprotocol = true, SubprotocolJSON
		if msg[0] >= 0x80 {
			c.subprotocol = SubprotocolMsgpack
		}
	}
	return msg, err
}

func (c *frames) About() About {
	// The member token of initialize may be the credential.
	return c.visitor.about(About{Transport: "frames", MaxMessage: c.max, ReadsToken: c.visitor != nil})
}

// Admit marks this connection of a server as no longer a stranger. Any goroutine may call Admit.
func (c *frames) Admit() { c.visitor.admit() }

// Close also ends a wait for memory.
func (c *frames) Close(code int, reason string) error {
	c.visitor.leave()
	err := c.piped.Close(code, reason)
	c.message.close()
	return err
}

// expel closes the connection. Frames have no way to say why.
func (c *frames) expel(error) { c.Close(ClosePolicy, "") }

// Gone reports whether this side was closed, or the other side neither reads nor writes any more. A caller
// that does not read would not notice otherwise.
func (c *frames) Gone() bool {
	select {
	case <-c.done:
		return true
	default:
	}
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	return err == nil && hungUp(raw)
}

func (c *frames) Subprotocol() string { return c.subprotocol }

func (c *frames) WriteMessage(msg []byte, _ bool) error {
	if len(msg) == 0 || len(msg) > c.max {
		return fmt.Errorf("transport: a message of %d bytes; a frame has 1 to %d", len(msg), c.max)
	}
	c.out = append(binary.LittleEndian.AppendUint32(c.out[:0], uint32(len(msg))), msg...) // header and message leave in one write
	err := c.writeAll(c.out)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return c.wrote(err)
}

// writeAll fails once the other side has taken nothing for writeTimeout. The time is divided into parts
// for the reason given at webSocket.writeAll.
func (c *frames) writeAll(b []byte) error {
	for part := 1; ; part++ {
		if c.conn != nil {
			c.conn.SetWriteDeadline(time.Now().Add(c.writeTimeout / silenceParts))
		}
		n, err := c.w.Write(b)
		if b = b[n:]; n > 0 {
			part = 0
		}
		if part >= silenceParts || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// socketFrames is Frames over a socket. If subprotocol is empty, the first message of the other side
// decides, and must come within DefaultHandshakeTimeout.
func socketFrames(conn net.Conn, subprotocol string, s settings) *frames {
	c := &frames{
		piped:        newPiped(conn, conn, framedLimit(s.maxMessage), name(conn), nil),
		conn:         conn,
		writeTimeout: orDefault(s.writeTimeout, DefaultWriteTimeout),
		pace:         orDefault(s.pace, paceTime),
		waiting:      waiting(conn),
		subprotocol:  subprotocol,
		spoken:       subprotocol != "",
		firstDue:     subprotocol == "",
	}
	c.message.open(s.memory)
	if c.firstDue {
		conn.SetReadDeadline(time.Now().Add(DefaultHandshakeTimeout))
	}
	c.start()
	return c
}

func (s *Server) serveFrames(accept func(Conn)) error {
	for {
		c, v, err := s.listener.accept()
		switch {
		case err == nil:
			framed := socketFrames(c, "", s.handler.settings)
			framed.visitor = v
			v.opens(func(string) { framed.Close(0, "") }, nil)
			go func() {
				if s.handler.welcome(framed) {
					accept(framed)
				}
			}()
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err): // such as a lack of descriptors, which may pass
			select {
			case <-time.After(acceptPause):
			case <-s.listener.visitors.closed:
				return nil
			}
		default:
			return fmt.Errorf("serve %s: %w", s.url, err)
		}
	}
}

// welcome finds out who the client of c is, and gives c its place. If the client may not connect, welcome
// closes c and returns false. If there is a door, welcome reads the first message and answers a refused client.
func (h *handler) welcome(c *frames) bool {
	var v auth.Visitor
	id, answer := protocol.InvalidID, func(*protocol.Error) {} // before the first message no encoding is known
	if h.visitors.door != nil {
		c.SetMaxMessage(protocol.MaxGreeting)
		msg, err := c.ReadMessage()
		if err != nil {
			c.Close(0, "")
			return false
		}
		codec := protocol.CodecOf(c.subprotocol)
		var ok bool
		if id, v.Token, ok = protocol.TokenIn(codec, msg); !ok {
			v.Token = new(string) // refused as malformed
		}
		c.first = msg
		answer = func(e *protocol.Error) {
			if failure, err := codec.AppendFailure(nil, id, e); err == nil {
				c.WriteMessage(failure, codec.Binary())
			}
		}
	}
	if err := h.receive(c.conn, c.visitor, &v); err != nil {
		answer(refusal(err))
		c.Close(0, "")
		return false
	}
	c.visitor.shows(v, func(err error) { h.expel(c, c.visitor, err) })
	return true
}

// refusal returns the answer to a client of frames that may not connect. Texts are those of turnAway.
func refusal(err error) *protocol.Error {
	if _, ok := errors.AsType[*auth.Refusal](err); ok {
		return protocol.Errorf(protocol.KindUnauthorized, protocol.CodeUnauthorized, "%s", err).
			Advise("begin with initialize, and send the token of this client as its member token")
	}
	return protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%s", busy(err))
}

// acceptPause is the time between a failed accept and the next attempt.
const acceptPause = 50 * time.Millisecond

// isTemporary reports whether err says of itself that a retry may help. net/http uses the same test.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func dialFrames(ctx context.Context, path string, o *DialOptions) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, orDefault(o.HandshakeTimeout, DefaultHandshakeTimeout))
	defer cancel()
	c, err := o.netDial(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial %s%s: %w", framedScheme, path, err)
	}
	subprotocol := SubprotocolJSON
	if len(o.Subprotocols) > 0 {
		subprotocol = o.Subprotocols[0]
	}
	return socketFrames(c, subprotocol, settings{maxMessage: o.MaxMessage, writeTimeout: o.WriteTimeout}), nil
}
