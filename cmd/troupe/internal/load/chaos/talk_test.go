package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/tests/support/testproxy"
	"github.com/b6f6fdd7/troupe/transport"
)

// A house is a server. Each of its clients sends a message and gets a message.
type house struct {
	url    string
	client *tls.Config
	proxy  func(*http.Request) (*url.URL, error)

	mu    sync.Mutex
	heard map[string]bool // the first messages of clients
	told  chan struct{}   // has a token when heard has a new message
}

const (
	greeting = `{"id":1,"method":"initialize","params":{"clientName":%q,"resumeSessionId":"s"}}`
	welcome  = `{"id":1,"result":{"sessionId":"s"}}`
)

func (h *house) serve(c transport.Conn) {
	defer c.Close(transport.CloseNormal, "")
	m, err := c.ReadMessage()
	if err != nil {
		return
	}
	h.mu.Lock()
	h.heard[string(m)] = true
	h.mu.Unlock()
	select {
	case h.told <- struct{}{}:
	default:
	}
	if c.WriteMessage([]byte(welcome), false) == nil && c.Flush() == nil {
		c.ReadMessage()
	}
}

func (h *house) has(m string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard[m]
}

func (h *house) waitFor(m string) bool {
	for end := time.After(patience); !h.has(m); {
		select {
		case <-h.told:
		case <-end:
			return false
		}
	}
	return true
}

// inHouses tests with a server of each kind, with and without a proxy.
func inHouses(t *testing.T, test func(*testing.T, *house)) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	old := ca.Client(t, nil)
	old.MaxVersion = tls.VersionTLS12
	for _, try := range []struct {
		name, listen string
		client       *tls.Config
		proxy        string
	}{
		{"ws", "ws://127.0.0.1:0", nil, ""},
		{"ws by CONNECT", "ws://127.0.0.1:0", nil, "http"},
		{"ws by SOCKS", "ws://127.0.0.1:0", nil, "socks5"},
		{"TLS 1.3", "wss://127.0.0.1:0", ca.Client(t, nil), ""},
		{"TLS 1.2", "wss://127.0.0.1:0", old, ""},
		{"TLS 1.3 by CONNECT", "wss://127.0.0.1:0", ca.Client(t, nil), "http"},
		{"TLS 1.2 by SOCKS", "wss://127.0.0.1:0", old, "socks5"},
		{"unix", "unix://", nil, ""},
		{"frames", "unix+frames://", nil, ""},
	} {
		t.Run(try.name, func(t *testing.T) {
			h := &house{client: try.client, heard: make(map[string]bool), told: make(chan struct{}, 1)}
			if try.proxy != "" {
				h.proxy = http.ProxyURL(testproxy.New(t, try.proxy, nil).URL)
			}
			listen, options := try.listen, &transport.ServerOptions{}
			if strings.HasPrefix(listen, "unix") {
				options.Framed = strings.Contains(listen, "frames")
				listen = "unix://" + filepath.Join(t.TempDir(), "s")
			}
			if h.client != nil {
				options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			}
			s, err := transport.Listen(listen, options)
			if err != nil {
				t.Fatal(err)
			}
			h.url = s.URL()
			served := make(chan struct{})
			go func() {
				defer close(served)
				s.Serve(h.serve)
			}()
			t.Cleanup(func() { s.Close(); <-served })
			test(t, h)
		})
	}
}

// visit greets, and returns the bytes received. dialed says that the handshake succeeded.
func (h *house) visit(t *testing.T, d *Dialer, name string) (dialed bool, answer string) {
	t.Helper()
	var socket net.Conn
	dial := func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		socket, err = d.NetDial(ctx, network, addr)
		return socket, err
	}
	c, err := transport.Dial(t.Context(), h.url, &transport.DialOptions{
		NetDial: dial, TLS: h.client, Proxy: h.proxy, Subprotocols: []string{transport.SubprotocolJSON}, HandshakeTimeout: patience,
	})
	if err != nil {
		return false, ""
	}
	defer c.Close(transport.CloseNormal, "")
	Greets(socket)
	c.WriteMessage(fmt.Appendf(nil, greeting, name), false)
	m, err := c.ReadMessage()
	if err != nil {
		return true, ""
	}
	return true, string(m)
}

// everyVariant yields acts of a kind with each variant of Arg, and for each variant the smallest and the greatest random bits.
func everyVariant(k Kind, yield func(name string, a Act)) {
	for variant := range uint64(16) {
		for _, chance := range []uint64{0, 1<<40 - 1} {
			a := Act{Kind: k, Arg: variant | chance<<8}
			yield(fmt.Sprintf("%s %d %d", k, variant, chance), a)
		}
	}
}

// After an act of Handshake, the next connection never carries a message of the client. After an act of Resume, the client of the next
// connection never gets its answer, and if the connection is cut with FIN, the server gets the request. The connection after the next works.
func TestNextIsCut(t *testing.T) {
	inHouses(t, func(t *testing.T, h *house) {
		for _, kind := range []Kind{Handshake, Resume} {
			everyVariant(kind, func(name string, a Act) {
				var heard heard
				d := &Dialer{OnCut: heard.cut, next: &a}
				defer d.Close()
				dialed, answer := h.visit(t, d, name)
				switch request := fmt.Sprintf(greeting, name); {
				case answer != "" || kind == Handshake && h.has(request):
					t.Errorf("%s: the connection was cut too late: %q came", name, answer)
				case kind == Resume && (!dialed || a.Arg&1 == 1 && !h.waitFor(request)):
					t.Errorf("%s: the connection was cut too early; the handshake succeeded: %v", name, dialed)
				}
				heard.want(t, kind)
				if _, answer := h.visit(t, d, name); answer != welcome {
					t.Errorf("%s: on the next connection came %q", name, answer)
				}
				heard.want(t, kind)
			})
		}
	})
}

// Acts of Handshake and Resume also cut the open connection, as a FIN or RST. Acts without an open connection leave the next connection
// alone.
func TestNextConnection(t *testing.T) {
	for _, k := range []Kind{Handshake, Resume} {
		for arg := range uint64(2) {
			d, h, near, far := pair(t, "tcp", plan.Chaos{})
			says(t, near, far, "hello")
			if !d.Do(Act{Kind: k, Arg: arg}, 0) {
				t.Fatal("there was no connection")
			}
			if _, err := far.Read(make([]byte, 1)); (err == io.EOF) != (arg == 1) {
				t.Errorf("%s %d: the server reads %v", k, arg, err)
			}
			h.want(t, []Kind{RST, FIN}[arg])
			if d.next == nil || d.next.Arg != arg {
				t.Errorf("the next connection has %+v before it", d.next)
			}
			if d.Do(Act{Kind: k, Arg: 77}, 0) || d.next.Arg != arg {
				t.Errorf("an act without a connection: the next connection has %+v before it", d.next)
			}
		}
	}
}

// A whole act of Handshake or Resume is two cuts, and each counts once, with its own kind.
func TestCutsCountOnce(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, k := range []Kind{Handshake, Resume} {
		var h heard
		d := &Dialer{OnCut: h.cut}
		defer d.Close()
		visit := func() net.Conn {
			c, err := d.NetDial(t.Context(), "unix", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			Greets(c)
			c.Write([]byte("hello"))
			return c
		}
		first := visit()
		d.Do(Act{Kind: k, Arg: 1}, 0)
		first.Close()
		h.want(t, FIN)
		for range 2 {
			visit().Close()
			h.want(t, FIN, k)
		}
	}
}

// Over a link with a low speed, messages of TLS and HTTP are in several packets.
func TestShapedHandshake(t *testing.T) {
	inHouses(t, func(t *testing.T, h *house) {
		d := &Dialer{Chaos: plan.Chaos{Delay: plan.Duration(time.Millisecond), Speed: 100_000}}
		defer d.Close()
		if _, answer := h.visit(t, d, "slow"); answer != welcome {
			t.Errorf("%q came", answer)
		}
		for _, a := range []Act{{Kind: Handshake, Arg: 3}, {Kind: Handshake, Arg: 5}, {Kind: Resume, Arg: 1}, {Kind: Resume, Arg: 5}} {
			d.next = &a
			if _, answer := h.visit(t, d, "slow"); answer != "" {
				t.Errorf("%s %d: %q came", a.Kind, a.Arg, answer)
			}
		}
	})
}

// tired is a socket whose writer loses the CPU after each write.
type tired struct{ socket }

func (s tired) Write(p []byte) (int, error) {
	n, err := s.socket.Write(p)
	time.Sleep(50 * time.Millisecond)
	return n, err
}

// No answer overtakes a cut that follows a write.
func TestNoAnswerBeforeTheCut(t *testing.T) {
	_, _, near, far := pair(t, "unix", plan.Chaos{})
	l := near.(*link)
	l.socket = tired{l.socket}
	Greets(l)
	if !l.prepare(Act{Kind: Resume, Arg: 1}) {
		t.Fatal("there was no connection")
	}
	go io.Copy(far, far)
	go l.Write([]byte("\x00\x00\x00\x05hello"))
	if n, err := l.Read(make([]byte, 10)); n > 0 {
		t.Errorf("%d bytes came, %v", n, err)
	}
}
