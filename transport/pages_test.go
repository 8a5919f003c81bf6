package transport

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// pages answers below /page/ with what it knows of the caller, and takes the header X-Token for the credential that a browser keeps.
func pages() *Pages {
	return &Pages{
		Serve: func(w http.ResponseWriter, r *http.Request, from Caller) bool {
			if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/page/") {
				return false
			}
			if from.Own {
				w.Header().Set("X-Own", "yes")
			}
			w.Header().Set("X-Peer", from.Peer)
			w.Header().Set("X-Origin", from.Origin)
			return true
		},
		Token: func(r *http.Request) string { return r.Header.Get("X-Token") },
	}
}

var handshake = map[string]string{
	"Connection": "Upgrade", "Upgrade": "websocket",
	"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}

// with returns a header with more fields: a name, a value, and so on. Empty values but that of Origin are left out.
func with(header map[string]string, more ...string) map[string]string {
	all := maps.Clone(header)
	for i := 0; i < len(more); i += 2 {
		if all[more[i]] = more[i+1]; more[i+1] == "" && more[i] != "Origin" {
			delete(all, more[i])
		}
	}
	return all
}

// TestOwnOrigin: a page of the server itself may open a websocket. A page whose name was bound to the address of the server may not, unless
// the operator has allowed its origin.
func TestOwnOrigin(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Pages: pages(), AllowOrigins: []string{"https://build.example.org", "https://ide.example"}})
	none, _ := serve(t, "ws://127.0.0.1:0", nil)
	for _, c := range []struct {
		host, origin string
		status       int
		own          bool
	}{
		{"127.0.0.1:7766", "http://127.0.0.1:7766", 101, true},
		{"localhost:7766", "http://localhost:7766", 101, true},
		{"localhost", "http://localhost", 101, true},
		{"[::1]:7766", "http://[::1]:7766", 101, true},
		{"192.0.2.1", "http://192.0.2.1", 101, true},
		{"build.example.org", "https://build.example.org", 101, true}, // of a proxy
		{"ide.example", "https://ide.example", 101, true},
		{"127.0.0.1:7766", "https://ide.example", 101, false}, // allowed, and not the server's own
		{"127.0.0.1:7766", "https://127.0.0.1:7766", 403, false},
		{"127.0.0.1:7766", "http://127.0.0.1", 403, false},
		{"127.0.0.1:7766", "http://127.0.0.1:7767", 403, false},
		{"127.0.0.1:7766", "http://localhost:7766", 403, false},
		{"127.0.0.1:7766", "http://127.0.0.1:7766/", 403, false},
		{"127.0.0.1:7766", "http://127.0.0.1:7766, http://127.0.0.1:7766", 403, false},
		{"127.0.0.1:7766", "http://127.0.0.1:7766\r\nOrigin: http://127.0.0.1:7766", 403, false},
		{"127.0.0.1:7766", "null", 403, false},
		{"127.0.0.1:7766", "", 403, false},
		{"evil.example", "http://evil.example", 403, false}, // rebinding
		{"evil.example:7766", "http://evil.example:7766", 403, false},
		{"127.0.0.1.evil.example", "http://127.0.0.1.evil.example", 403, false},
		{"localhost.evil.example", "http://localhost.evil.example", 403, false},
		{"localhost.", "http://localhost.", 403, false},
		{"build.example.org", "http://build.example.org", 403, false},
	} {
		header := with(handshake, "Host", c.host, "Origin", c.origin)
		resp, body := request(t, s.URL(), "GET", "/", header)
		if resp.StatusCode == 101 {
			<-accepted
		}
		if resp.StatusCode != c.status || c.status == 403 && !strings.Contains(body, "is not allowed here") {
			t.Errorf("a websocket of %q at %q: %s %s, want %d", c.origin, c.host, resp.Status, body, c.status)
		}
		if c.status == 101 {
			resp, _ := request(t, s.URL(), "POST", "/page/", map[string]string{"Host": c.host, "Origin": c.origin})
			if own := resp.Header.Get("X-Own") != ""; resp.StatusCode != 200 || own != c.own {
				t.Errorf("a request of %q at %q: %s, own: %v", c.origin, c.host, resp.Status, own)
			}
		}
		if resp, _ := request(t, none.URL(), "GET", "/", header); resp.StatusCode != 403 {
			t.Errorf("without pages, a websocket of %q at %q: %s", c.origin, c.host, resp.Status)
		}
	}
}

// TestPagesOfHosts: the pages are at addresses and at the names that the operator has allowed. All else is as without pages.
func TestPagesOfHosts(t *testing.T) {
	s, _ := serve(t, "ws://127.0.0.1:0", &ServerOptions{Pages: pages(), AllowOrigins: []string{"https://build.example.org"}})
	for _, c := range []struct {
		method, path, host string
		status             int
		text               string
	}{
		{"GET", "/page/", "127.0.0.1:7766", 200, ""},
		{"GET", "/page/", "localhost", 200, ""},
		{"GET", "/page/", "build.example.org", 200, ""},
		{"GET", "/", "127.0.0.1", 200, ""},
		{"GET", "/page/", "evil.example", 403, "--allow-origin"},
		{"GET", "/page/", "example.org", 403, "--allow-origin"},
		{"GET", "/", "evil.example", 403, "--allow-origin"},
		{"GET", "/healthz", "evil.example", 200, ""},
		{"GET", "/pages", "127.0.0.1", 404, "the websocket is at /"},
	} {
		resp, body := request(t, s.URL(), c.method, c.path, map[string]string{"Host": c.host})
		if resp.StatusCode != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s %s at %s: %s %q, want %d %q", c.method, c.path, c.host, resp.Status, body, c.status, c.text)
		}
		if c.path == "/page/" && c.status == 200 && resp.Header.Get("X-Peer") != "127.0.0.1" {
			t.Errorf("the peer is %q", resp.Header.Get("X-Peer"))
		}
		origin := "http://" + c.host
		if c.host == "build.example.org" {
			origin = "https://build.example.org"
		}
		if got := resp.Header.Get("X-Origin"); c.status == 200 && c.path != "/healthz" && got != origin {
			t.Errorf("at %s the origin is %q", c.host, got)
		}
	}
}

// TestKeptToken: what a browser keeps for the pages is the credential of a websocket of the server's own origin, and of nobody else. A revoked
// credential ends such a connection, too.
func TestKeptToken(t *testing.T) {
	door, file := openDoor(t)
	var mu sync.Mutex
	var refused []string
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Pages: pages(), Door: door, AllowOrigins: []string{"https://ide.example"}, CheckEvery: time.Millisecond,
		Refused: func(_ RefusedBy, _, reason string) { mu.Lock(); refused = append(refused, reason); mu.Unlock() }})
	for _, c := range []struct {
		origin, token, header string
		status                int
	}{
		{"http://127.0.0.1:7766", "alice-has-a-token", "", 101},
		{"", "alice-has-a-token", "", 401}, // no browser
		{"https://ide.example", "alice-has-a-token", "", 401},
		{"http://127.0.0.1:7766", "", "", 401},
		{"http://127.0.0.1:7766", "alice-has-no-token", "", 401},
		{"http://127.0.0.1:7766", "alice-has-a-token", "Bearer wrong", 401}, // the header counts
		{"http://127.0.0.1:7766", "wrong", "Bearer alice-has-a-token", 101},
		{"http://127.0.0.1:7766", "alice-has-a-token", "Basic x", 401},
	} {
		header := with(handshake, "Host", "127.0.0.1:7766", "X-Token", c.token, "Authorization", c.header)
		if c.origin != "" {
			header["Origin"] = c.origin
		}
		resp, body := request(t, s.URL(), "GET", "/", header)
		if resp.StatusCode != c.status {
			t.Errorf("%+v: %s %s", c, resp.Status, body)
		}
		if resp.StatusCode == 101 {
			wantIdentity(t, accepted, "alice")
		}
	}
	if mu.Lock(); len(refused) != 6 {
		t.Errorf("refused: %q", refused)
	}
	mu.Unlock()

	header := http.Header{"X-Token": {"alice-has-a-token"}, "Origin": {strings.Replace(s.URL(), "ws", "http", 1)}}
	c := dial(t, s.URL(), &DialOptions{Header: header})
	wantIdentity(t, accepted, "alice")
	os.WriteFile(file, []byte("bob bob-has-a-token-too\n"), 0o600)
	if _, err := c.ReadMessage(); err == nil || !strings.Contains(err.Error(), "the credential is no longer right") {
		t.Errorf("after the revocation: %v", err)
	} else if closed, ok := err.(*CloseError); !ok || closed.Code != protocol.ClosePolicy {
		t.Errorf("after the revocation: %v, want code %d", err, protocol.ClosePolicy)
	}
}

// TestOwnOriginInTLS: with a certificate, each name is the server's own, and no origin without TLS is.
func TestOwnOriginInTLS(t *testing.T) {
	pair := newTLSPair(t)
	s, accepted := serve(t, "wss://127.0.0.1:0", &ServerOptions{Pages: pages(), TLS: pair.server})
	at := strings.TrimPrefix(s.URL(), "wss://")
	for _, c := range []struct {
		host, origin string
		ok           bool
	}{{at, "https://" + at, true}, {"build.example.org", "https://build.example.org", true}, {at, "http://" + at, false}, {at, "https://build.example.org", false}} {
		conn, err := Dial(t.Context(), s.URL(), &DialOptions{TLS: pair.client, Header: http.Header{"Origin": {c.origin}, "Host": {c.host}}})
		if err == nil {
			<-accepted
			conn.Close(CloseNormal, "")
		}
		if (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.origin, c.host, err)
		}
	}
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: pair.client, DisableKeepAlives: true}}).Get("https://" + at + "/page/")
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("X-Origin") != "https://"+at {
		t.Errorf("%v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// TestPagesOnASocket: behind a proxy at a unix socket, the pages know the user of the proxy.
func TestPagesOnASocket(t *testing.T) {
	var uid *uint32
	p := pages()
	inner := p.Serve
	p.Serve = func(w http.ResponseWriter, r *http.Request, from Caller) bool {
		uid = from.UID
		return inner(w, r, from)
	}
	path := filepath.Join(t.TempDir(), "s")
	serve(t, "unix://"+path, &ServerOptions{Pages: p})
	resp, _ := request(t, "unix://"+path, "GET", "/page/", map[string]string{"Host": "localhost"})
	if resp.StatusCode != 200 || uid == nil || int(*uid) != os.Getuid() {
		t.Errorf("%s, uid %v", resp.Status, uid)
	}
}
