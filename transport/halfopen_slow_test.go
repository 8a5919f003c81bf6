//go:build slow

package transport

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// clientHello returns the first bytes of a client's TLS handshake.
func clientHello(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go tls.Client(theirs, config).Handshake()
	defer ours.Close()
	hello := make([]byte, 16<<10)
	n, err := ours.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}

// 4,000 handshakes that one address begins and never finishes, in TCP, TLS and HTTP, keep no client of another
// address out, at no time. Each of them counts in the lobby.
func TestHalfOpenHandshakes(t *testing.T) {
	const handshakes, attackers = 4_000, 8
	pair := newTLSPair(t)
	hello := clientHello(t, pair.client)
	begin := []func(net.Conn){
		func(net.Conn) {},
		func(c net.Conn) { c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nX: ")) },
		func(c net.Conn) { c.Write(hello[:len(hello)/2]) },
		func(c net.Conn) { c.Write(hello) }, // the server answers, and waits
	}
	for _, url := range []string{"ws://127.0.0.1:0", "wss://127.0.0.1:0"} {
		t.Run(url[:strings.Index(url, ":")], func(t *testing.T) {
			options := &ServerOptions{}
			if strings.HasPrefix(url, "wss") {
				options.TLS = pair.server
			}
			s, accepted := serveWith(t, url, options)
			host := s.URL()[strings.Index(s.URL(), "//")+2:]
			var begun, most atomic.Int64
			var attack sync.WaitGroup
			for i := range attackers {
				attack.Go(func() {
					for j := range handshakes / attackers {
						c, err := net.DialTimeout("tcp", host, patience)
						if err != nil {
							continue // the attacker's trouble
						}
						t.Cleanup(func() { c.Close() })
						begin[(i+j)%len(begin)](c)
						begun.Add(1)
						most.Store(max(most.Load(), int64(s.listener.visitors.guests())))
					}
				})
			}
			over := make(chan struct{})
			go func() { attack.Wait(); close(over) }()
			dialer := websocket.Dialer{
				NetDialContext:   (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
				TLSClientConfig:  pair.client,
				HandshakeTimeout: patience,
			}
			clients, slowest := 0, time.Duration(0)
			for attacked := true; attacked; clients++ { // at least one when all handshakes are open
				select {
				case <-over:
					attacked = false
				default:
				}
				start := time.Now()
				ws, _, err := dialer.DialContext(context.Background(), s.URL(), nil)
				if err != nil {
					t.Fatalf("client %d, beside %d handshakes: %v", clients, begun.Load(), err)
				}
				if err := ws.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
					t.Fatalf("client %d: %v", clients, err)
				}
				select {
				case c := <-accepted:
					c.(*webSocket).Admit()
				case <-time.After(patience):
					t.Fatalf("client %d, beside %d handshakes: its message did not arrive", clients, begun.Load())
				}
				slowest = max(slowest, time.Since(start))
				ws.Close()
			}
			if begun.Load() < handshakes*9/10 || most.Load() > maxGuests || most.Load() < maxGuests/2 {
				t.Errorf("%d handshakes were begun, at most %d in the lobby: this tests nothing, or they are not counted", begun.Load(), most.Load())
			}
			t.Logf("%d handshakes, at most %d in the lobby; %d clients, the slowest took %v", begun.Load(), most.Load(), clients, slowest)
		})
	}
}
