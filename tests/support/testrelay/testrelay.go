// Package testrelay is a network for tests. It carries connections to a server, and breaks them when the test says so.
package testrelay

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// A How says how a connection breaks.
type How int

const (
	Open    How = iota // it does not break
	FIN                // both sides see its end
	RST                // both sides see a reset
	Silence            // no side sees anything: the connection stays open, and carries nothing
)

// A Link joins a connection of a client with a connection of the server.
type Link struct {
	Number   int   // from 0
	ToClient int64 // bytes carried to the client so far

	client, server net.Conn
	broken         chan struct{}
	once           sync.Once
}

// A Relay carries connections until the test ends.
type Relay struct {
	listener net.Listener
	pass     Pass

	mu     sync.Mutex
	links  []*Link
	closed bool
	all    sync.WaitGroup
}

// A Pass decides about each piece of n bytes, or about the end of a stream (n is 0): how many of the bytes the network carries, and
// how the link breaks then. A Pass may wait. Two goroutines a link call it.
type Pass func(l *Link, n int, toClient bool) (carried int, then How)

// New returns a Relay to a server at an address of a network, tcp or unix. A nil Pass carries everything.
func New(t testing.TB, network, address string, pass Pass) *Relay {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(t.TempDir(), "relay")
	}
	listener, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	if pass == nil {
		pass = func(_ *Link, n int, _ bool) (int, How) { return n, Open }
	}
	r := &Relay{listener: listener, pass: pass}
	r.all.Go(func() { r.serve(network, address) })
	t.Cleanup(r.Close)
	return r
}

// Addr is the address for clients.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close ends all connections, and waits until no Pass is called any more.
func (r *Relay) Close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for _, l := range r.links {
		l.end(FIN)
		l.client.Close() // also if the link is silent
		l.server.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

func (r *Relay) serve(network, address string) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(network, address)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		l := &Link{Number: len(r.links), client: client, server: server, broken: make(chan struct{})}
		r.links = append(r.links, l)
		if r.closed { // and Close has ended the links before this one
			l.end(FIN)
		}
		r.mu.Unlock()
		r.all.Go(func() { r.carry(l, client, server, true) })
		r.all.Go(func() { r.carry(l, server, client, false) })
	}
}

func (r *Relay) carry(l *Link, to, from net.Conn, toClient bool) {
	buf := make([]byte, 64<<10)
	for {
		n, end := from.Read(buf)
		if l.isBroken() {
			return
		}
		carried, then := r.pass(l, n, toClient)
		if l.isBroken() {
			return
		}
		if carried > 0 {
			if _, err := to.Write(buf[:carried]); err != nil {
				return
			}
		}
		if toClient {
			l.ToClient += int64(carried)
		}
		switch {
		case then != Open:
			l.end(then)
			return
		case end != nil:
			to.(interface{ CloseWrite() error }).CloseWrite()
			return
		}
	}
}

func (l *Link) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

// end breaks a link, once.
func (l *Link) end(how How) {
	l.once.Do(func() {
		close(l.broken)
		for _, conn := range []net.Conn{l.client, l.server} {
			if tcp, ok := conn.(*net.TCPConn); ok && how == RST {
				tcp.SetLinger(0)
			}
			if how != Silence {
				conn.Close()
			}
		}
	})
}
