package cluster

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/transport"
)

// socket is a Stream without TLS.
type socket struct{ *net.TCPConn }

// Await implements transport.Stream.
func (s socket) Await() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
}

// ends returns a cable with the far ends of its client and its node, and a channel that is closed when the cable has ended.
func ends(t *testing.T) (c *cable, client, node *net.TCPConn, ended chan struct{}) {
	t.Helper()
	pair := func() (near, far *net.TCPConn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); out.Close() })
		return in.(*net.TCPConn), out.(*net.TCPConn)
	}
	c = &cable{up: new(meters.Counter), down: new(meters.Counter)}
	toClient, client := pair()
	toNode, node := pair()
	c.client, c.node, ended = socket{toClient}, socket{toNode}, make(chan struct{})
	go func() {
		defer close(ended)
		c.run()
	}()
	return c, client, node, ended
}

// Bytes of any number come through both ways at the same time, in pieces of all sizes, and are counted. An end passes on its own: the other direction goes on.
func TestCableCarries(t *testing.T) {
	t.Parallel()
	c, client, node, ended := ends(t)
	up, down := make([]byte, 3<<20), make([]byte, 5<<20)
	rand.Read(up)
	rand.Read(down)
	got := make(chan []byte)
	send := func(to *net.TCPConn, all []byte) {
		for size := 1; len(all) > 0; size = 3*size + 1 {
			n := min(size, len(all))
			to.Write(all[:n])
			all = all[n:]
		}
		to.CloseWrite()
	}
	go send(client, up)
	go func() {
		all, _ := io.ReadAll(node)
		got <- all
		send(node, down) // after the end of the other direction
	}()
	go func() {
		all, _ := io.ReadAll(client)
		got <- all
	}()
	if !bytes.Equal(<-got, up) || !bytes.Equal(<-got, down) {
		t.Error("other bytes came")
	}
	<-ended
	if c.up.Load() != 3<<20 || c.down.Load() != 5<<20 {
		t.Errorf("counted %d up and %d down", c.up.Load(), c.down.Load())
	}
}

// Pieces of all sizes come through at once, one after the other.
func TestCablePieces(t *testing.T) {
	t.Parallel()
	_, client, node, _ := ends(t)
	buf := make([]byte, 2*transport.ReadAtOnce)
	for _, size := range []int{1, 500, transport.ReadAtOnce, transport.ReadAtOnce + 1, 1} {
		go client.Write(buf[:size])
		if _, err := io.ReadFull(node, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
}

// A side that does not read makes the other side wait: the cable holds no more than its buffers.
func TestCableHoldsLittle(t *testing.T) {
	t.Parallel()
	c, client, node, ended := ends(t)
	for _, conn := range []*net.TCPConn{client, node} {
		conn.SetReadBuffer(4 << 10)
		conn.SetWriteBuffer(4 << 10)
	}
	node.SetWriteDeadline(time.Now().Add(time.Second))
	sent := 0
	for {
		n, err := node.Write(make([]byte, 64<<10))
		sent += n
		if err != nil {
			break
		}
	}
	if most := 64 << 20; sent > most { // of the kernel's buffers
		t.Errorf("%d bytes are on their way to a client that reads nothing", sent)
	}
	c.cut()
	<-ended
}

// When one side is gone, the other side gets everything that was sent before, and then the end; the cable does not wait for a side that never ends.
func TestCableEnds(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"reset":  func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client, node, ended := ends(t)
			node.Write([]byte("last words"))
			got := make([]byte, 10)
			if _, err := io.ReadFull(client, got); err != nil {
				t.Fatal(err)
			}
			leave(node)
			if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
			<-ended // although the client goes on
		})
	}
}
