package actors_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
)

// TestShutdownClosesIdleHTTP: connections that are kept for the next request go with the troupe.
func TestShutdownClosesIdleHTTP(t *testing.T) {
	t.Parallel()
	states := make(chan http.ConnState, 10)
	remote := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	remote.Config.ConnState = func(_ net.Conn, s http.ConnState) { states <- s }
	remote.Start()
	defer remote.Close()
	await := func(want http.ConnState) {
		t.Helper()
		for {
			select {
			case s := <-states:
				if s == want {
					return
				}
			case <-time.After(limit):
				t.Fatalf("no connection is %v", want)
			}
		}
	}
	troupe := start(t, actors.Config{AllowHTTP: true})
	p := connect(t, troupe)
	p.open("")
	if m := p.call("http/request", fmt.Sprintf(`{"method":"GET","url":%q,"requestId":""}`, remote.URL)); m.Error != nil {
		t.Fatalf("%+v", m.Error)
	}
	await(http.StateIdle)
	if err := troupe.Kill(); err != nil {
		t.Error(err)
	}
	await(http.StateClosed)
}

// stepped is a connection whose client takes a message when the test says so.
type stepped struct {
	in     chan string
	out    chan string // without room: who writes waits
	closed chan struct{}
	once   sync.Once
}

func newStepped() *stepped {
	return &stepped{in: make(chan string, 10), out: make(chan string), closed: make(chan struct{})}
}

func (s *stepped) ReadMessage() ([]byte, error) {
	select {
	case m := <-s.in:
		return []byte(m), nil
	case <-s.closed:
		return nil, io.EOF
	}
}

func (s *stepped) WriteMessage(m []byte, _ bool) error {
	select {
	case s.out <- string(m):
		return nil
	case <-s.closed:
		return io.ErrClosedPipe
	}
}

func (s *stepped) Close(int, string) error { s.once.Do(func() { close(s.closed) }); return nil }

func (s *stepped) Ping([]byte) error           { return nil }
func (s *stepped) Flush() error                { return nil }
func (s *stepped) SetPongHandler(func([]byte)) {}
func (s *stepped) RemoteAddr() string          { return "stepped" }
func (s *stepped) Subprotocol() string         { return "" }

// TestStreamsHoldUpNoOutput: however many bodies flow to a slow client, output has its turn.
func TestStreamsHoldUpNoOutput(t *testing.T) {
	t.Parallel()
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 32<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer remote.Close()
	troupe := start(t, actors.Config{AllowHTTP: true})
	s := newStepped()
	defer s.Close(0, "")
	troupe.Accept(s, actors.About{})
	await := func(what string, most int) (message string) {
		t.Helper()
		for range most {
			select {
			case message = <-s.out:
				if strings.Contains(message, what) {
					return message
				}
			case <-time.After(limit):
				t.Fatalf("nothing is written, not even %s", what)
			}
		}
		t.Fatalf("%s was not among %d messages", what, most)
		return ""
	}
	s.in <- `{"id":1,"method":"initialize","params":{"clientName":"stepped"}}`
	_, session, _ := strings.Cut(await(`"id":1,`, 1), `"sessionId":`)
	session, _, _ = strings.Cut(session, ",")
	s.in <- `{"method":"initialized"}`
	other := connect(t, troupe)
	other.open(`,"role":"observer","resumeSessionId":` + session)
	for i := range 4 {
		s.in <- fmt.Sprintf(`{"id":2,"method":"http/request","params":{"method":"GET","url":%q,"requestId":"%d","streamResponse":true}}`, remote.URL, i)
		await(`"id":2,`, 10_000)
	}
	s.in <- `{"id":3,"method":"process/start","params":{"processId":"a","argv":["echo","hello"],"cwd":"file:///","env":{},"tty":false}}`
	await(`"id":3,`, 10_000)
	other.untilClosed("a", 0)
	for range 10 { // a piece of each stream may come first
		for range 50 {
			other.call("session/info", `{}`) // meanwhile each stream has its next piece ready
		}
		if strings.Contains(await("", 1), "process/output") {
			return
		}
	}
	t.Error("ten messages, and no output among them")
}
