package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/testca"
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
	if got := (<-accepted).(interface{ Identity() auth.Identity }).Identity().Name; got != want {
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
		t.Skip("the user of this test is a user of another namespace")
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

	tcp, _ := serve(t, "ws://127.0.0.1:0", &ServerOptions{Door: door})
	if _, err := Dial(context.Background(), tcp.URL(), nil); err == nil || !strings.Contains(err.Error(), "missing websocket bearer token") {
		t.Errorf("over TCP: %v", err)
	}
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
		{"unix://" + filepath.Join(t.TempDir(), "f"), ServerOptions{Framed: true, Door: door}, "carry no bearer token"},
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
