package tests

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/gorilla/websocket"
)

// resetsFlag makes TestResets a long hunt:
//
//	go test ./tests -run TestResets -v -resets 5000
var resetsFlag = flag.Int("resets", 150, "how many connections TestResets resets; repeat its choices with -seed")

// dawdler starts an HTTP server whose answers end when the request does.
func dawdler(t testing.TB) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "a beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s
}

// hunter resets connections one after the other, in the middle of batches of requests.
type hunter struct {
	*hunt.Hunt
	s        *server
	sessions *atomic.Pointer[string] // the newest session of any hunter
}

var sessionID = regexp.MustCompile(`"sessionId":"([^"]+)"`)

// reset opens a connection, sends a part of a batch, and resets the connection.
func (h *hunter) reset() error {
	d := websocket.Dialer{HandshakeTimeout: factTimeout}
	ws, _, err := d.Dial(h.s.url, nil)
	if err != nil {
		return err
	}
	ws.SetPingHandler(func(string) error { return nil }) // no acknowledgements
	tcp := ws.UnderlyingConn().(*net.TCPConn)
	reads := h.IntN(4) > 0
	answers := make(chan struct{}, 1000)
	var reader sync.WaitGroup
	defer reader.Wait()
	if reads {
		reader.Go(func() {
			for {
				_, m, err := ws.ReadMessage()
				if err != nil {
					return
				}
				if id := sessionID.FindSubmatch(m); id != nil {
					text := string(id[1])
					h.sessions.Store(&text)
				}
				select {
				case answers <- struct{}{}:
				default:
				}
			}
		})
	}
	resume := ""
	if newest := h.sessions.Load(); newest != nil && h.IntN(2) == 0 {
		resume = *newest
	}
	var bytes []byte
	handshake := h.Handshake(resume)
	for _, frame := range append(handshake, h.Batch()...) {
		bytes = append(bytes, clientFrame(true, websocket.TextMessage, []byte(frame))...)
	}
	if h.IntN(3) == 0 {
		bytes = bytes[:h.IntN(len(bytes))] // in the middle of a frame
	}
	for len(bytes) > 0 {
		n := 1 + h.IntN(len(bytes))
		if _, err := tcp.Write(bytes[:n]); err != nil {
			break // the server closed the connection, for a violation or with its session
		}
		bytes = bytes[n:]
		if h.IntN(4) == 0 {
			time.Sleep(time.Duration(h.IntN(2000)) * time.Microsecond)
		}
	}
	// The reset comes at once, at a random answer, or at a random moment.
	moment := time.After(time.Duration(h.IntN(20)) * time.Millisecond)
	n := h.IntN(30)
	if h.IntN(2) == 0 {
		n = 0
	}
wait:
	for range n {
		select {
		case <-answers:
		case <-moment:
			break wait
		}
	}
	tcp.SetLinger(0)
	return tcp.Close()
}

// TestResets: clients reset their connections at random moments, in the middle of random batches of all
// methods. When their sessions have expired, nothing is left: no session, connection, process,
// goroutine, descriptor or byte of the budget.
func TestResets(t *testing.T) {
	t.Parallel()
	const hunters = 4
	web, dir := dawdler(t), testroot.Dir(t, "")
	s := startConfined(t, nil, []string{dir}, "--allow-http", "--detached-ttl", "100ms")
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d -resets %d", seed, *resetsFlag)
	token := fmt.Sprintf("100000.%d%d", os.Getpid(), seed%1e9)

	var sessions atomic.Pointer[string]
	resets := func(stream uint64, n int) {
		var all sync.WaitGroup
		for i := range hunters {
			h := &hunter{hunt.New(seed, stream+uint64(i), token, dir, web.URL), s, &sessions}
			all.Go(func() {
				for range n / hunters {
					if err := h.reset(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	// rest waits until the asking connection is the only one, and returns the goroutines and
	// descriptors of the server.
	rest := func() (goroutines int64, descriptors int) {
		// A request that ends while its connection is being opened leaves the connection for the next request,
		// for 90 s (net/http). Each such connection has a descriptor and two goroutines.
		web.CloseClientConnections()
		c := s.session(nil)
		defer c.hangUp()
		var info obj
		quiet := func() bool {
			info = c.call("server/info", obj{})
			for name, want := range map[string]int64{"connections": 1, "sessions": 1, "children": 0, "heldBytes": 0, "spooledBytes": 0, "panics": 0} {
				if num(info[name]) != want {
					return false
				}
			}
			return true
		}
		for deadline := time.Now().Add(factTimeout); !quiet(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the server is not at rest: %s", jsonText(info))
			}
		}
		return num(info["goroutines"]), s.descriptors()
	}
	goroutines, descriptors := rest()
	n := *resetsFlag
	if underRace() {
		n /= 3 // each jail of the hunt is then a program with the race detector, which starts slowly
	}
	resets(0, n)

	eventually(t, "no process is left", func() bool { return len(kin(token)) == 0 })
	const workers, room = 16, 4 // workers waiting for an actor, and the goroutines of a connection that ends
	g, d := rest()
	for deadline := time.Now().Add(factTimeout); (g > goroutines+workers+room || d > descriptors+room) && time.Now().Before(deadline); g, d = rest() {
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d goroutines, were %d; %d descriptors, were %d", g, goroutines, d, descriptors)
	if g > goroutines+workers+room || d > descriptors+room {
		t.Errorf("%d goroutines, were %d; %d descriptors, were %d", g, goroutines, d, descriptors)
	}
}
