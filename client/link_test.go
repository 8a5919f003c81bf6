package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
	"github.com/gorilla/websocket"
)

// The client speaks the subprotocol chosen by the server, and JSON if the choice is unknown.
func TestSpeaksWhatTheServerChooses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options Options
		server  []string
		offered []string
		codec   protocol.Codec
		opcode  int
	}{
		{"msgpack", Options{}, []string{"troupe.msgpack"}, []string{"troupe.msgpack", "troupe.json"}, protocol.Msgpack, websocket.BinaryMessage},
		{"JSON", Options{}, []string{"troupe.json"}, []string{"troupe.msgpack", "troupe.json"}, protocol.JSON, websocket.TextMessage},
		{"a server that knows none", Options{}, nil, []string{"troupe.msgpack", "troupe.json"}, protocol.JSON, websocket.TextMessage},
		{"JSON only", Options{JSON: true}, []string{"troupe.msgpack", "troupe.json"}, []string{"troupe.json"}, protocol.JSON, websocket.TextMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := make(chan func(), 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				offered := websocket.Subprotocols(r)
				upgrader := websocket.Upgrader{Subprotocols: c.server}
				ws, err := upgrader.Upgrade(w, r, nil)
				if err != nil {
					said <- func() { t.Error(err) }
					return
				}
				defer ws.Close()
				opcode, frame, err := ws.ReadMessage()
				said <- func() {
					m, bad := c.codec.Decode(frame)
					if !slices.Equal(offered, c.offered) || err != nil || opcode != c.opcode || bad != nil || m.Method != protocol.MethodInitialize {
						t.Errorf("offered %q, then %v: opcode %d, %q, %v", offered, err, opcode, frame, bad)
					}
				}
				answer, err := c.codec.AppendFailure(nil, idOf(c.codec, frame), protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "enough"))
				if err == nil {
					ws.WriteMessage(opcode, answer)
				}
			}))
			defer server.Close()
			_, err := Dial(context.Background(), "ws"+strings.TrimPrefix(server.URL, "http"), &c.options)
			if err == nil || !strings.Contains(err.Error(), "enough") {
				t.Errorf("Dial: %v, want the server's answer", err)
			}
			(<-said)()
		})
	}
}

// idOf returns the id of a message.
func idOf(codec protocol.Codec, frame []byte) protocol.ID {
	m, _ := codec.Decode(frame)
	return m.ID
}

// At frames the client sends its token in initialize, and each connection has the token of its time.
func TestTokenInFrames(t *testing.T) {
	t.Parallel()
	file, socket := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(file, []byte("alice alice-has-a-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	server, err := transport.Listen("unix://"+socket, &transport.ServerOptions{Framed: true, Door: &auth.Door{Bearer: tokens}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(func(c transport.Conn) {
			defer c.Close(1000, "")
			if frame, err := c.ReadMessage(); err == nil {
				answer, _ := protocol.Msgpack.AppendFailure(nil, idOf(protocol.Msgpack, frame), protocol.WrongParams("let in"))
				c.WriteMessage(answer, true)
			}
		})
	}()
	for _, c := range []struct{ token, want string }{
		{"alice-has-a-token", "let in"},
		{"alice-has-another-token", "invalid websocket bearer token"},
		{"", "missing websocket bearer token"},
	} {
		_, err := Dial(context.Background(), server.URL(), &Options{Token: func() (string, error) { return c.token, nil }})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with token %q: %v, want %s", c.token, err, c.want)
		}
	}
	_, err = Dial(context.Background(), server.URL(), &Options{Token: func() (string, error) { return "", errors.New("no file") }})
	if err == nil || !strings.Contains(err.Error(), "no file") {
		t.Errorf("without a readable token: %v", err)
	}
	server.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
