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
)

const (
	framedScheme = "unix+frames://"
	frameHeader  = 4       // bytes: the length of what follows, little-endian
	frameBuffer  = 4 << 10 // bytes that are read at once; what is larger passes it by
)

// frames is length-prefixed frames: in each a message, of JSON or msgpack.
type frames struct {
	piped
	subprotocol string // owned by the reader until the first message has come
	spoken      bool   // it is known
	firstDue    bool   // owned by the pump: the first message has a deadline
	message     assembly
	out         []byte // owned by the writer: a frame

	// Fixed: of a socket.
	conn         net.Conn      // nil: it is none
	writeTimeout time.Duration // for the kernel to take a message
	pace         time.Duration // for paceBytes of a message to come
	waiting      func() bool   // bytes wait to be read; nil: never
	guest        *guest        // of a server, in its lobby; nil: of a client
}

// Frames returns a Conn of frames that are a length, 4 bytes little-endian, and so many
// bytes, 1 to MaxFramed, of a message; it closes both r and w. The other side says by its
// first byte what both speak: a msgpack map begins with 0x80 or more, JSON with less. When
// r has ended between two frames, the error of ReadMessage is as that of Stdio. An end within
// a frame, and a length that cannot be, end the input too: such an error is not io.EOF.
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
		if c.message.memory != nil {
			c.message.memory.Close()
		}
	}()
}

// SetMaxMessage lets messages have at most so many bytes from now on; 0 or less: as many as the
// options say. Any goroutine may call it.
func (c *frames) SetMaxMessage(bytes int) { c.message.limit.Store(int64(bytes)) }

// dueIn gives what is to come so much time; 0: any. The first message has one time for all of it.
func (c *frames) dueIn(d time.Duration) {
	switch {
	case c.conn == nil || c.firstDue:
	case d == 0:
		c.conn.SetReadDeadline(time.Time{})
	default:
		c.conn.SetReadDeadline(time.Now().Add(d))
	}
}

// nextFrame makes room for a message as it arrives, whatever its header announced.
func (c *frames) nextFrame(in *bufio.Reader) error {
	if _, err := in.Peek(1); err == io.EOF {
		return err
	} else if err != nil {
		return c.cut(err)
	}
	defer func() { // also when the first message has come
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
		return fmt.Errorf("transport: %s sent a frame of no bytes: a message has some", c.name)
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

// fill reads all of part, within pace. If this side slept meanwhile, the bytes that wait have as long again.
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

// cut says what an error within a frame means.
func (c *frames) cut(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("transport: read from %s: %w", c.name, err)
}

func (c *frames) ReadMessage() ([]byte, error) {
	msg, err := c.piped.ReadMessage()
	if err == nil {
		c.guest.speaks()
	}
	if err == nil && !c.spoken {
		c.spoken, c.subprotocol = true, SubprotocolJSON
		if msg[0] >= 0x80 {
			c.subprotocol = SubprotocolMsgpack
		}
	}
	return msg, err
}

// Peer names the other side of this connection of a server: its user at the socket.
func (c *frames) Peer() string { return c.guest.peer(c.name) }

// Admit says that this connection of a server is no stranger any more. Any goroutine may call it.
func (c *frames) Admit() { c.guest.leave() }

// Close leaves the lobby, too, and ends a wait for memory.
func (c *frames) Close(code int, reason string) error {
	c.guest.leave()
	err := c.piped.Close(code, reason)
	if c.message.memory != nil {
		c.message.memory.Close()
	}
	return err
}

// Gone reports whether the other side neither reads nor writes any more. It is for one who does
// not read, and would not notice.
func (c *frames) Gone() bool {
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	return err == nil && hungUp(raw)
}

func (c *frames) Subprotocol() string { return c.subprotocol }

// MaxMessage is the most that a message may have, in bytes, in either direction.
func (c *frames) MaxMessage() int { return c.max }

func (c *frames) WriteMessage(msg []byte, _ bool) error {
	if len(msg) == 0 || len(msg) > c.max {
		return fmt.Errorf("transport: a message of %d bytes; a frame has 1 to %d", len(msg), c.max)
	}
	c.out = append(binary.LittleEndian.AppendUint32(c.out[:0], uint32(len(msg))), msg...) // one write
	err := c.writeAll(c.out)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return c.wrote(err)
}

// writeAll fails once the other side has taken nothing for writeTimeout, in parts as the one of a websocket.
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

// socketFrames is Frames over a socket. An empty subprotocol means that the other side
// says which, and has DefaultHandshakeTimeout to say it.
func socketFrames(conn net.Conn, subprotocol string, s settings) *frames {
	c := &frames{
		piped:        newPiped(conn, conn, framedLimit(s.maxMessage), name(conn), nil),
		conn:         conn,
		writeTimeout: orDefault(s.writeTimeout, DefaultWriteTimeout),
		pace:         orDefault(s.pace, paceTime),
		subprotocol:  subprotocol,
		spoken:       subprotocol != "",
		firstDue:     subprotocol == "",
	}
	if s.memory != nil {
		c.message.memory = s.memory()
	}
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			c.waiting = func() bool { return bytesWait(raw) }
		}
	}
	if c.firstDue {
		conn.SetReadDeadline(time.Now().Add(DefaultHandshakeTimeout))
	}
	c.start()
	return c
}

func (s *Server) serveFrames(accept func(Conn)) error {
	for {
		c, g, err := s.listener.accept()
		switch {
		case err == nil:
			framed := socketFrames(c, "", s.handler.settings)
			framed.guest = g
			g.opens(func(string) { framed.Close(0, "") })
			go accept(framed)
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err): // such as no descriptors: it may pass
			select {
			case <-time.After(acceptPause):
			case <-s.listener.lobby.closed:
				return nil
			}
		default:
			return fmt.Errorf("serve %s: %w", s.url, err)
		}
	}
}

// acceptPause is between two attempts to accept, when one has failed.
const acceptPause = 50 * time.Millisecond

// isTemporary is as net/http has it.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func dialFrames(ctx context.Context, path string, o *DialOptions) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, orDefault(o.HandshakeTimeout, DefaultHandshakeTimeout))
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial %s%s: %w", framedScheme, path, err)
	}
	subprotocol := SubprotocolJSON
	if len(o.Subprotocols) > 0 {
		subprotocol = o.Subprotocols[0]
	}
	return socketFrames(c, subprotocol, settings{maxMessage: o.MaxMessage, writeTimeout: o.WriteTimeout}), nil
}
