package transport

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// writesConn records each Write.
type writesConn struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (c *writesConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes = append(c.writes, append([]byte(nil), p...))
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// taken returns the Writes since the last call.
func (c *writesConn) taken() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes := c.writes
	c.writes = nil
	return writes
}

// writesListener records the Writes of its accepted connection.
type writesListener struct {
	net.Listener
	accepted chan *writesConn
}

func (l writesListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &writesConn{Conn: conn}
	l.accepted <- c
	return c, nil
}

// streamWire.Write locks link.writing for one Write. If gorilla split a control frame into two Writes,
// a frame of writeAll could come between the two halves and break the stream.
func TestControlFrameIsOneWrite(t *testing.T) {
	upgraded := make(chan *websocket.Conn, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		upgraded <- ws
	}))
	accepted := make(chan *writesConn, 1)
	server.Listener = writesListener{server.Listener, accepted}
	server.Start()
	defer server.Close()

	var client *writesConn
	dialer := websocket.Dialer{NetDial: func(network, address string) (net.Conn, error) {
		conn, err := net.Dial(network, address)
		client = &writesConn{Conn: conn}
		return client, err
	}}
	ours, response, err := dialer.Dial(strings.Replace(server.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	defer ours.Close()
	theirs := <-upgraded
	defer theirs.Close()

	for _, side := range []struct {
		name string
		ws   *websocket.Conn
		conn *writesConn
	}{{"client", ours, client}, {"server", theirs, <-accepted}} {
		side.conn.taken() // the handshake
		check := func(what string, err error) {
			t.Helper()
			writes := side.conn.taken()
			if err != nil || len(writes) != 1 {
				t.Errorf("%s: %s is %d Writes, error %v; want 1 Write", side.name, what, len(writes), err)
				return
			}
			whole := frameGuard{max: 1 << 20}
			if n, err := whole.follow(writes[0]); n != len(writes[0]) || err != nil || whole.rest != 0 || whole.have != 0 {
				t.Errorf("%s: the Write of %s is not a whole frame: %x", side.name, what, writes[0])
			}
		}
		for _, size := range []int{0, 1, maxPayload} {
			payload := make([]byte, size)
			check("a Ping", side.ws.WriteControl(websocket.PingMessage, payload, time.Now().Add(time.Minute)))
			check("a Pong", side.ws.WriteControl(websocket.PongMessage, payload, time.Now().Add(time.Minute)))
		}
		if side.ws == ours { // writeAll writes the message frames of a server
			check("a message", side.ws.WriteMessage(websocket.BinaryMessage, make([]byte, 1000)))
		}
		check("a Close", side.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(CloseNormal, "bye"), time.Now().Add(time.Minute)))
	}
}
