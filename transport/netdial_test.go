package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A watchedConn is a connection that counts its bytes.
type watchedConn struct {
	stream
	read, written atomic.Int64
	asked         atomic.Int64 // the most bytes that a Read had room for
}

func (c *watchedConn) Read(p []byte) (int, error) {
	c.asked.Store(max(c.asked.Load(), int64(len(p)))) // one goroutine reads
	n, err := c.stream.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.stream.Write(p)
	c.written.Add(int64(n))
	return n, err
}

func dialWatched(ctx context.Context, network, addr string) (*watchedConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &watchedConn{stream: c.(stream)}, nil
}

// NetDial opens the connection of every kind of URL, and all bytes pass its connection. A websocket reads as many bytes at once as ReadBuffer says.
func TestNetDial(t *testing.T) {
	pair := newTLSPair(t)
	dir := t.TempDir()
	for _, test := range []struct {
		url, network string
		buffer       int
		asked        int64 // the most bytes that a Read has room for; 0: any number
	}{
		{"ws://127.0.0.1:0", "tcp", 0, DefaultReadBuffer},
		{"ws://127.0.0.1:0", "tcp", 16 << 10, 16 << 10},
		{"wss://127.0.0.1:0", "tcp", 0, 0},
		{"unix://" + filepath.Join(dir, "a"), "unix", 0, 0},
		{"unix+frames://" + filepath.Join(dir, "b"), "unix", 0, 0},
	} {
		t.Run(test.url[:strings.Index(test.url, ":")], func(t *testing.T) {
			listen, options := test.url, &ServerOptions{}
			if path, framed := strings.CutPrefix(listen, framedScheme); framed {
				listen, options.Framed = "unix://"+path, true
			}
			if strings.HasPrefix(test.url, "wss") {
				options.TLS = pair.server
			}
			s, accepted := serveWith(t, listen, options)
			var conn *watchedConn
			c, err := Dial(t.Context(), s.URL(), &DialOptions{
				TLS: pair.client, ReadBuffer: test.buffer,
				NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if _, bounded := ctx.Deadline(); !bounded {
						t.Error("the time to dial is not bounded")
					}
					if !strings.HasSuffix(s.URL(), "//"+addr) || network != test.network {
						t.Errorf("NetDial of %s got %s %s", s.URL(), network, addr)
					}
					var err error
					conn, err = dialWatched(ctx, network, addr)
					return conn, err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(CloseNormal, "")
			message := strings.Repeat("m", 1000)
			for _, m := range []string{"taken by serveWith", message} {
				if err := c.WriteMessage([]byte(m), false); err != nil {
					t.Fatal(err)
				}
			}
			server := <-accepted
			defer server.Close(CloseNormal, "")
			if got, err := server.ReadMessage(); err != nil || string(got) != message {
				t.Errorf("the server reads %d bytes, %v", len(got), err)
			}
			err = server.WriteMessage([]byte(message), false)
			if err == nil {
				err = server.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.ReadMessage(); err != nil || string(got) != message {
				t.Errorf("the client reads %d bytes, %v", len(got), err)
			}
			if conn.read.Load() < 1000 || conn.written.Load() < 1000 {
				t.Errorf("the connection has read %d bytes, and written %d", conn.read.Load(), conn.written.Load())
			}
			if got := conn.asked.Load(); test.asked > 0 && got != test.asked {
				t.Errorf("with ReadBuffer %d a read has room for %d bytes, expected %d", test.buffer, got, test.asked)
			}
		})
	}
}

func TestNetDialFails(t *testing.T) {
	why := errors.New("no way")
	fails := func(context.Context, string, string) (net.Conn, error) { return nil, why }
	for _, url := range []string{"ws://127.0.0.1:1", "unix:///x", "unix+frames:///x"} {
		if _, err := Dial(t.Context(), url, &DialOptions{NetDial: fails}); !errors.Is(err, why) {
			t.Errorf("%s: %v", url, err)
		}
	}
	near, far := net.Pipe()
	pipe := func(context.Context, string, string) (net.Conn, error) { return near, nil }
	if _, err := Dial(t.Context(), "ws://127.0.0.1:1", &DialOptions{NetDial: pipe}); err == nil || !strings.Contains(err.Error(), "CloseWrite and SyscallConn") {
		t.Errorf("a connection without CloseWrite: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the refused connection is still open: %v", err)
	}
}
