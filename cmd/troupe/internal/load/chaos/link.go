package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// silentBytes is how many bytes of the client a half-open link swallows, as the kernel's buffers would. After silentBytes the writes of the
// client wait.
const silentBytes = 256 << 10

// A state is the state of a link.
type state uint8

const (
	open   state = iota
	silent       // half-open: nothing passes, and neither side knows
	cut          // as if the network or the server had ended the connection
	left         // the client has closed a silent link; the server does not know
	closed       // by the client
)

// A link is a client's connection with faults: a net.Conn with CloseWrite and SyscallConn. A link without Delay, Speed and Loss hands reads
// and writes to the socket, and has no goroutine.
type link struct {
	socket // the client calls its addresses
	dialer *Dialer

	writing sync.Mutex // held while bytes are written to the socket

	mu            sync.Mutex
	changed       chan struct{} // closed when anything below changes and somebody waits, and then replaced
	waiting       int           // callers of wait
	state         state
	cutAt         time.Time // when the chaos cut the link; zero: never
	reset         bool      // for a cut link: cut with RST, not with FIN
	reading       bool      // somebody reads the socket
	swallowed     int       // bytes since the link is silent
	stalledUntil  time.Time
	readDeadline  time.Time
	writeDeadline time.Time
	due           *cutting // the cut to make at certain bytes; nil: none
	greets        bool     // the handshake is over: the next write begins the first message of the client
	begun         bool     // the first message has begun
	shape         *shape   // nil: bytes pass as fast as the socket takes them
}

// CutAt returns when the chaos cut a connection of a Dialer; the zero time: never. The client cannot see the cut before CutAt knows it.
func CutAt(c net.Conn) time.Time {
	l, ok := c.(*link)
	if !ok {
		return time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cutAt
}

// Greets says that the handshake of a connection of a Dialer is over, be it of proxies, TLS or websockets: the next write begins the first
// message of the client.
func Greets(c net.Conn) {
	if l, ok := c.(*link); ok {
		l.mu.Lock()
		l.greets = true
		l.mu.Unlock()
	}
}

func newLink(d *Dialer, s socket, number uint64) *link {
	l := &link{socket: s, dialer: d, changed: make(chan struct{})}
	if c := &d.Chaos; c.Delay > 0 || c.Speed > 0 || c.Loss > 0 {
		l.shape = newShape(c, d.Seed, number)
		go l.pumpOut()
		go l.pumpIn()
	}
	return l
}

// tell wakes the callers of wait. The caller holds l.mu.
func (l *link) tell() {
	if l.waiting > 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// wait waits for a change of the link, or until a moment unless the moment is zero. The caller holds l.mu; wait unlocks l.mu meanwhile.
func (l *link) wait(until time.Time) {
	changed := l.changed
	l.waiting++
	l.mu.Unlock()
	if until.IsZero() {
		<-changed
	} else {
		t := time.NewTimer(time.Until(until))
		select {
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
	l.mu.Lock()
	l.waiting--
}

// over reports whether a moment has come. The zero moment never comes.
func over(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// sooner returns the earlier of two moments. Zero means no moment.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// SyscallConn returns the raw connection of the socket. On a half-open link its Control fails: unread bytes in the socket would show the
// client that the server is alive.
func (l *link) SyscallConn() (syscall.RawConn, error) {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	return hidden{raw, l}, nil
}

type hidden struct {
	syscall.RawConn
	link *link
}

func (h hidden) Control(f func(fd uintptr)) error {
	h.link.mu.Lock()
	silent := h.link.state == silent
	h.link.mu.Unlock()
	if silent {
		return net.ErrClosed
	}
	return h.RawConn.Control(f)
}

// end returns why reads and writes fail: the client has closed the link, or it was cut. nil: neither.
func (l *link) end(op string) error {
	switch {
	case l.state == left || l.state == closed:
		return net.ErrClosed
	case l.state != cut:
		return nil
	case l.reset:
		return l.broken(op, syscall.ECONNRESET)
	case op == "read":
		return io.EOF
	}
	return l.broken(op, syscall.EPIPE)
}

func (l *link) broken(op string, err error) error {
	return &net.OpError{Op: op, Net: l.RemoteAddr().Network(), Source: l.LocalAddr(), Addr: l.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}

func (l *link) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.readable(); err != nil {
			return 0, err
		}
		if l.shape == nil {
			if n, err := l.take(p); n > 0 || err != nil || len(p) == 0 {
				return n, err
			}
			continue
		}
		n, wake, err := l.shape.in.pop(p)
		if n > 0 || err != nil {
			l.tell() // there is room
			return n, err
		}
		if over(l.readDeadline) {
			return 0, os.ErrDeadlineExceeded
		}
		l.wait(sooner(wake, l.readDeadline))
	}
}

// readable waits until the link is open and does not stall, or returns why the client cannot read. The caller holds l.mu.
func (l *link) readable() error {
	for {
		if err := l.end("read"); err != nil {
			return err
		}
		stalled := l.stalled()
		if l.state == open && !stalled {
			return nil
		}
		if over(l.readDeadline) {
			return os.ErrDeadlineExceeded
		}
		if l.state == open {
			l.wait(sooner(l.stalledUntil, l.readDeadline))
		} else {
			l.wait(l.readDeadline)
		}
	}
}

func (l *link) stalled() bool {
	if over(l.stalledUntil) {
		l.stalledUntil = time.Time{}
	}
	return !l.stalledUntil.IsZero()
}

// take reads the socket and makes a cut that is due in the received bytes. If the link lost the bytes, n is 0 and err is nil. The caller
// holds l.mu; take unlocks l.mu while reading.
func (l *link) take(p []byte) (n int, err error) {
	l.reading = true
	l.mu.Unlock()
	n, err = l.socket.Read(p)
	l.mu.Lock()
	l.reading = false
	l.tell()
	for n > 0 && l.shape == nil && l.state == open && l.stalled() {
		l.wait(l.stalledUntil) // past a deadline, too: otherwise the bytes would be lost
	}
	if end := l.end("read"); end != nil {
		return 0, end
	}
	if l.state == silent && !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil // the end of the connection is lost, too
	}
	if n == 0 || l.state == silent {
		return 0, err
	}
	c := l.due
	if c == nil {
		return n, err
	}
	at := c.inRead(l.begun, n)
	if at < 0 {
		return n, err
	}
	l.mu.Unlock()
	l.cut(c.kind, c.reset)
	l.mu.Lock()
	if at > 0 {
		return at, nil
	}
	return 0, l.end("read")
}

func (l *link) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	for len(p) > 0 && err == nil {
		err = l.end("write")
		room, waits := len(p), false
		switch {
		case err != nil:
			continue
		case l.state == silent:
			room = max(0, min(room, silentBytes-l.swallowed)) // put may have swallowed more
			waits = room == 0
		case l.shape != nil && l.shape.out.over:
			if err = l.shape.out.err; err == nil {
				err = l.broken("write", syscall.EPIPE)
			}
			continue
		case l.shape != nil:
			room, waits = l.shape.out.room(room)
		default:
			l.mu.Unlock()
			return l.put(p)
		}
		switch {
		case !waits && l.state == silent:
			l.swallowed += room
		case !waits:
			l.shape.out.push(p[:room])
			l.tell()
		case over(l.writeDeadline):
			err = os.ErrDeadlineExceeded
			continue
		default:
			l.wait(l.writeDeadline)
			continue
		}
		n, p = n+room, p[room:]
	}
	l.mu.Unlock()
	return n, err
}

// put writes to the socket and makes a cut that is due in p.
func (l *link) put(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if err := l.end("write"); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	if l.state == silent {
		l.swallowed += len(p)
		l.mu.Unlock()
		return len(p), nil
	}
	begins, at := l.greets && !l.begun, -1
	l.begun = l.greets
	c := l.due
	if c != nil {
		if at = c.inWrite(begins, len(p)); at >= 0 {
			l.due, l.stalledUntil = nil, time.Now().Add(time.Hour) // no answer comes before the cut
		}
	}
	l.mu.Unlock()
	if at < 0 {
		n, err := l.socket.Write(p)
		return n, l.meaning("write", err)
	}
	n, err := 0, error(nil)
	if at > 0 {
		n, err = l.socket.Write(p[:at])
	}
	l.cut(c.kind, c.reset)
	if err == nil && n == len(p) {
		return n, nil // the next read or write fails
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return n, l.end("write")
}

// meaning replaces a socket's error by the error of the cut that closed the socket.
func (l *link) meaning(op string, err error) error {
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := l.end(op); end != nil {
		return end
	}
	return err
}

// past is a deadline for SetReadDeadline: a running read ends at once.
var past = time.Unix(1, 0)

// cut ends the connection for both sides, and reports whether the connection was open.
func (l *link) cut(k Kind, reset bool) bool {
	l.mu.Lock()
	if l.state != open {
		l.mu.Unlock()
		return false
	}
	l.state, l.cutAt, l.reset, l.due = cut, time.Now(), reset, nil
	if !reset {
		l.socket.SetReadDeadline(past) // the reader leaves to make way for drain
	}
	l.tell()
	l.mu.Unlock()
	l.dialer.wasCut(k) // before the server can know
	if reset {
		l.abandon()
	} else {
		l.socket.CloseWrite()
		l.dialer.keep(l, drainFor)
		go l.drain()
	}
	return true
}

// drain discards the server's bytes until the server closes the connection, too.
func (l *link) drain() {
	l.mu.Lock()
	for l.reading {
		l.wait(time.Time{})
	}
	l.socket.SetReadDeadline(time.Time{})
	l.mu.Unlock()
	io.Copy(io.Discard, l.socket) // after drainFor the Dialer closes the socket
	l.abandon()
}

// silence makes the link half-open, and reports whether the link was open.
func (l *link) silence() bool {
	l.mu.Lock()
	if l.state != open {
		l.mu.Unlock()
		return false
	}
	l.state, l.cutAt, l.due = silent, time.Now(), nil
	l.tell()
	l.mu.Unlock()
	l.dialer.keep(l, silentFor)
	l.dialer.wasCut(HalfOpen)
	return true
}

// stall makes reads wait for d, and reports whether the link is open.
func (l *link) stall(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open {
		return false
	}
	if until := time.Now().Add(d); until.After(l.stalledUntil) {
		l.stalledUntil = until
	}
	return true
}

// abandon closes the socket with RST.
func (l *link) abandon() {
	if t, ok := l.socket.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	l.socket.Close()
	l.dialer.forget(l)
}

// Close closes the link. The socket of a half-open link stays open, for the server's side.
func (l *link) Close() error {
	l.mu.Lock()
	was := l.state
	switch was {
	case open:
		l.state = closed
	case silent:
		l.state = left
		l.socket.SetReadDeadline(past) // ends a read begun before the silence
	}
	l.tell()
	l.mu.Unlock()
	if was != open {
		return nil
	}
	l.dialer.forget(l)
	return l.socket.Close()
}

func (l *link) CloseWrite() error {
	l.mu.Lock()
	switch {
	case l.state != open:
		defer l.mu.Unlock()
		return l.end("write")
	case l.shape != nil:
		defer l.mu.Unlock()
		l.shape.out.finish(nil)
		l.tell()
		return nil
	}
	l.mu.Unlock()
	return l.socket.CloseWrite()
}

func (l *link) SetDeadline(t time.Time) error {
	if err := l.SetReadDeadline(t); err != nil {
		return err
	}
	return l.SetWriteDeadline(t)
}

func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readDeadline = t
	l.tell()
	if l.shape == nil && (l.state == open || l.state == silent) {
		return l.socket.SetReadDeadline(t)
	}
	return nil
}

func (l *link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeDeadline = t
	l.tell()
	if l.shape == nil && l.state == open {
		return l.socket.SetWriteDeadline(t)
	}
	return nil
}
