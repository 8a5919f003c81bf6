package tests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// The tests in this file check the replay itself. A server that plays back the recording equals the
// peer to the last byte. So the replay must find no mismatch, and must miss every declared difference.
// If any line of the recording is changed in any way, the replay must find the change.

func TestReplayAcceptsThePeer(t *testing.T) {
	for _, name := range transcripts(t) {
		for _, m := range playback(t, name, readTranscript(t, name), nil, factTimeout) {
			if !peersOwnFault(m) {
				t.Error(m)
			}
		}
	}
}

// peersOwnFault excuses a fault of the peer: in a recording, the peer reported an exit before earlier
// output. Our server refuses to start this process.
func peersOwnFault(mismatch string) bool {
	return strings.HasPrefix(mismatch, `process_start: connection 0: process "m7": `)
}

func TestReplayMissesDeclaredDifferences(t *testing.T) {
	for _, name := range transcripts(t) {
		found := playback(t, name, readTranscript(t, name), differences, factTimeout)
		for _, d := range differences {
			if d.transcript != name {
				continue
			}
			said := slices.ContainsFunc(found, func(m string) bool {
				return strings.HasPrefix(m, name+": "+d.at+": the declared difference")
			})
			if !said {
				t.Errorf("%s %s does not occur, and nobody said so", name, d.at)
			}
		}
	}
}

func errorOf(m obj) obj  { e, _ := m["error"].(obj); return e }
func resultOf(m obj) obj { r, _ := m["result"].(obj); return r }
func paramsOf(m obj) obj { p, _ := m["params"].(obj); return p }

// playback replays a transcript against a server that plays back lines.
func playback(t *testing.T, name string, lines []line, declared []difference, timeout time.Duration) []string {
	t.Helper()
	recorded := readTranscript(t, name)
	upgraded := make(chan *websocket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		upgraded <- ws
	}))
	accepted, played := make(chan *websocket.Conn, len(lines)), make(chan struct{})
	go func() {
		defer close(played)
		play(lines, accepted)
	}()
	r := &replay{
		t: t, name: name, lines: recorded,
		dial: func() *conn {
			c, _, err := dialWS(t, strings.Replace(srv.URL, "http", "ws", 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			ws := <-upgraded
			ws.SetCloseHandler(func(int, string) error { return nil }) // like the peer: no answer
			accepted <- ws
			return c
		},
		sigterm:    func() {},
		awaitSleep: func(*conn, string) {},
		awaitWait:  func(*conn, string) {},
		explain:    func(*conn, string) string { return "" },
		timeout:    timeout,
	}
	r.expect(declared)
	found := r.run()
	close(accepted)
	<-played
	srv.Close()
	return found
}

// play sends the lines of the peer, each as soon as the earlier lines were sent or received, until the
// replay hangs up.
func play(lines []line, accepted <-chan *websocket.Conn) {
	conns := map[int]*websocket.Conn{}
	defer func() {
		for _, ws := range conns {
			ws.Close()
		}
		for ws := range accepted {
			ws.Close()
		}
	}()
	ended := map[int]bool{}
	for i, l := range lines {
		if l.Dir == "test" || ended[l.Conn] {
			continue
		}
		if conns[l.Conn] == nil {
			next, more := <-accepted
			if !more {
				return
			}
			conns[l.Conn] = next
		}
		ws := conns[l.Conn]
		var err error
		switch l.Dir + " " + l.Kind {
		case "c2s ping", "s2c pong": // gorilla's, while the next message is read
		case "c2s ", "c2s binary", "c2s frag", "c2s close", "c2s abort":
			_, _, err = ws.ReadMessage()
			if l.Kind == "close" || l.Kind == "abort" {
				err = nil
				ended[l.Conn] = l.Kind == "abort"
			}
		case "s2c ":
			err = ws.WriteMessage(websocket.TextMessage, l.Msg)
		case "s2c ping":
			err = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(factTimeout))
		case "s2c end":
			ws.Close()
			ended[l.Conn] = true
		default:
			panic(fmt.Sprintf("line %d: %s", i+1, jsonText(l)))
		}
		if err != nil {
			return
		}
	}
	// The replay ends first: the server sees the connection close.
	for n, ws := range conns {
		for !ended[n] {
			_, _, err := ws.ReadMessage()
			ended[n] = err != nil
		}
	}
}
