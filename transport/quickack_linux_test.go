package transport

import (
	"errors"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

func option(t *testing.T, c Conn, option int) (value int) {
	t.Helper()
	var err error
	c.(*webSocket).raw.Control(func(fd uintptr) {
		value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestSocketOptions(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	if option(t, server, unix.TCP_NODELAY) != 1 {
		t.Error("TCP_NODELAY is off")
	}
	// Answers make the kernel delay its acknowledgements, until an answer comes late.
	for n := 0; option(t, server, unix.TCP_QUICKACK) != 0; n++ {
		if n == 100 {
			needs.Feature(t, errors.New("this kernel does not delay acknowledgements"))
		}
		p.send(fin|text, []byte("x"))
		wantMessage(t, server, "x")
		mustWrite(t, server, "y")
		p.wantFrame(text, "y")
	}
	p.send(fin|pong, []byte("z"))
	p.send(fin|text, []byte("x"))
	wantMessage(t, server, "x")
	if option(t, server, unix.TCP_QUICKACK) != 1 {
		t.Error("acknowledgements are delayed after a pong")
	}
}
