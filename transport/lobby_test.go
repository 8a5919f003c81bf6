package transport

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// caller is a connection from a given address.
type caller struct {
	net.Conn
	from   string
	closed bool
}

func (c *caller) RemoteAddr() net.Addr { return addr(c.from) }
func (c *caller) Close() error         { c.closed = true; return nil }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// newLobby returns visitors of which max may be strangers, with TLS or without.
func newLobby(max int, inTLS bool) *visitors {
	var o ServerOptions
	if inTLS {
		o.TLS = new(tls.Config)
	}
	s := newVisitors(&o)
	s.max = max
	return s
}

// callers enter a lobby, each a second after the previous.
func callers(l *visitors, from ...string) (all []*caller, guests []*visitor) {
	for _, f := range from {
		c := &caller{from: f}
		all = append(all, c)
		guests = append(guests, l.enter(c))
		time.Sleep(time.Second)
	}
	return all, guests
}

func wantGone(t *testing.T, all []*caller, want ...int) {
	t.Helper()
	var gone []int
	for i, c := range all {
		if c.closed {
			gone = append(gone, i)
		}
	}
	if !slices.Equal(gone, want) {
		t.Errorf("those that gave way are %v, want %v", gone, want)
	}
}

func TestWhoGivesWay(t *testing.T) {
	const a, b = "10.0.0.1:1", "10.0.0.2:1"
	for _, c := range []struct {
		name    string
		from    []string
		prepare func([]*visitor)
		want    []int
	}{
		{"the oldest", []string{a, a, a, a}, func([]*visitor) {}, []int{0}},
		{"of the host with the most", []string{b, a, a, b, a}, func([]*visitor) {}, []int{1}},
		{"of several hosts with as many", []string{b, a, a, b}, func([]*visitor) {}, []int{0}},
		{"that has come the least far", []string{a, a, a, a}, func(g []*visitor) {
			g[0].opens(func(string) {}, nil)
			g[0].speaks()
			g[1].opens(func(string) {}, nil)
			g[2].comes(asking)
		}, []int{3}},
		{"that asked first, and asks again", []string{a, a}, func(g []*visitor) {
			g[1].comes(asking)
			time.Sleep(time.Second)
			g[0].comes(asking)
			g[1].comes(asking)
		}, []int{1}},
		{"whose bytes do not wait for the server", []string{a, a, a}, func(g []*visitor) { g[0].waits = func() bool { return true } }, []int{1}},
		{"of those that are there", []string{a, a, a}, func(g []*visitor) { g[0].leave(); g[0].of.enter(&caller{from: a}) }, []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(len(c.from), false)
				all, guests := callers(l, c.from...)
				c.prepare(guests)
				time.Sleep(time.Second)
				start := time.Now()
				if l.enter(&caller{from: "10.0.0.3:1"}) == nil || time.Since(start) != 0 {
					t.Errorf("let in after %v", time.Since(start))
				}
				wantGone(t, all, c.want...)
				for _, g := range guests {
					g.leave()
				}
			})
		})
	}
}

// A guest that has just come is not evicted: the next caller waits.
func TestLobbyWaitsForTheYoung(t *testing.T) {
	t.Run("plain", func(t *testing.T) { testLobbyWaits(t, false, ripeAfter) })
	t.Run("inside TLS", func(t *testing.T) { testLobbyWaits(t, true, busyRipeAfter) })
}

func testLobbyWaits(t *testing.T, tls bool, ripeAfter time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(2, tls)
		first, second := &caller{from: "10.0.0.1:1"}, &caller{from: "10.0.0.1:2"}
		l.enter(first)
		g := l.enter(second)
		start := time.Now()
		l.enter(&caller{from: "10.0.0.1:3"})
		if waited := time.Since(start); waited < ripeAfter || waited > ripeAfter+lobbyPause || !first.closed || second.closed {
			t.Errorf("after %v; the first is closed: %v, the second: %v", waited, first.closed, second.closed)
		}
		start = time.Now()
		time.AfterFunc(time.Millisecond, g.leave)
		l.enter(&caller{from: "10.0.0.1:4"})
		if waited := time.Since(start); waited != 0 && waited != time.Millisecond {
			t.Errorf("a place that was free after 1ms was given after %v", waited)
		}
		time.AfterFunc(time.Millisecond, func() { close(l.closed) })
		if l.enter(&caller{from: "10.0.0.1:5"}) != nil && l.enter(&caller{from: "10.0.0.1:6"}) != nil {
			t.Error("a lobby that is closed lets in")
		}
	})
}

// A guest does not give way for the crowd of another host, also while the whole crowd is young: on a busy
// machine an honest handshake may take longer than the churn of an attacker.
func TestCrowdGivesWay(t *testing.T) {
	for _, c := range []struct {
		name      string
		own       int // guests of the honest host, of 8
		givesWay  bool
		newcomers int
	}{
		{"one guest of eight", 1, false, 3},
		{"two of eight", 2, false, 3},
		{"half of the guests", 4, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(8, false)
				var own, crowd []*caller
				for range c.own {
					own = append(own, &caller{from: "10.0.0.1:1"})
					l.enter(own[len(own)-1])
				}
				time.Sleep(ripeAfter)
				for range 8 - c.own {
					crowd = append(crowd, &caller{from: "10.0.0.2:1"})
					l.enter(crowd[len(crowd)-1])
				}
				start := time.Now()
				for range c.newcomers {
					l.enter(&caller{from: "10.0.0.2:1"})
				}
				if own[0].closed != c.givesWay || crowd[0].closed == c.givesWay {
					t.Errorf("the honest guest gave way: %v; one of the crowd did: %v", own[0].closed, crowd[0].closed)
				}
				if waited := time.Since(start); waited > ripeAfter+lobbyPause {
					t.Errorf("the newcomers waited %v", waited)
				}
			})
		})
	}
}

// Guests that keep asking or talking without being admitted give way, too. So do guests whose bytes
// always wait, as in a flood.
func TestTalkersGiveWay(t *testing.T) {
	for name, talk := range map[string]func(*visitor){
		"the same request":  func(g *visitor) { g.comes(asking) },
		"the same message":  func(g *visitor) { g.speaks() },
		"more than is read": func(*visitor) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(8, false)
				var over atomic.Bool
				for range l.max {
					g := l.enter(&caller{from: "10.0.0.1:1"})
					switch name {
					case "the same message":
						g.opens(func(string) {}, nil)
					case "more than is read":
						g.waits = func() bool { return true }
					}
					go func() {
						defer g.leave()
						for ; !over.Load(); time.Sleep(ripeAfter / 5) {
							talk(g)
						}
					}()
				}
				time.AfterFunc(time.Minute, func() { over.Store(true) }) // later there is a place
				time.Sleep(time.Second)
				start := time.Now()
				g := l.enter(&caller{from: "10.0.0.2:1"})
				if waited := time.Since(start); waited > 2*DefaultHandshakeTimeout {
					t.Errorf("a newcomer waited %v", waited)
				}
				over.Store(true)
				g.leave()
				time.Sleep(time.Hour) // for the timers
			})
		})
	}
}

// A guest with an open connection has limited time for its first message, and again after each message.
func TestGuestsMustSpeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(10, false)
		start := time.Now()
		var ended [4]atomic.Int64 // 0: not ended
		var guests []*visitor
		for i := range 4 {
			g := l.enter(&caller{from: "10.0.0.1:1"})
			g.opens(func(string) { ended[i].Store(int64(time.Since(start))) }, nil)
			guests = append(guests, g)
		}
		time.Sleep(5 * time.Second)
		guests[1].speaks()
		guests[2].leave()
		guests[3].speaks()
		time.Sleep(19 * time.Second)
		guests[3].speaks()
		behind := l.enter(&caller{from: "10.0.0.1:1"}) // its bytes wait: either the server is behind, or the guest sends too slowly
		behind.waits = func() bool { return true }
		from := time.Now()
		behind.opens(func(string) {
			if took := time.Since(from); took != 2*DefaultHandshakeTimeout {
				t.Errorf("whose bytes wait was ended after %v", took)
			}
		}, nil)
		time.Sleep(DefaultHandshakeTimeout)
		synctest.Wait()
		if behind.admitted.Load() {
			t.Error("whose bytes wait was ended at once")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i, want := range []time.Duration{DefaultHandshakeTimeout, 5*time.Second + speakWithin, 0, 24*time.Second + speakWithin} {
			if got := time.Duration(ended[i].Load()); got != want {
				t.Errorf("%d was ended after %v, want %v", i, got, want)
			}
		}
		if l.n != 0 || len(l.hosts) != 0 {
			t.Errorf("%d are left, of %d hosts", l.n, len(l.hosts))
		}
	})
}

func TestKeyOf(t *testing.T) {
	for at, want := range map[string]string{
		"10.1.2.3:4":            "10.1.2.3",
		"[::ffff:10.1.2.3]:4":   "10.1.2.3",
		"[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64",
		"[::1]:5":               "::/64",
	} {
		if got := keyOf(&caller{from: at}); got != want {
			t.Errorf("%s is of %s, want %s", at, got, want)
		}
	}
}

// Silent strangers, and strangers that say almost nothing, shut nobody out, whether from their own
// address or from another.
func TestSilentStrangersShutNobodyOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		from func(i int) string
		say  func(net.Conn)
	}{
		{"silent, from the same address", func(int) string { return "127.0.0.1" }, func(net.Conn) {}},
		{"half a header, from 8 addresses", func(i int) string { return fmt.Sprint("127.0.0.", 2+i%8) },
			func(c net.Conn) { c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nX: ")) }},
		{"websockets without a message", func(int) string { return "127.0.0.1" },
			func(c net.Conn) {
				c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, accepted := serveWith(t, "ws://127.0.0.1:0", nil)
			const most = 64
			s.listener.visitors.hold(most)
			host := strings.TrimPrefix(s.URL(), "ws://")
			for i := range 2 * most {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from(i))}}
				stranger, err := dialer.Dial("tcp", host)
				if err != nil {
					t.Fatal(err)
				}
				defer stranger.Close()
				c.say(stranger)
			}
			for range 3 {
				mustWrite(t, dial(t, s.URL(), nil), "hello")
				(<-accepted).(*webSocket).Admit()
				resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + host + "/healthz")
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			if n := s.listener.visitors.guests(); n > most {
				t.Errorf("%d guests", n)
			}
		})
	}
}

// A guest also leaves if its handshake fails after HTTP has let go of the connection.
func TestBrokenHandshakeLeaves(t *testing.T) {
	s, _ := serveWith(t, "ws://127.0.0.1:0", nil)
	for range 5 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "ws://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The client sends a frame before the answer to its handshake, so gorilla closes the
		// connection.
		c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x80abcd"))
		io.Copy(io.Discard, c)
	}
	until(t, "no guest without a connection is left", func() bool { return s.listener.visitors.guests() == 0 })
}

// hold makes the lobby hold at most max guests.
func (l *visitors) hold(max int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max
}

func (l *visitors) guests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
