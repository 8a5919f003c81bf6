package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseFor(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   int
		reason string
	}{
		{&ViolationError{"bad MASK"}, 1002, "bad MASK"},
		{&LimitError{"message", 5}, 1009, "message over the limit of 5 bytes"},
		{deadError(30 * time.Second), 4002, "nothing came for 30s: connect again"},
		{&CloseError{1011, "broke"}, 1011, ""},
		{io.EOF, 1000, ""},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), 4002, "the connection broke: connect again"},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), 4002, "the connection broke: connect again"},
	} {
		if code, reason := closeFor(c.err); code != c.code || reason != c.reason {
			t.Errorf("%v: Close %d %q, want %d %q", c.err, code, reason, c.code, c.reason)
		}
	}
}

// The last frame of a server tells its client why the connection broke or fell silent.
func TestCloseFramesOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      ServerOptions
		end    func(*peer)
		code   int
		reason string
	}{
		{"silence", ServerOptions{DeadAfter: 50 * time.Millisecond}, func(*peer) {}, 4002, "nothing came for 50ms: connect again"},
		{"a frame that is not masked", ServerOptions{}, func(p *peer) { p.Write([]byte{fin | text, 1, 'x'}) }, 1002, "bad MASK"},
		{"an opcode that is none", ServerOptions{}, func(p *peer) { p.send(fin|3, nil) }, 1002, "bad opcode 3"},
		{"too large", ServerOptions{MaxMessage: 10}, func(p *peer) { p.send(fin|text, make([]byte, 11)) }, 1009, "message over the limit of 10 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, accepted := serve(t, "ws://127.0.0.1:0", &c.o)
			p := newPeer(t, s.URL())
			server := <-accepted
			c.end(p)
			if _, err := server.ReadMessage(); err == nil {
				t.Error("a message")
			}
			p.wantFrame(closing, closeFrame(uint16(c.code), c.reason))
		})
	}
}

// sleepyConn is a connection on a machine that sleeps: deadlines pass late.
type sleepyConn struct {
	net.Conn
	sleep time.Duration // the delay of the next deadline; 0: on time
	due   time.Time
	bytes int // to be read at once
}

func (c *sleepyConn) SetReadDeadline(t time.Time) error { c.due = t; return nil }

func (c *sleepyConn) Read(p []byte) (int, error) {
	if c.bytes > 0 {
		c.bytes--
		return 1, nil
	}
	time.Sleep(max(time.Until(c.due), c.sleep))
	c.sleep = 0
	return 0, os.ErrDeadlineExceeded
}

// A server that was stopped does not blame its client for the silence.
func TestSleepIsNotSilence(t *testing.T) {
	const deadAfter = 40 * time.Second
	begin := func(sleep time.Duration) (*sleepyConn, *link) {
		return &sleepyConn{sleep: sleep}, &link{deadAfter: deadAfter}
	}
	synctest.Test(t, func(t *testing.T) {
		// A sleep of any length counts as a quarter of the silence.
		c, l := begin(time.Hour)
		start := time.Now()
		_, err := l.read(c, make([]byte, 1))
		if awake := time.Since(start) - time.Hour; !errors.Is(err, ErrDead) || awake != deadAfter*3/4 {
			t.Errorf("%v after %v awake, want dead after %v", err, awake, deadAfter*3/4)
		}
		// After the last quarter, bytes waiting in the socket count as a sign of life.
		c, l = begin(0)
		looked := 0
		l.waiting = func() bool {
			looked++
			c.bytes = 1
			return true
		}
		if n, err := l.read(c, make([]byte, 1)); n != 1 || err != nil || looked != 1 {
			t.Errorf("%d, %v, looked %d times: want the byte that waited", n, err, looked)
		}
	})
}

func TestBytesWait(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "socket")
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			far, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			near, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			raw, err := near.(stream).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if bytesWait(raw) {
				t.Error("bytes wait of which none were written")
			}
			far.Write([]byte("x"))
			near.SetReadDeadline(time.Unix(1, 0)) // the deadline of a connection taken for dead
			until(t, "the byte waits", func() bool { return bytesWait(raw) })
		})
	}
}

// slowWire takes a few bytes at each attempt, late.
type slowWire struct {
	wire
	link  link
	takes []int // bytes taken at each attempt; then none
	sleep time.Duration
	due   time.Time
}

func (w *slowWire) state() *link                       { return &w.link }
func (w *slowWire) attempts() int                      { return silenceParts }
func (w *slowWire) SetWriteDeadline(t time.Time) error { w.due = t; return nil }
func (w *slowWire) writev(a, b []byte) (n int, err error) {
	time.Sleep(max(time.Until(w.due), w.sleep))
	w.sleep = 0
	if len(w.takes) > 0 {
		n = w.takes[0]
		w.takes = w.takes[1:]
	}
	if n == len(a)+len(b) {
		return n, nil
	}
	return n, os.ErrDeadlineExceeded
}

// A peer that takes a message slowly is not dead, and a server that slept does not blame its peer.
func TestSlowIsNotDead(t *testing.T) {
	const timeout = 40 * time.Second
	var slowly []int
	for range 100 {
		slowly = append(slowly, 0, 0, 1)
	}
	for _, c := range []struct {
		name  string
		wire  *slowWire
		after time.Duration // awake
		dead  bool
	}{
		{"slowly, for long", &slowWire{takes: slowly}, 300 * timeout / silenceParts, false},
		{"never", &slowWire{}, timeout, true},
		{"some, and then never", &slowWire{takes: []int{0, 0, 3}}, 7 * timeout / silenceParts, true},
		{"after a sleep", &slowWire{takes: []int{0, 0, 0, 100}, sleep: time.Hour}, 3 * timeout / silenceParts, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slept := c.wire.sleep
				ws := &webSocket{wire: c.wire, settings: settings{writeTimeout: timeout}}
				start := time.Now()
				err := ws.writeAll(make([]byte, 10), make([]byte, 90))
				if dead := errors.Is(err, os.ErrDeadlineExceeded); dead != c.dead || time.Since(start)-slept != c.after {
					t.Errorf("%v after %v awake, want %v", err, time.Since(start)-slept, c.after)
				}
			})
		})
	}
}

// Gone reports a vanished peer to a caller that does not read.
func TestGone(t *testing.T) {
	t.Parallel()
	is := func(what string, c Conn, want bool) {
		t.Helper()
		until(t, fmt.Sprintf("%s: gone is %v", what, want), func() bool { return c.(interface{ Gone() bool }).Gone() == want })
	}
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{PingEvery: 20 * time.Millisecond})
	p := newPeer(t, s.URL())
	server := <-accepted
	p.send(fin|text, []byte("nobody reads this"))
	is("websocket", server, false)
	p.Close()
	is("websocket", server, true)

	framed, taken := serve(t, "unix://"+filepath.Join(t.TempDir(), "socket"), &ServerOptions{Framed: true})
	client := dial(t, framed.URL(), nil)
	server = <-taken
	mustWrite(t, client, "nobody reads this")
	is("frames", server, false)
	client.Close(CloseNormal, "")
	is("frames", server, true)
}
