package testlab

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// dialWithin is how long a backend has to accept.
const dialWithin = 300 * time.Millisecond

// A Front is a single address for many servers, as a load balancer of TCP: each connection goes to the next backend that accepts.
type Front struct {
	Addr string // HOST:PORT

	machine *Machine
	over    context.Context
	all     sync.WaitGroup

	mu       sync.Mutex
	backends []string
	turn     int
	taken    map[string]int // connections so far
}

// Front starts a front at an address of a machine, HOST:PORT, until the test ends. Backends are HOST:PORT.
func (l *Lab) Front(m *Machine, addr string, backends ...string) *Front {
	l.t.Helper()
	listener, err := m.Listen("tcp", addr)
	if err != nil {
		l.t.Fatal(err)
	}
	over, stop := context.WithCancel(context.Background())
	f := &Front{Addr: listener.Addr().String(), machine: m, over: over, backends: backends, taken: make(map[string]int)}
	f.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			f.all.Go(func() { f.join(client.(*net.TCPConn)) })
		}
	})
	l.t.Cleanup(func() {
		stop()
		listener.Close()
		f.all.Wait()
	})
	return f
}

// Set changes the backends of all later connections.
func (f *Front) Set(backends ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = backends
}

// Taken returns how many connections a backend has got.
func (f *Front) Taken(backend string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken[backend]
}

// join connects a client to a backend, until both directions have ended. If no backend accepts, the client gets a reset.
func (f *Front) join(client *net.TCPConn) {
	defer client.Close()
	server := f.dial()
	if server == nil {
		client.SetLinger(0)
		return
	}
	defer server.Close()
	defer context.AfterFunc(f.over, func() { end(client, server) })()
	var both sync.WaitGroup
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

func (f *Front) dial() *net.TCPConn {
	f.mu.Lock()
	turn, backends := f.turn, f.backends
	f.turn++
	f.mu.Unlock()
	for i := range backends {
		backend := backends[(turn+i)%len(backends)]
		ctx, cancel := context.WithTimeout(f.over, dialWithin)
		c, err := f.machine.Dial(ctx, "tcp", backend)
		cancel()
		if err == nil {
			f.mu.Lock()
			f.taken[backend]++
			f.mu.Unlock()
			return c.(*net.TCPConn)
		}
	}
	return nil
}

// pass copies bytes. The end of from is passed on as the end of one direction, and a failure as a reset of both.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		end(to, from)
		return
	}
	to.CloseWrite()
}

// end resets connections.
func end(all ...*net.TCPConn) {
	for _, c := range all {
		c.SetLinger(0)
		c.Close()
	}
}
