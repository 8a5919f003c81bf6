package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lingerFor is how long a closed connection still takes what the other side had
// under way. To close with bytes unread makes the kernel send a reset, which
// overtakes our Close frame, and the other side would never learn why.
const lingerFor = 5 * time.Second

// A wire is the net.Conn below gorilla's connection. It sees what gorilla does not
// show: how large each frame is, and that bytes of an unfinished message arrive.
type wire interface {
	stream
	state() *link
	// writev, of a server, writes both, and returns how many bytes of both it wrote. The
	// caller holds link.writing until it has written all: no Write comes between.
	writev(a, b []byte) (int, error)
	// linger closes the connection once the other side has had its say.
	linger()
}

// A stream is a connection of the kinds that carry a websocket.
type stream interface {
	net.Conn
	CloseWrite() error
	SyscallConn() (syscall.RawConn, error)
}

// streamWire is a wire on a TCP connection or a unix socket.
type streamWire struct {
	stream
	link
	direct *direct // of a server: stream, in fewer steps
}

// newWire is for a server or a client. A client, which does little but wait, gains nothing
// by direct: it hears of an echo no sooner (0.29 ms with it, 0.28 without).
func newWire(c net.Conn, server bool) (wire, error) {
	var s stream
	switch c := c.(type) {
	case *net.TCPConn:
		s = c // net has set TCP_NODELAY
	case *net.UnixConn:
		s = c
	default:
		return nil, fmt.Errorf("transport: a %T carries no websocket", c)
	}
	w := &streamWire{stream: s}
	if server {
		raw, err := s.SyscallConn()
		if err != nil {
			return nil, err
		}
		w.direct = newDirect(s, raw)
	}
	return w, nil
}

func (w *streamWire) Read(p []byte) (int, error) {
	if w.direct == nil {
		return w.read(w.stream, p)
	}
	return w.read(w.direct, p)
}

// Write is for gorilla's control frames, and all frames of a client: each is one Write.
func (w *streamWire) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.stream.Write(p)
}

// Close is HTTP's and gorilla's, which ends a handshake so after HTTP has let go of the connection.
func (w *streamWire) Close() error {
	w.guest.leave()
	return w.stream.Close()
}

func (w *streamWire) writev(a, b []byte) (int, error) { return w.direct.writev(a, b) }
func (w *streamWire) linger()                         { w.lingerOn(w.stream) }

// link is what a wire adds to its connection.
type link struct {
	// Fixed when the handshake is over.
	deadAfter time.Duration // 0 until then: HTTP has deadlines of its own
	waiting   func() bool   // bytes wait to be read; nil: never
	guest     *guest        // of a server, in its lobby; nil: of a client

	frames  frameGuard    // owned by the reader; its max is 0 where frames are not limited
	due     time.Time     // owned by the reader: when more of a message must have come; zero: never
	pace    time.Duration // owned by the reader: for that to come
	excused bool          // owned by the reader: due was put off, as bytes were waiting then
	reading sync.Mutex    // held by the reader in Read, then for good by linger
	closing atomic.Bool
	writing sync.Mutex // held while a frame is written
}

func (l *link) state() *link { return l }

// silenceParts is how many deadlines in a row must pass before a connection is dead.
const silenceParts = 4

// read gives each Read its own time to be silent in. So a reader that was long
// busy elsewhere does not find its connection dead, and a byte of a large message
// that comes slowly is as good a sign of life as a pong.
//
// A server that was stopped (SIGSTOP, a suspended machine) must not blame the other side for
// its own sleep. So the time is measured in parts: a sleep of any length uses up one part, and
// keepAlive has the others to ask with. After the last part, bytes that wait in the socket
// still count. In the middle of a message they count once until more of it has come (expect): a
// flood of pings, or of empty fragments, always waits.
func (l *link) read(c net.Conn, p []byte) (int, error) {
	if l.deadAfter == 0 {
		return c.Read(p)
	}
	if !l.reading.TryLock() {
		return 0, errClosed // linger has it
	}
	defer l.reading.Unlock()
	for part := 1; ; part++ {
		// First the deadline, then the look: endRead does the two the other way round, so
		// that its deadline cannot be lost to ours.
		now := time.Now()
		deadline := now.Add(l.deadAfter / silenceParts)
		if !l.due.IsZero() {
			if !now.Before(l.due) {
				if l.excused || l.waiting == nil || !l.waiting() {
					return 0, slowError{}
				}
				l.excused, l.due = true, now.Add(l.pace)
			}
			if l.due.Before(deadline) {
				deadline = l.due
			}
		}
		c.SetReadDeadline(deadline)
		if l.closing.Load() {
			return 0, errClosed
		}
		n, err := c.Read(p)
		switch {
		case l.closing.Load():
			return 0, errClosed
		case !errors.Is(err, os.ErrDeadlineExceeded):
			if err == nil && l.frames.max > 0 {
				return l.frames.follow(p[:n])
			}
			return n, err
		case part >= silenceParts && (l.waiting == nil || !l.waiting()):
			return n, deadError(l.deadAfter)
		}
	}
}

// expect says that more of a message must come within pace.
func (l *link) expect(pace time.Duration) {
	l.due, l.pace, l.excused = time.Now().Add(pace), pace, false
}

// bytesWait reports whether a Read would return at once: with bytes, the end or an error.
func bytesWait(raw syscall.RawConn) (wait bool) {
	var b [1]byte
	raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		wait = err != unix.EAGAIN && err != unix.EINTR
	})
	return wait
}

// endRead makes the reader return.
func (l *link) endRead(c net.Conn) {
	l.closing.Store(true)
	c.SetReadDeadline(time.Unix(1, 0))
}

// hungUp reports whether the other side of a socket neither reads nor writes any more: it
// has reset the connection, or the kernel has given it up. Bytes that wait do not hide it.
func hungUp(raw syscall.RawConn) (gone bool) {
	raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}} // these two events need not be asked for
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n == 1 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone
}

func (l *link) lingerOn(c net.Conn) {
	l.reading.Lock()
	c.SetReadDeadline(time.Now().Add(lingerFor))
	io.Copy(io.Discard, c) // ends with the other side, or the time
	c.Close()
}

// frameGuard follows the frame headers in a stream of bytes, however it is cut,
// and stops at the first frame that is too large. gorilla limits messages only.
// Source: RFC 6455 §5.2.
type frameGuard struct {
	max  int      // bytes of payload
	rest uint64   // bytes of the current frame's mask and payload yet to come
	head [10]byte // the header, without the mask
	have int      // bytes of head
}

// follow returns how much of p may be passed on: all of it, or with a *LimitError
// what stands before the payload that is too large. After that it is not to be
// called again.
func (g *frameGuard) follow(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if g.rest > 0 {
			n := min(g.rest, uint64(len(p)-i))
			g.rest -= n
			i += int(n)
			continue
		}
		g.head[g.have] = p[i]
		g.have++
		i++
		if g.have < 2 {
			continue
		}
		size, need := uint64(g.head[1]&0x7f), 2
		switch size {
		case 126:
			need = 4
		case 127:
			need = 10
		}
		if g.have < need {
			continue
		}
		switch need {
		case 4:
			size = uint64(binary.BigEndian.Uint16(g.head[2:]))
		case 10:
			size = binary.BigEndian.Uint64(g.head[2:])
		}
		if size > uint64(g.max) {
			return i, &LimitError{What: "frame", Max: g.max}
		}
		g.rest, g.have = size, 0
		if masked := g.head[1]&0x80 != 0; masked {
			g.rest += 4
		}
	}
	return len(p), nil
}
