package chaos

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

const (
	// A half-open connection stays open on the server's side for silentFor, unless the server closes the connection earlier.
	silentFor = 30 * time.Second
	// After a cut with FIN, the link still reads the server's bytes for drainFor. A socket closed with unread bytes would send RST instead.
	drainFor = 5 * time.Second
)

// A Dialer opens links. Its NetDial is for transport.DialOptions. After each handshake, the client calls Greets. Each session has its own
// Dialer. Any goroutine may call any method.
type Dialer struct {
	Chaos plan.Chaos // the link: Delay, Speed, Loss
	Seed  uint64

	// OnCut is called once for each cut connection, at the moment of the cut, with the kind of the cut. An act of Handshake or Resume makes two
	// cuts: first FIN or RST for the open connection, and later Handshake or Resume for the next connection. The cutting goroutine calls OnCut,
	// so OnCut must not block. Nil: nobody is called.
	OnCut func(Kind)

	mu     sync.Mutex
	closed bool
	dialed uint64                // connections until now
	newest *link                 // nil: none
	next   *Act                  // the act for the next connection; nil: none
	ends   map[*link]*time.Timer // half-open links and links cut with FIN; the timer closes the socket
}

// NetDial opens a connection. After an act of Handshake or Resume, the new connection is cut in its handshake or after its resume.
func (d *Dialer) NetDial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s, ok := c.(socket)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("chaos: network %q is not supported: use tcp or unix", network)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		c.Close()
		return nil, fmt.Errorf("chaos: %w: the dialer was closed", net.ErrClosed)
	}
	d.dialed++
	act := d.next
	d.next = nil
	l := newLink(d, s, d.dialed)
	d.newest = l
	d.mu.Unlock()
	if act != nil {
		l.prepare(*act)
	}
	return l, nil
}

// Do applies an Act that cuts or stalls to the newest connection, and reports whether that connection was open: false for other kinds. Do does
// not block. An act of Handshake or Resume ends the newest connection with FIN or RST, and cuts the next connection in its handshake or
// after its resume.
func (d *Dialer) Do(a Act, stallFor time.Duration) bool {
	d.mu.Lock()
	l := d.newest
	d.mu.Unlock()
	if l == nil {
		return false
	}
	switch a.Kind {
	case FIN, RST:
		return l.cut(a.Kind, a.Kind == RST)
	case HalfOpen:
		return l.silence()
	case MidFrame:
		return l.prepare(a)
	case Stall:
		return l.stall(stallFor)
	case Handshake, Resume:
		d.mu.Lock()
		before := d.next
		d.next = &a // before the cut: the client may dial at once
		d.mu.Unlock()
		kind, reset := FIN, a.Arg&1 == 0
		if reset {
			kind = RST
		}
		if l.cut(kind, reset) {
			return true
		}
		d.mu.Lock()
		if d.next == &a {
			d.next = before
		}
		d.mu.Unlock()
	}
	return false
}

// Close closes the sockets that are kept open only for the server: sockets of half-open connections, and of connections cut with FIN. The
// client must have closed its connections before Close.
func (d *Dialer) Close() {
	d.mu.Lock()
	d.closed, d.newest = true, nil
	ends := d.ends
	d.ends = nil
	d.mu.Unlock()
	for l, timer := range ends {
		timer.Stop()
		l.abandon()
		l.Close() // wakes a websocket client that still reads the connection it has closed
	}
}

// keep remembers a link whose socket stays open for the server, and closes the socket after a time. A Dialer remembers at most one link for
// each connection opened within silentFor.
func (d *Dialer) keep(l *link, until time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		go l.abandon()
		return
	}
	if d.ends == nil {
		d.ends = make(map[*link]*time.Timer)
	}
	d.ends[l] = time.AfterFunc(until, l.abandon)
}

func (d *Dialer) forget(l *link) {
	d.mu.Lock()
	if timer := d.ends[l]; timer != nil {
		timer.Stop()
		delete(d.ends, l)
	}
	if d.newest == l {
		d.newest = nil
	}
	d.mu.Unlock()
}

func (d *Dialer) wasCut(k Kind) {
	if d.OnCut != nil {
		d.OnCut(k)
	}
}

// A socket is a *net.TCPConn or a *net.UnixConn.
type socket interface {
	net.Conn
	CloseWrite() error
	SyscallConn() (syscall.RawConn, error)
}
