package transport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// patience is how long a test waits for a fact.
const patience = time.Minute

// serve starts a server and returns it with a channel of accepted connections. The end of the test
// closes the server.
func serve(t testing.TB, url string, o *ServerOptions) (*Server, <-chan Conn) {
	t.Helper()
	return servePaced(t, url, o, patience)
}

// servePaced is serve with another pace for messages.
func servePaced(t testing.TB, url string, o *ServerOptions, pace time.Duration) (*Server, <-chan Conn) {
	t.Helper()
	if rest, plain := strings.CutPrefix(url, "ws://"); plain && overTLS != nil {
		with := ServerOptions{}
		if o != nil {
			with = *o
		}
		with.TLS = overTLS.server
		url, o = "wss://"+rest, &with
	}
	return serveWhen(t, url, o, pace, func(Conn) bool { return true })
}

// serveWith reads a message from each connection. The channel has the connections with a message.
func serveWith(t testing.TB, url string, o *ServerOptions) (*Server, <-chan Conn) {
	t.Helper()
	return serveWhen(t, url, o, paceTime, func(c Conn) bool {
		if _, err := c.ReadMessage(); err != nil {
			c.Close(CloseNormal, "")
			return false
		}
		return true
	})
}

func serveWhen(t testing.TB, url string, o *ServerOptions, pace time.Duration, when func(Conn) bool) (*Server, <-chan Conn) {
	t.Helper()
	s, err := Listen(url, o)
	if err != nil {
		t.Fatal(err)
	}
	s.handler.settings.pace = pace
	accepted, served, done := make(chan Conn), make(chan error), make(chan struct{})
	go func() {
		served <- s.Serve(func(c Conn) {
			t.Cleanup(func() { c.Close(CloseGoingAway, "the test is over") })
			if !when(c) {
				return
			}
			select {
			case accepted <- c:
			case <-done:
			}
		})
	}()
	t.Cleanup(func() {
		close(done)
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, accepted
}

// until waits for a fact.
func until(t testing.TB, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !fact(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func dial(t testing.TB, url string, o *DialOptions) Conn {
	t.Helper()
	with := DialOptions{}
	if o != nil {
		with = *o
	}
	with.HandshakeTimeout = cmp.Or(with.HandshakeTimeout, patience)
	if overTLS != nil && strings.HasPrefix(url, "wss://") {
		with.TLS = overTLS.client
	}
	c, err := Dial(context.Background(), url, &with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(CloseNormal, "") })
	return c
}

// peer is a handmade websocket client that sends and sees every frame.
type peer struct {
	testing.TB
	net.Conn // tcp, or TLS on it
	tcp      *net.TCPConn
	in       *bufio.Reader
}

func newPeer(t testing.TB, url string) *peer {
	t.Helper()
	scheme, host, _ := strings.Cut(url, "://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	tcp := c.(*net.TCPConn)
	if scheme == "wss" {
		c = tls.Client(c, overTLS.client)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	return &peer{t, c, tcp, in}
}

const fin, text, cont, closing, ping, pong = 0x80, 1, 0, 8, 9, 10

// header returns the header of a masked frame. The mask is zero, so payloads stay as they are.
func header(first byte, size int) []byte {
	h := []byte{first}
	switch {
	case size < 126:
		h = append(h, 0x80|byte(size))
	case size < 1<<16:
		h = binary.BigEndian.AppendUint16(append(h, 0x80|126), uint16(size))
	default:
		h = binary.BigEndian.AppendUint64(append(h, 0x80|127), uint64(size))
	}
	return append(h, 0, 0, 0, 0)
}

// send writes a frame. A failed write is ignored: the last frame of the server shows the reason.
func (p *peer) send(first byte, payload []byte) {
	p.Write(header(first, len(payload)))
	p.Write(payload)
}

// frame reads the next frame. The server's frames are small and not masked.
func (p *peer) frame() (opcode byte, payload []byte) {
	p.Helper()
	var h [2]byte
	if _, err := io.ReadFull(p.in, h[:]); err != nil {
		p.Fatalf("read a frame: %v", err)
	}
	size := int(h[1])
	if size == 126 {
		var ext [2]byte
		io.ReadFull(p.in, ext[:])
		size = int(binary.BigEndian.Uint16(ext[:]))
	}
	if h[0]&fin == 0 || size > 1<<16 {
		p.Fatalf("frame header %x", h)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(p.in, payload); err != nil {
		p.Fatalf("read a frame of %d bytes: %v", size, err)
	}
	return h[0] & 0xf, payload
}

func (p *peer) wantFrame(opcode byte, payload string) {
	p.Helper()
	if o, b := p.frame(); o != opcode || string(b) != payload {
		p.Fatalf("frame %d %q, want %d %q", o, b, opcode, payload)
	}
}

func closeFrame(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}

func wantMessage(t testing.TB, c Conn, want string) {
	t.Helper()
	got, err := c.ReadMessage()
	if err != nil || string(got) != want {
		t.Fatalf("read %q (%v), want %q", got, err, want)
	}
}

// write writes a message and flushes.
func write(c Conn, msg []byte, binary bool) error { return flush(c, c.WriteMessage(msg, binary)) }

func flush(c Conn, err error) error {
	if err != nil {
		return err
	}
	return c.Flush()
}

func mustWrite(t testing.TB, c Conn, msg string) {
	t.Helper()
	if err := write(c, []byte(msg), false); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesOfAllSizes(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ws://127.0.0.1:0", "ws://[::1]:0", "unix://" + filepath.Join(t.TempDir(), "s")} {
		t.Run(url[:4], func(t *testing.T) {
			s, accepted := serve(t, url, nil)
			client := dial(t, s.URL(), nil)
			server := <-accepted
			for _, way := range []struct{ from, to Conn }{{client, server}, {server, client}} {
				for _, size := range []int{0, 1, 125, 126, 511, 512, 65535, 65536, keepBuffer + 1, 3 << 20, 2} {
					msg := make([]byte, size)
					rand.Read(msg)
					failed := make(chan error, 1)
					go func() { failed <- write(way.from, msg, size%2 == 0) }()
					got, err := way.to.ReadMessage()
					if err != nil || !bytes.Equal(got, msg) {
						t.Fatalf("%d bytes: came as %d bytes, %v", size, len(got), err)
					}
					if err := <-failed; err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Each limit holds at its real size, for a whole message and for fragments.
func TestLimits(t *testing.T) {
	t.Parallel()
	const frame, message = DefaultMaxFrame, DefaultMaxMessage
	frameReason := fmt.Sprintf("frame over the limit of %d bytes", 16<<20)
	messageReason := fmt.Sprintf("message over the limit of %d bytes", 64<<20)
	zeros := make([]byte, frame+1)
	for _, c := range []struct {
		name   string
		sizes  []int
		reason string // "": the message is accepted
	}{
		{"frame at the limit", []int{frame}, ""},
		{"frame over it", []int{frame + 1}, frameReason},
		{"second fragment over it", []int{10, frame + 1}, frameReason},
		{"message at the limit", []int{frame, frame, frame, frame}, ""},
		{"message over it", []int{frame, frame, frame, frame, 1}, messageReason},
		{"message over it within a fragment", []int{frame - 1, frame, frame, frame - 1, 3}, messageReason},
	} {
		t.Run(c.name, func(t *testing.T) {
			// On a busy machine, so many bytes may take longer than the time to the first ping, and longer than a stranger has.
			s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{PingEvery: time.Hour})
			p := newPeer(t, s.URL())
			server := (<-accepted).(*webSocket)
			server.Admit()
			sum := 0
			for _, n := range c.sizes {
				sum += n
			}
			go func() {
				opcode := byte(text)
				for i, n := range c.sizes {
					if i == len(c.sizes)-1 {
						opcode |= fin
					}
					p.send(opcode, zeros[:n])
					opcode = cont
				}
			}()
			msg, err := server.ReadMessage()
			if c.reason == "" {
				if err != nil || len(msg) != sum {
					t.Fatalf("%d bytes, %v; want %d", len(msg), err, sum)
				}
				return
			}
			if limit := (*LimitError)(nil); !errors.As(err, &limit) {
				t.Fatalf("%d bytes, %v; want a LimitError", len(msg), err)
			}
			p.wantFrame(closing, closeFrame(CloseTooBig, c.reason))
			if _, again := server.ReadMessage(); again != err {
				t.Errorf("then: %v", again)
			}
		})
	}
}

// A header alone allocates no memory for the payload.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := (<-accepted).(*webSocket)
	p.Write(append(header(fin|text, DefaultMaxFrame), make([]byte, 5000)...))
	p.Close()
	server.read() // read, because ReadMessage would let go of the buffer
	if n := cap(server.message.buf); n < 5000 || n > 4*5000 {
		t.Errorf("5000 bytes arrived, the buffer is %d", n)
	}
}

func TestLargeBufferIsNotKept(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	client := dial(t, s.URL(), nil)
	server := (<-accepted).(*webSocket)
	written := make(chan error)
	go func() { written <- write(client, make([]byte, 2*keepBuffer), true) }()
	if _, err := server.ReadMessage(); err != nil {
		t.Fatal(err)
	}
	<-written
	mustWrite(t, client, "small")
	wantMessage(t, server, "small")
	if cap(server.message.buf) > keepBuffer {
		t.Errorf("a buffer of %d bytes was kept", cap(server.message.buf))
	}
}

func TestHowConnectionsEnd(t *testing.T) {
	is := func(want error) func(error) bool {
		return func(err error) bool { return errors.Is(err, want) }
	}
	for _, c := range []struct {
		name string
		end  func(*peer)
		want func(error) bool
	}{
		{"close 1000", func(p *peer) { p.send(fin|closing, []byte(closeFrame(1000, "bye"))) },
			func(err error) bool { return err == io.EOF }},
		{"close without a code", func(p *peer) { p.send(fin|closing, nil) },
			func(err error) bool { return err == io.EOF }},
		{"close 1011", func(p *peer) { p.send(fin|closing, []byte(closeFrame(1011, "broke"))) },
			func(err error) bool {
				e := (*CloseError)(nil)
				return errors.As(err, &e) && *e == CloseError{1011, "broke"}
			}},
		{"fin", func(p *peer) { p.Close() }, is(io.ErrUnexpectedEOF)},
		{"fin in a header", func(p *peer) { p.Write(header(fin|text, 70000)[:5]); p.Close() }, is(io.ErrUnexpectedEOF)},
		{"fin in a frame", func(p *peer) { p.Write(append(header(fin|text, 70000), "half"...)); p.Close() }, is(io.ErrUnexpectedEOF)},
		{"fin between fragments", func(p *peer) { p.send(text, []byte("half")); p.Close() }, is(io.ErrUnexpectedEOF)},
		{"reset", func(p *peer) { p.tcp.SetLinger(0); p.tcp.Close() },
			func(err error) bool { return errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, ErrDead) }},
		{"a frame that is not masked", func(p *peer) { p.Write([]byte{fin | text, 1, 'x'}) },
			func(err error) bool { return strings.Contains(fmt.Sprint(err), "MASK") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, accepted := serve(t, "ws://127.0.0.1:0", nil)
			p := newPeer(t, s.URL())
			server := <-accepted
			p.send(fin|text, []byte("first"))
			wantMessage(t, server, "first")
			c.end(p)
			for range 2 { // the error is final
				if msg, err := server.ReadMessage(); !c.want(err) {
					t.Fatalf("%q, %v", msg, err)
				}
			}
		})
	}
}

func TestCloseIsSaidOnce(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	reading := make(chan error)
	go func() {
		_, err := server.ReadMessage()
		reading <- err
	}()
	server.Close(ClosePolicy, strings.Repeat("ä", 100))
	server.Close(CloseNormal, "too late")
	if err := <-reading; !errors.Is(err, net.ErrClosed) {
		t.Errorf("ReadMessage: %v", err)
	}
	if err := write(server, []byte("x"), false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteMessage: %v", err)
	}
	p.wantFrame(closing, closeFrame(ClosePolicy, strings.Repeat("ä", 61))) // 123 bytes at most, and no half letter
	if _, err := p.in.ReadByte(); err != io.EOF {
		t.Errorf("after the Close frame: %v", err)
	}
	// A closed connection still takes bytes under way: a reset could overtake the Close frame.
	if _, err := p.Write(make([]byte, 8<<20)); err != nil {
		t.Errorf("while the server lingers: %v", err)
	}
}

// Whoever waits for Settled may exit: the other side has had the Close frame, although what it has sent was never read.
func TestSettled(t *testing.T) {
	t.Parallel()
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	client, err := Dial(t.Context(), s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	if err := write(server, make([]byte, 64<<10), true); err != nil {
		t.Fatal(err)
	}
	client.Close(CloseNormal, "")
	settled := client.(*webSocket).Settled()
	select {
	case <-settled:
		t.Fatal("settled before the server has read the Close frame")
	default:
	}
	if _, err := server.ReadMessage(); err != io.EOF { // what a Close frame with CloseNormal means
		t.Errorf("the server reads %v, want io.EOF", err)
	}
	<-settled
	if server.(*webSocket).Settled() != nil {
		t.Error("a server has memory for Settled")
	}
}

// fill writes until the kernel takes no more, and returns the result of WriteMessage. When the peer
// sees the first byte, fill is amid a message too large for the kernel.
func fill(c Conn) <-chan error { return fillWith(c, 32<<20) }

func fillWith(c Conn, size int) <-chan error {
	stuck := make(chan error, 1)
	go func() {
		for msg := bytes.Repeat([]byte("x"), size); ; {
			if err := c.WriteMessage(msg, false); err != nil {
				stuck <- err
				return
			}
		}
	}()
	return stuck
}

func TestWriteToOneThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{WriteTimeout: 50 * time.Millisecond})
	newPeer(t, s.URL())
	err := <-fill(<-accepted)
	if e := net.Error(nil); !errors.As(err, &e) || !e.Timeout() || !strings.Contains(err.Error(), "50ms") {
		t.Fatal(err)
	}
}

// Close ends calls that wait, whatever carries the messages.
func TestCloseEndsBlockedCalls(t *testing.T) {
	t.Parallel()
	in := make(stuck)
	defer close(in)
	// through returns a connection over a pipe that nobody reads, and the other end.
	through := func(connect func(io.ReadCloser, io.WriteCloser, *StdioOptions) Conn) (Conn, func()) {
		nobody, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nobody.Close() })
		return connect(in, out, nil), func() { nobody.Read(make([]byte, 1)) }
	}
	for name, open := range map[string]func() (c Conn, begun func()){
		"websocket": func() (Conn, func()) {
			s, accepted := serve(t, "ws://127.0.0.1:0", nil)
			p := newPeer(t, s.URL())
			return <-accepted, func() { p.in.Peek(1) }
		},
		"stdio":  func() (Conn, func()) { return through(Stdio) },
		"frames": func() (Conn, func()) { return through(Frames) },
		"pipe": func() (Conn, func()) {
			a, b := Pipe("")
			return a, func() { b.ReadMessage() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, begun := open()
			writing, reading := fillWith(c, MaxFramed), make(chan error)
			go func() {
				_, err := c.ReadMessage()
				reading <- err
			}()
			begun() // and the peer reads no more
			c.Close(CloseNormal, "")
			for _, ended := range []<-chan error{reading, writing} {
				if err := <-ended; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
}

// A peer that does not read its pongs can still send messages.
func TestPingsDoNotStopTheReader(t *testing.T) {
	t.Parallel()
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{WriteTimeout: time.Hour})
	p := newPeer(t, s.URL())
	server := <-accepted
	writing := fill(server)
	p.in.Peek(1)
	for i := range 100 {
		p.send(fin|ping, fmt.Append(nil, i))
	}
	p.send(fin|text, []byte("stop it"))
	wantMessage(t, server, "stop it")
	server.Close(CloseNormal, "")
	<-writing
}

func TestPingIsAnswered(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	go server.ReadMessage()
	for _, payload := range []string{"a", "", "b"} {
		p.send(fin|ping, []byte(payload))
		p.wantFrame(pong, payload)
	}
}

// Frames written before a Flush arrive in their order, held back or not. Small frames held back arrive
// in one packet.
func TestHeldMessages(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	sizes := []int{0, 1, 125, 126, holdMessage, holdMessage + 1, 65535, 3}
	for range 2 * holdMax / holdMessage {
		sizes = append(sizes, holdMessage, 7)
	}
	written := make(chan error, 1)
	go func() {
		for i, size := range sizes {
			if err := server.WriteMessage(bytes.Repeat([]byte{byte('a' + i%26)}, size), false); err != nil {
				written <- err
				return
			}
			if i%3 == 0 {
				if err := server.Ping(fmt.Append(nil, i)); err != nil {
					written <- err
					return
				}
			}
		}
		written <- server.Flush()
	}()
	for i, size := range sizes {
		p.wantFrame(text, strings.Repeat(string(rune('a'+i%26)), size))
		if i%3 == 0 {
			p.wantFrame(ping, fmt.Sprint(i))
		}
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for range 20 {
		server.WriteMessage([]byte("small"), false)
	}
	if n := p.in.Buffered(); n > 0 {
		t.Errorf("%d bytes came before Flush", n)
	}
	server.Flush()
	p.wantFrame(text, "small")
	if n := p.in.Buffered(); n != 19*len("xxsmall") {
		t.Errorf("with the first of 20 small messages came %d bytes more, want the other 19", n)
	}
	if err := server.Flush(); err != nil { // nothing is held
		t.Fatal(err)
	}
}

func TestPongsFollowMessages(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	ponged := make(chan string, 10)
	server.SetPongHandler(func(payload []byte) { ponged <- string(payload) })
	for i := range 3 {
		mustWrite(t, server, fmt.Sprint("message ", i))
		if err := flush(server, server.Ping(fmt.Append(nil, i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		p.wantFrame(text, fmt.Sprint("message ", i))
		p.wantFrame(ping, fmt.Sprint(i))
		p.send(fin|pong, fmt.Append(nil, i))
	}
	p.send(fin|pong, nil) // an answer to a keep-alive ping is ignored
	p.send(fin|text, []byte("end"))
	wantMessage(t, server, "end")
	close(ponged)
	var got []string
	for payload := range ponged {
		got = append(got, payload)
	}
	if fmt.Sprint(got) != "[0 1 2]" {
		t.Error(got)
	}
	for _, bad := range [][]byte{nil, make([]byte, 126)} {
		if server.Ping(bad) == nil {
			t.Errorf("a ping of %d bytes was sent", len(bad))
		}
	}
}

// A pong of our own client confirms: ReadMessage has returned all messages before the ping.
func TestClientAcknowledges(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	client := dial(t, s.URL(), nil)
	server := <-accepted
	var read atomic.Int64
	ponged := make(chan int64)
	server.SetPongHandler(func([]byte) { ponged <- read.Load() })
	go server.ReadMessage()
	go func() {
		for {
			if _, err := client.ReadMessage(); err != nil {
				return
			}
			read.Add(1)
		}
	}()
	for n := range int64(5) {
		mustWrite(t, server, "x")
		if err := flush(server, server.Ping([]byte("p"))); err != nil {
			t.Fatal(err)
		}
		if got := <-ponged; got != n+1 {
			t.Fatalf("pong %d came when %d messages had been read", n+1, got)
		}
	}
}

// A ping waits for Flush after the held messages. A keep-alive ping must not repeat its payload
// earlier: the pong would say that the messages have been read.
func TestKeepAliveOvertakesNothing(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{PingEvery: 5 * time.Millisecond})
	p := newPeer(t, s.URL())
	server := <-accepted
	go server.ReadMessage()
	server.WriteMessage([]byte("held"), false)
	server.Ping([]byte("position"))
	for range 3 {
		p.wantFrame(ping, "")
	}
	server.Flush()
	for n := 0; ; n++ { // after the bytes under way
		opcode, payload := p.frame()
		if opcode == text && string(payload) == "held" {
			break
		}
		if opcode != ping || len(payload) > 0 || n > 1000 {
			t.Fatalf("frame %x %q before the message", opcode, payload)
		}
	}
	p.wantFrame(ping, "position")
}

// After a Close frame, from this side or in answer to the other, no frame follows.
func TestNothingAfterClose(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	server.WriteMessage([]byte("held"), false)
	p.send(fin|closing, []byte(closeFrame(CloseNormal, "")))
	if _, err := server.ReadMessage(); err != io.EOF {
		t.Errorf("ReadMessage: %v", err)
	}
	if err := server.Flush(); err != io.EOF { // whoever writes learns the same as who reads
		t.Errorf("Flush behind the answer to a Close frame: %v, want io.EOF", err)
	}
	p.wantFrame(closing, closeFrame(CloseNormal, ""))
	server.Close(CloseNormal, "")
	if _, err := p.in.ReadByte(); err != io.EOF {
		t.Errorf("after the Close frame: %v", err)
	}
}

func TestKeepAliveRepeatsAnUnansweredPing(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{PingEvery: 5 * time.Millisecond})
	p := newPeer(t, s.URL())
	server := <-accepted
	go server.ReadMessage()
	for range 3 {
		p.wantFrame(ping, "")
	}
	if err := flush(server, server.Ping([]byte("position"))); err != nil {
		t.Fatal(err)
	}
	until := func(want string) {
		t.Helper()
		for {
			if opcode, payload := p.frame(); opcode == ping && string(payload) == want {
				return
			}
		}
	}
	until("position")
	until("position")                               // a keep-alive ping may have been under way at the Flush, and is empty
	p.send(fin|pong, []byte("an earlier position")) // answers another ping
	p.wantFrame(ping, "position")
	p.wantFrame(ping, "position")
	p.send(fin|pong, []byte("position"))
	until("")
}

// Any byte within DeadAfter keeps a connection alive, even a part of a message. Silence for DeadAfter
// ends the connection. The test runs in a bubble for the clock.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		const deadAfter = 30 * time.Second
		l := &link{deadAfter: deadAfter}
		go func() {
			for range 5 {
				time.Sleep(deadAfter - 1)
				far.Write([]byte{0})
			}
		}()
		var b [1]byte
		for i := range 5 {
			if _, err := l.read(near, b[:]); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		time.Sleep(time.Hour) // the reader is busy; nobody is to blame
		start := time.Now()
		_, err := l.read(near, b[:])
		if !errors.Is(err, ErrDead) || time.Since(start) != deadAfter {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// newRelay returns a network to a server. Neither side notices when the network is cut.
func newRelay(t *testing.T, to string) (r *testrelay.Relay, cut *atomic.Bool) {
	cut = new(atomic.Bool)
	return testrelay.New(t, "tcp", to[strings.Index(to, "://")+3:], func(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
		if cut.Load() {
			return 0, testrelay.Silence
		}
		return n, testrelay.Open
	}), cut
}

func TestHalfOpenIsDeadAtBothEnds(t *testing.T) {
	t.Parallel()
	const every, after = 20 * time.Millisecond, time.Second
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{PingEvery: every, DeadAfter: after})
	r, cut := newRelay(t, s.URL())
	scheme, _, _ := strings.Cut(s.URL(), "://")
	client := dial(t, scheme+"://"+r.Addr(), &DialOptions{PingEvery: every, DeadAfter: after})
	server := <-accepted
	mustWrite(t, client, "hello")
	wantMessage(t, server, "hello")
	cut.Store(true)
	var ends sync.WaitGroup
	for _, c := range []Conn{client, server} {
		ends.Go(func() {
			if _, err := c.ReadMessage(); !errors.Is(err, ErrDead) || !strings.Contains(err.Error(), after.String()) {
				t.Error(err)
			}
		})
	}
	ends.Wait()
}

func TestDial(t *testing.T) {
	t.Run("tls", func(t *testing.T) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer ws.Close()
			ws.WriteMessage(websocket.TextMessage, []byte(r.Header.Get("Authorization")))
			ws.ReadMessage()
		}))
		defer s.Close()
		c := dial(t, "wss"+strings.TrimPrefix(s.URL, "https"), &DialOptions{
			TLS:    s.Client().Transport.(*http.Transport).TLSClientConfig,
			Header: http.Header{"Authorization": {"Bearer x"}},
		})
		wantMessage(t, c, "Bearer x")
		c.Close(CloseNormal, "")
	})
	t.Run("refused", func(t *testing.T) {
		s, _ := serve(t, "ws://127.0.0.1:0", nil)
		_, err := Dial(context.Background(), s.URL(), &DialOptions{Header: http.Header{"Origin": {"x"}}})
		if err == nil || !strings.Contains(err.Error(), s.URL()) || !strings.Contains(err.Error(), "403") {
			t.Error(err)
		}
		_, err = Dial(context.Background(), s.URL()+"/", &DialOptions{Header: http.Header{"Upgrade": {"x"}}})
		if err == nil {
			t.Error("a header of the handshake was replaced")
		}
		_, err = Dial(context.Background(), s.URL()+"/nowhere", nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and says nothing
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
				c.Read(make([]byte, 1)) // the handshake has begun
			}
			cancel()
		}()
		if _, err := Dial(ctx, "ws://"+l.Addr().String(), nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for _, url := range []string{"", "http://x", "ws://", "unix://", "127.0.0.1:1"} {
		if _, err := Dial(context.Background(), url, nil); err == nil || !strings.Contains(err.Error(), "expected ws://HOST:PORT") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func FuzzFrameGuard(f *testing.F) {
	f.Add(uint64(5), uint64(126), uint64(70000), uint8(3))
	f.Add(uint64(0), uint64(65535), uint64(1)<<63, uint8(1))
	f.Add(uint64(125), uint64(1000), uint64(1001), uint8(255))
	f.Fuzz(func(t *testing.T, a, b, c uint64, cut uint8) {
		const limit = 1000
		var (
			stream []byte
			stop   = -1 // where the first payload over the limit would begin; -1: nowhere
		)
		for _, size := range []uint64{a, b, c} {
			h := header(fin|text, int(size))
			if size > 1<<62 { // header takes an int
				h = append(binary.BigEndian.AppendUint64([]byte{fin | text, 0x80 | 127}, size), 0, 0, 0, 0)
			}
			stream = append(stream, h...)
			if size > limit {
				stop = len(stream) - 4 // the mask counts as payload
				stream = append(stream, "it was told not to go on"...)
				break
			}
			stream = append(stream, bytes.Repeat([]byte{0xff}, int(size))...)
		}
		g := frameGuard{max: limit}
		for passed := 0; passed < len(stream); {
			piece := stream[passed:min(len(stream), passed+int(cut)+1)]
			n, err := g.follow(piece)
			passed += n
			if err != nil {
				if passed != stop {
					t.Fatalf("stopped at %d, want %d", passed, stop)
				}
				return
			}
			if n != len(piece) {
				t.Fatalf("took %d of %d bytes without an error", n, len(piece))
			}
		}
		if stop >= 0 {
			t.Fatalf("passed a payload over the limit at %d", stop)
		}
	})
}
