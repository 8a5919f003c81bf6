package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// openDoor returns a door for a token of alice, and the file of the token.
func openDoor(t *testing.T) (*auth.Door, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("alice alice-has-a-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Door{Bearer: tokens}, file
}

func bearer(token string) *DialOptions {
	return &DialOptions{Header: http.Header{"Authorization": {"Bearer " + token}}}
}

// wantIdentity checks the newest connection of a server.
func wantIdentity(t *testing.T, accepted <-chan Conn, want string) {
	t.Helper()
	if got := (<-accepted).About().Identity.Name; got != want {
		t.Errorf("identity %q, want %q", got, want)
	}
}

func TestDoorOfWebsockets(t *testing.T) {
	pair := newTLSPair(t)
	for name, url := range map[string]string{"tcp": "ws://127.0.0.1:0", "tls": "wss://127.0.0.1:0", "unix": "unix://" + filepath.Join(t.TempDir(), "s")} {
		t.Run(name, func(t *testing.T) {
			door, file := openDoor(t)
			o := &ServerOptions{Door: door}
			if name == "tls" {
				o.TLS = pair.server
			}
			s, accepted := serve(t, url, o)
			refused := func(o *DialOptions, want string) {
				t.Helper()
				o.TLS = pair.client
				if c, err := Dial(context.Background(), s.URL(), o); err == nil {
					c.Close(CloseNormal, "")
					t.Errorf("not refused, want %s", want)
				} else if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
			admitted := func(token string) {
				t.Helper()
				o := bearer(token)
				o.TLS = pair.client
				dial(t, s.URL(), o)
				wantIdentity(t, accepted, "alice")
			}
			refused(&DialOptions{}, "401 Unauthorized: missing websocket bearer token")
			refused(bearer("alice-has-no-token"), "401 Unauthorized: invalid websocket bearer token")
			refused(&DialOptions{Header: http.Header{"Authorization": {"Basic YTpi"}}}, "401 Unauthorized: invalid authorization header")
			admitted("alice-has-a-token")
			os.WriteFile(file, []byte("alice alice-has-a-new-token\n"), 0o600)
			refused(bearer("alice-has-a-token"), "401 Unauthorized: invalid websocket bearer token")
			admitted("alice-has-a-new-token")
			os.Remove(file)
			refused(bearer("alice-has-a-new-token"), "503 Service Unavailable: the server cannot check credentials at present")
		})
	}
}

func TestTokensInAURLAreNoCredential(t *testing.T) {
	door, _ := openDoor(t)
	s, _ := serve(t, "ws://127.0.0.1:0", &ServerOptions{Door: door})
	for _, query := range []string{"?token=alice-has-a-token", "?access_token=alice-has-a-token"} {
		if c, err := Dial(context.Background(), s.URL()+"/"+query, nil); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s: %v, %v", query, c, err)
		}
	}
	for _, user := range []string{"alice-has-a-token", "alice:alice-has-a-token"} {
		c, err := Dial(context.Background(), strings.Replace(s.URL(), "ws://", "ws://"+user+"@", 1), nil)
		if err == nil || !strings.Contains(err.Error(), "has a user or password") || strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: %v, %v", user, c, err)
		}
	}
	// The origin is checked before the credential, and probes need none.
	resp, body := request(t, s.URL(), "GET", "/", map[string]string{"Origin": "https://evil.example", "Authorization": "Bearer alice-has-a-token",
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
	if resp.StatusCode != 403 {
		t.Errorf("from another origin: %s %s", resp.Status, body)
	}
	if resp, body := request(t, s.URL(), "GET", "/healthz", nil); resp.StatusCode != 200 {
		t.Errorf("healthz: %s %s", resp.Status, body)
	}
	resp, body = request(t, s.URL(), "GET", "/", map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
	if resp.StatusCode != 401 || body != "missing websocket bearer token\n" || resp.Header.Get("WWW-Authenticate") != "Bearer" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("without a token: %s %q %v", resp.Status, body, resp.Header)
	}
}

func TestDoorOfUnixUsers(t *testing.T) {
	if os.Getuid() == 65534 {
		needs.Feature(t, errors.New("the user 65534 stands for all users of other namespaces"))
	}
	door, _ := openDoor(t)
	door.UnixUsers = true
	me := fmt.Sprintf("uid:%d", os.Getuid())

	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	_, accepted := serve(t, socket, &ServerOptions{Door: door})
	dial(t, socket, nil)
	wantIdentity(t, accepted, me)
	dial(t, socket, bearer("alice-has-a-token"))
	wantIdentity(t, accepted, "alice")
	if _, err := Dial(context.Background(), socket, bearer("wrong")); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong token: %v", err)
	}

	framed := "unix://" + filepath.Join(t.TempDir(), "f")
	s, accepted := serve(t, framed, &ServerOptions{Door: door, Framed: true})
	mustWrite(t, dial(t, s.URL(), nil), "{}")
	wantIdentity(t, accepted, me)
	mustWrite(t, dial(t, s.URL(), nil), `{"id":1,"method":"initialize","params":{"token":"alice-has-a-token"}}`)
	wantIdentity(t, accepted, "alice")
	wrong := dial(t, s.URL(), nil)
	mustWrite(t, wrong, `{"id":1,"method":"initialize","params":{"token":"wrong"}}`)
	if msg, err := wrong.ReadMessage(); err != nil || !strings.Contains(string(msg), "invalid websocket bearer token") {
		t.Errorf("with a wrong token in frames: %q, %v", msg, err)
	}

	tcp, _ := serve(t, "ws://127.0.0.1:0", &ServerOptions{Door: door})
	if _, err := Dial(context.Background(), tcp.URL(), nil); err == nil || !strings.Contains(err.Error(), "missing websocket bearer token") {
		t.Errorf("over TCP: %v", err)
	}
}

// A client of frames shows its token in its first message, initialize. A refused client gets the text of the
// 401 and the end of the connection; its connection reaches nobody.
func TestDoorOfFrames(t *testing.T) {
	const right = "alice-has-a-token"
	door, file := openDoor(t)
	var refusals []string // the server calls Refused before it answers
	s, accepted := serve(t, "unix://"+filepath.Join(t.TempDir(), "f"), &ServerOptions{Framed: true, Door: door, Refused: func(_ RefusedBy, _, reason string) { refusals = append(refusals, reason) }})
	packed := func(token any) string {
		msg, err := protocol.Msgpack.AppendRequest(nil, protocol.IntID(1), "initialize", protocol.InitializeParams{Token: fmt.Sprint(token)})
		if err != nil {
			t.Fatal(err)
		}
		return string(msg)
	}
	initialize := func(params string) string { return `{"id":1,"method":"initialize","params":` + params + `}` }
	with := func(token string) string { return initialize(fmt.Sprintf(`{"clientName":"c","token":%q}`, token)) }
	const missing, malformed, wrong = "missing websocket bearer token", "invalid authorization header", "invalid websocket bearer token"
	check := func(first, refusal string, id int64) {
		t.Helper()
		refusals = nil
		client := dial(t, s.URL(), &DialOptions{Subprotocols: []string{map[bool]string{true: SubprotocolMsgpack, false: SubprotocolJSON}[first[0] >= 0x80]}})
		mustWrite(t, client, first)
		client.WriteMessage([]byte("{}"), false) // a client may send more at once; a refused client may be too late
		if refusal == "" {
			server := <-accepted
			if got := server.About().Identity.Name; got != "alice" {
				t.Errorf("%.80q: identity %q", first, got)
			}
			wantMessage(t, server, first)
			wantMessage(t, server, "{}")
			server.Close(CloseNormal, "")
			return
		}
		answer, err := client.ReadMessage()
		if err != nil {
			t.Errorf("%.80q: %v, want %s", first, err, refusal)
			return
		}
		codec := protocol.JSON
		if first[0] >= 0x80 {
			codec = protocol.Msgpack
		}
		m, err := codec.Decode(answer)
		if err != nil || m.Kind != protocol.Failure || m.ID != protocol.IntID(id) || m.Error.Message != refusal || m.Error.Advice() == "" && m.Error.Code == protocol.CodeUnauthorized {
			t.Errorf("%.80q: %q, want %s to %d", first, answer, refusal, id)
		}
		if want := map[bool]int{true: protocol.CodeUnauthorized, false: protocol.CodeInternal}[strings.Contains(refusal, "websocket") || refusal == malformed]; m.Error != nil && m.Error.Code != want {
			t.Errorf("%.80q: code %d, want %d", first, m.Error.Code, want)
		}
		if strings.Contains(string(answer), "has-a") {
			t.Errorf("%.80q: the answer has the token: %q", first, answer)
		}
		if msg, err := client.ReadMessage(); err == nil {
			t.Errorf("%.80q: then %q, want the end", first, msg)
		}
		if len(refusals) != 1 || strings.Contains(refusals[0], "has-a") {
			t.Errorf("%.80q: refusals %q", first, refusals)
		}
	}
	check(with(right), "", 1)
	check(packed(right), "", 1)
	check(initialize(`{"clientInfo":{"name":"c","version":"1"},"token":"`+right+`"}`), "", 1)
	check(with(" "+right+"\n"), "", 1)                               // as in a header, and as a file has it
	check(initialize(`{"clientName":5,"token":"`+right+`"}`), "", 1) // the connection says what else is wrong
	for _, c := range []struct {
		first, refusal string
		id             int64
	}{
		{initialize(`{"clientName":"c"}`), missing, 1},
		{initialize(`{"clientName":"c","token":null}`), missing, 1},
		{initialize(`{"clientName":"c","token":""}`), malformed, 1},
		{initialize(`{"clientName":"c","token":5}`), malformed, 1},
		{initialize(`{"clientName":"c","token":["` + right + `"]}`), malformed, 1},
		{initialize(`{"clientName":"c","token":"` + right + `","token":"` + right + `"}`), missing, -1}, // the message is unreadable
		{initialize(`["` + right + `"]`), missing, 1},
		{with("alice-has-a-wrong-token"), wrong, 1},
		{packed("alice-has-a-wrong-token"), wrong, 1},
		{with("Bearer " + right), wrong, 1},
		{initialize(`{"clientName":"c","token":"` + right + `\u0000"}`), wrong, 1},
		{with(strings.Repeat("x", auth.MaxToken+1)), malformed, 1},
		{with(strings.Repeat("x", auth.MaxToken)), wrong, 1},
		{`{"id":7,"method":"server/info","params":{"token":"` + right + `"}}`, missing, 7},
		{`{"method":"initialize","params":{"token":"` + right + `"}}`, missing, -1},
		{`{"id":1,"result":{"token":"` + right + `"}}`, missing, -1},
		{`alice-has-a-token`, missing, -1},
		{"\x81", missing, -1},
	} {
		check(c.first, c.refusal, c.id)
	}
	os.WriteFile(file, []byte("alice alice-has-a-new-token\n"), 0o600)
	check(with(right), wrong, 1)
	check(with("alice-has-a-new-token"), "", 1)
	os.Remove(file)
	check(with("alice-has-a-new-token"), "the server cannot check credentials at present, its log says why: try again", 1)
	select {
	case c := <-accepted:
		t.Errorf("accepted %v", c)
	default:
	}
}

// Until its token is right, a client of frames is a guest of the lobby and has no place of any identity. A full lobby
// keeps nobody with a right token out, and a client beyond a limit is told the limit.
func TestStrangersAtFrames(t *testing.T) {
	t.Parallel()
	door, _ := openDoor(t)
	s, accepted := serve(t, "unix://"+filepath.Join(t.TempDir(), "f"), &ServerOptions{Framed: true, Door: door, MaxConnectionsEach: 1})
	guests := s.listener.visitors.guests
	s.listener.visitors.hold(2)
	const initialize = `{"id":1,"method":"initialize","params":{"clientName":"c","token":"alice-has-a-token"}}`
	silent := []Conn{dial(t, s.URL(), nil), dial(t, s.URL(), nil)}
	client := dial(t, s.URL(), nil)
	mustWrite(t, client, initialize)
	server := <-accepted
	wantMessage(t, server, initialize)
	server.(*frames).Admit()
	if n := guests(); n > 1 {
		t.Errorf("%d guests, want the newer silent one at most", n)
	}
	if msg, err := silent[0].ReadMessage(); err == nil {
		t.Errorf("the oldest stranger got %q, want the end", msg)
	}

	second := dial(t, s.URL(), nil)
	mustWrite(t, second, initialize)
	if msg, err := second.ReadMessage(); err != nil || !strings.Contains(string(msg), "max-connections-each is 1 here, and alice has 1 connections") || !strings.Contains(string(msg), "-32603") {
		t.Errorf("beyond the limit: %q, %v", msg, err)
	}
	server.Close(CloseNormal, "")
	third := dial(t, s.URL(), nil)
	mustWrite(t, third, initialize)
	select {
	case server = <-accepted:
	case <-time.After(patience):
		t.Fatal("a closed connection keeps its place")
	}
	wantMessage(t, server, initialize)

	silent[1].Close(CloseNormal, "")
	server.Close(CloseNormal, "")
	until(t, "no guest is left", func() bool { return guests() == 0 })
}

func TestDoorOfCertificates(t *testing.T) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	config, err := auth.TLSFiles{Certificate: testca.File(t, "cert", cert), Key: testca.File(t, "key", key), ClientCAs: testca.File(t, "cas", ca.PEM)}.Config()
	if err != nil {
		t.Fatal(err)
	}
	door, _ := openDoor(t)
	door.Certificates = auth.CommonName
	s, accepted := serve(t, "wss://127.0.0.1:0", &ServerOptions{Door: door, TLS: config})
	bob := ca.Client(t, &x509.Certificate{Subject: pkix.Name{CommonName: "bob"}})
	dial(t, s.URL(), &DialOptions{TLS: bob})
	wantIdentity(t, accepted, "cert:bob")
	alice := bearer("alice-has-a-token")
	alice.TLS = bob
	dial(t, s.URL(), alice)
	wantIdentity(t, accepted, "alice")
	for want, config := range map[string]*tls.Config{
		"missing websocket bearer token": ca.Client(t, nil),
		"has no name":                    ca.Client(t, &x509.Certificate{}),
	} {
		if _, err := Dial(context.Background(), s.URL(), &DialOptions{TLS: config}); err == nil || !strings.Contains(err.Error(), "401 Unauthorized") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestListenRefusesDoors(t *testing.T) {
	door, _ := openDoor(t)
	pair := newTLSPair(t)
	for _, c := range []struct {
		url  string
		o    ServerOptions
		want string
	}{
		{"wss://127.0.0.1:0", ServerOptions{}, "wss://IP:PORT, and needed there"},
		{"ws://127.0.0.1:0", ServerOptions{TLS: pair.server}, "wss://IP:PORT, and needed there"},
	} {
		if s, err := Listen(c.url, &c.o); err == nil {
			s.Close()
			t.Errorf("%s: no error, want %q", c.url, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
	}
	// With a door, other machines may reach the server.
	s, err := Listen("ws://0.0.0.0:0", &ServerOptions{Door: door})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A client that speaks no TLS, or nothing, costs a server of TLS no more than another stranger.
func TestStrangersToTLS(t *testing.T) {
	pair := newTLSPair(t)
	s, accepted := serve(t, "wss://127.0.0.1:0", &ServerOptions{TLS: pair.server})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "wss://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Logf("plain HTTP: %v", err)
	}
	client := dial(t, s.URL(), &DialOptions{TLS: pair.client})
	server := <-accepted
	mustWrite(t, client, "hello")
	wantMessage(t, server, "hello")
}
