package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
	"github.com/b6f6fdd7/troupe/transport"
)

// A relay is a network between client and server. While it is silent, it carries no byte and ends no
// connection.
type relay struct {
	*testrelay.Relay

	mu     sync.Mutex
	lifted *sync.Cond
	silent bool
}

func newRelay(t *testing.T, network, server string) *relay {
	t.Helper()
	r := new(relay)
	r.lifted = sync.NewCond(&r.mu)
	r.Relay = testrelay.New(t, network, server, func(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for r.silent {
			r.lifted.Wait()
		}
		return n, testrelay.Open
	})
	t.Cleanup(func() { r.set(false) }) // before the relay ends
	return r
}

func (r *relay) set(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = silent
	r.lifted.Broadcast()
}

// serveFake runs a fake server at a kind of socket, and returns its URL and the TLS of its clients.
func serveFake(t *testing.T, scheme string) (*fake, string, *tls.Config) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	listen := scheme + "127.0.0.1:0"
	if strings.HasPrefix(scheme, "unix") {
		listen = "unix://" + filepath.Join(t.TempDir(), "server")
	}
	o := &transport.ServerOptions{Framed: scheme == "unix+frames://"}
	if scheme == "wss://" {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	server, err := transport.Listen(listen, o)
	if err != nil {
		t.Fatal(err)
	}
	f := newFake(programs)
	var serving sync.WaitGroup
	serving.Go(func() {
		server.Serve(func(c transport.Conn) {
			serving.Go(func() { f.serve(&fakeConn{Conn: c, cursor: make(map[string]uint64)}) })
		})
	})
	t.Cleanup(func() {
		server.Close()
		f.lock(func() { f.conn.Close(1000, "") })
		serving.Wait()
	})
	return f, server.URL(), ca.Client(t, nil)
}

// onRelay runs test with a fake server at each kind of socket, with a relay before the server. dial dials
// through the relay.
func onRelay(t *testing.T, test func(t *testing.T, f *fake, r *relay, dial func(*Options) *Client)) {
	for _, scheme := range []string{"ws://", "wss://", "unix://", "unix+frames://"} {
		t.Run(strings.TrimSuffix(scheme, "://"), func(t *testing.T) {
			t.Parallel()
			f, url, config := serveFake(t, scheme)
			network := "tcp"
			if strings.HasPrefix(scheme, "unix") {
				network = "unix"
			}
			_, address, _ := strings.Cut(url, "://")
			r := newRelay(t, network, strings.TrimSuffix(address, "/"))
			test(t, f, r, func(o *Options) *Client {
				o.JSON, o.TLS = true, config
				return dialFake(t, f, scheme+r.Addr(), o)
			})
		})
	}
}

// A link that carries nothing any more, without FIN or RST, is told, cut, and replaced.
func TestHalfOpenLink(t *testing.T) {
	t.Parallel()
	onRelay(t, func(t *testing.T, f *fake, r *relay, dial func(*Options) *Client) {
		silent, lost, resumed := make(chan time.Duration, 100), make(chan error, 100), make(chan bool, 100)
		c := dial(&Options{
			PingEvery: 200 * time.Millisecond, DeadAfter: time.Second, ReconnectFor: Forever,
			Silent:  func(d time.Duration) { silent <- d },
			Lost:    func(err error) { lost <- err },
			Resumed: func() { resumed <- true },
		})
		cmd := c.Command("echo")
		var out strings.Builder
		cmd.Stdout = &out
		stdin, _ := cmd.StdinPipe()
		begin(t, cmd)
		r.set(true)
		io.WriteString(stdin, "typed in the silence")
		for d := time.Duration(0); d == 0; { // 0: the server answered late before
			select {
			case d = <-silent:
			case <-time.After(time.Minute):
				t.Fatal("the silence is not told")
			}
		}
		select {
		case err := <-lost:
			if !errors.Is(err, transport.ErrDead) {
				t.Errorf("lost: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the client believes in a dead link")
		}
		r.set(false)
		select {
		case <-resumed:
		case <-time.After(time.Minute):
			t.Fatal("the client does not come back")
		}
		stdin.Close()
		wantExit(t, cmd.Wait(t.Context()), 3)
		if out.String() != "typed in the silence" {
			t.Errorf("echoed %q", out.String())
		}
	})
}

// Close ends a client whose writer waits, because the network takes nothing any more. The transport would
// give up only after 30 s.
func TestCloseWithFullSocket(t *testing.T) {
	t.Parallel()
	onRelay(t, func(t *testing.T, f *fake, r *relay, dial func(*Options) *Client) {
		c := dial(&Options{DeadAfter: -1, ReconnectFor: Forever})
		r.set(true)
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		begin := time.Now()
		go func() { started <- c.Command("wait", strings.Repeat("x", 7<<20)).Start(ctx) }()
		time.Sleep(200 * time.Millisecond) // usually the writer waits by now
		cancel()
		if err := <-started; !errors.Is(err, context.Canceled) {
			t.Errorf("Start: %v", err)
		}
		c.Close()
		if d := time.Since(begin); d >= transport.DefaultWriteTimeout {
			t.Errorf("Close took %v", d)
		}
	})
}
