package tests

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testoidc"
	"github.com/gorilla/websocket"
)

// A tab does what a browser does that has the console of a server open.
type tab struct {
	t       *testing.T
	url     string            // of the server: http://127.0.0.1:43211
	origin  string            // of the page
	config  *tls.Config       // nil: no TLS
	cookies map[string]string // by name
}

func newTab(t *testing.T, url string) *tab {
	url = strings.Replace(url, "ws", "http", 1)
	return &tab{t: t, url: url, origin: url, cookies: make(map[string]string)}
}

// header returns the header of a request of the page; browsers send no Origin with GET.
func (b *tab) header(more http.Header) http.Header {
	h := http.Header{"Origin": {b.origin}}
	var cookies []string
	for name, value := range b.cookies {
		cookies = append(cookies, name+"="+value)
	}
	if cookies != nil {
		h.Set("Cookie", strings.Join(cookies, "; "))
	}
	maps.Copy(h, more)
	return h
}

// do sends a request, and keeps the cookies of the answer.
func (b *tab) do(method, path, body string, more http.Header) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if req.Header = b.header(more); method == "GET" && more["Origin"] == nil {
		req.Header.Del("Origin")
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: b.config}).RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return resp, string(text)
}

// login posts a token, and returns the status.
func (b *tab) login(token string) int {
	b.t.Helper()
	resp, _ := b.do("POST", "/console/login", fmt.Sprintf(`{"token":%q}`, token), http.Header{"Content-Type": {"application/json"}})
	return resp.StatusCode
}

// me returns what /console/me says.
func (b *tab) me() string {
	b.t.Helper()
	_, body := b.do("GET", "/console/me", "", nil)
	return strings.TrimSpace(body)
}

// dial opens the websocket of the page; "": it is open, else the status.
func (b *tab) dial(more http.Header) (*conn, string) {
	b.t.Helper()
	h := b.header(more)
	h.Set("Sec-Websocket-Protocol", "troupe.json")
	c, resp, err := dialWS(b.t, strings.Replace(b.url, "http", "ws", 1), h)
	switch {
	case err == nil:
		return c, ""
	case resp == nil:
		b.t.Fatal(err)
	}
	return nil, resp.Status
}

// socket opens a websocket, also inside TLS, and returns the status of the answer.
func (b *tab) socket() int {
	b.t.Helper()
	ws, resp, err := (&websocket.Dialer{HandshakeTimeout: factTimeout, TLSClientConfig: b.config}).Dial(strings.Replace(b.url, "http", "ws", 1), b.header(nil))
	if err == nil {
		ws.Close()
	} else if resp == nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode
}

// mustDial opens the websocket of the page, and a session.
func (b *tab) mustDial(params obj) *conn {
	b.t.Helper()
	c, refused := b.dial(nil)
	if refused != "" {
		b.t.Fatal("the websocket is refused: ", refused)
	}
	all := obj{"clientName": "console"}
	maps.Copy(all, params)
	c.sessionID = c.call("initialize", all)["sessionId"].(string)
	c.notify("initialized", obj{})
	return c
}

// TestConsole: a browser loads the page from the server, logs in, opens the websocket with the cookie, and is out when its token is revoked.
func TestConsole(t *testing.T) {
	t.Parallel()
	k, r := newKeyring(t), newRecord(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--console", "--audit", r.path)...)
	b := newTab(t, s.url)

	resp, _ := b.do("GET", "/", "", http.Header{"Accept": {"text/html"}})
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "/console/" {
		t.Errorf("/ answers %s to a browser, and leads to %q", resp.Status, resp.Header.Get("Location"))
	}
	resp, page := b.do("GET", "/console/", "", nil)
	if resp.StatusCode != 200 || !strings.Contains(page, "<!doctype html>") || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("%s %v %.300s", resp.Status, resp.Header, page)
	}
	const nobody = `{"auth":true,"identity":null,"oidc":false}`
	if got := b.me(); got != nobody {
		t.Errorf("before the login: %s", got)
	}
	if _, refused := b.dial(nil); !strings.HasPrefix(refused, "401") {
		t.Errorf("a websocket before the login: %s", refused)
	}
	if status := b.login("token-of-nobody-at-all"); status != 401 || len(b.cookies) > 0 {
		t.Errorf("a wrong token: %d", status)
	}
	if status := b.login("token-of-alice-in-plain"); status != 204 || len(b.cookies) != 1 {
		t.Fatalf("the right token: %d", status)
	}
	if got := b.me(); got != `{"auth":true,"identity":"alice","oidc":false}` {
		t.Errorf("after the login: %s", got)
	}
	c := b.mustDial(nil)
	c.start("p", obj{"argv": sh("echo hello")}).awaitClosed()

	// A JWT fits into a cookie, too.
	dave := newTab(t, s.url)
	if status := dave.login(k.jwt("EdDSA", k.key, nil)); status != 204 || dave.me() != `{"auth":true,"identity":"jwt:dave","oidc":false}` {
		t.Errorf("a JWT: %d, %s", status, dave.me())
	}
	if _, refused := dave.dial(nil); refused != "" {
		t.Errorf("a websocket with a JWT: %s", refused)
	}

	// Whoever has a share's token is its guest, and no more.
	_, token := c.share(obj{"access": "read"})
	guest := newTab(t, s.url)
	if status := guest.login(token); status != 204 || !strings.Contains(guest.me(), `"identity":"share:`) {
		t.Errorf("a guest: %d, %s", status, guest.me())
	}
	watcher := guest.mustDial(nil)
	if watcher.sessionID != c.sessionID {
		t.Errorf("the guest of %s is in %s", c.sessionID, watcher.sessionID)
	}
	if code, text := watcher.callError("process/write", watcher.process("p").writeParams("no\n")); code != -32011 {
		t.Errorf("a guest who may only watch wrote: %d %s", code, text)
	}

	// A page of somebody else has the cookie, if it is of the same site, and not the origin.
	for what, header := range map[string]http.Header{
		"another port":       {"Origin": {"http://127.0.0.1:1"}},
		"a sibling":          {"Origin": {"http://localhost" + b.url[strings.LastIndexByte(b.url, ':'):]}},
		"a sandboxed page":   {"Origin": {"null"}},
		"a name rebound":     {"Origin": {"http://evil.example"}, "Host": {"evil.example"}},
		"two origins":        {"Origin": {b.origin, b.origin}},
		"another scheme":     {"Origin": {strings.Replace(b.origin, "http", "https", 1)}},
		"a program":          {"Origin": nil},
		"a header of theirs": {"Authorization": {"Bearer wrong"}},
	} {
		want := map[string]string{"a program": "401", "a header of theirs": "401"}[what]
		if want == "" {
			want = "403"
		}
		if _, refused := b.dial(header); !strings.HasPrefix(refused, want) {
			t.Errorf("%s opens a websocket with the cookie: %q, want %s", what, refused, want)
		}
		if what == "a header of theirs" {
			continue
		}
		json := http.Header{"Content-Type": {"application/json"}}
		maps.Copy(json, header)
		if resp, _ := newTab(t, s.url).do("POST", "/console/login", `{"token":"token-of-alice-in-plain"}`, json); resp.StatusCode != 403 || len(resp.Cookies()) > 0 {
			t.Errorf("%s logs in: %s", what, resp.Status)
		}
	}

	// A revoked token ends the connection, is worth nothing in the cookie, and leaves the browser.
	k.file("tokens", "bob bob-has-a-token-of-his-own\n")
	if code, reason := c.awaitClose(); code != 1008 || !strings.Contains(reason, "the credential is no longer right") {
		t.Errorf("after the revocation: %d %s", code, reason)
	}
	if _, refused := b.dial(nil); !strings.HasPrefix(refused, "401") {
		t.Errorf("a websocket after the revocation: %s", refused)
	}
	if got := b.me(); got != nobody || len(b.cookies) > 0 {
		t.Errorf("after the revocation: %s, cookies %v", got, b.cookies)
	}
	os.Remove(k.path("tokens"))
	if status := b.login("token-of-alice-in-plain"); status != 503 {
		t.Errorf("a login without the file: %d", status)
	}
	if text := r.text(); !strings.Contains(text, `"reason":"login: invalid websocket jwt"`) || !strings.Contains(text, `"reason":"cookie: invalid`) || strings.Contains(text, "token-of-") {
		t.Errorf("the record: %s", text)
	}
	if log := s.stderr.String(); strings.Contains(log, "token-of-") || strings.Contains(log, token) {
		t.Errorf("the log has a token: %s", log)
	}
}

// TestConsoleIsAsked: without --console there is no page, and no cookie counts.
func TestConsoleIsAsked(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := newTab(t, s.url)
	for _, path := range []string{"/console/", "/console", "/console/me"} {
		if resp, body := b.do("GET", path, "", nil); resp.StatusCode != 404 || !strings.Contains(body, "the websocket is at /") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	if resp, _ := b.do("GET", "/", "", http.Header{"Accept": {"text/html"}}); resp.StatusCode != 400 {
		t.Errorf("/: %s", resp.Status)
	}
	if _, refused := b.dial(nil); !strings.HasPrefix(refused, "403") {
		t.Errorf("the own origin without a page: %q", refused)
	}
	for says, flags := range map[string][]string{
		"--console is for a server of websockets":             {"--listen", "stdio"},
		"which speak neither to stdio nor in length-prefixed": {"--listen", "unix://" + filepath.Join(t.TempDir(), "s"), "--framing", "length"},
	} {
		if p := startTroupe(t, nil, append([]string{"serve", "--console"}, flags...)...); p.exitCode() != 2 || !strings.Contains(p.stderr.String(), says) {
			t.Errorf("%v: exit code %d, %s", flags, p.exitCode(), p.stderr)
		}
	}
}

// TestConsoleWithoutCredentials: on a server that asks for no credential, its own page connects, and no page of a name that was bound to its address.
func TestConsoleWithoutCredentials(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--console")
	b := newTab(t, s.url)
	if got := b.me(); got != `{"auth":false,"identity":null,"oidc":false}` {
		t.Error(got)
	}
	b.mustDial(nil)
	port := b.url[strings.LastIndexByte(b.url, ':'):]
	local := newTab(t, s.url)
	local.origin = "http://localhost" + port
	if _, refused := local.dial(http.Header{"Host": {"localhost" + port}}); refused != "" {
		t.Errorf("at localhost: %s", refused)
	}
	for _, name := range []string{"evil.example" + port, "evil.example", "localhost.evil.example", "127.0.0.1.evil.example" + port} {
		evil := newTab(t, s.url)
		evil.origin = "http://" + name
		host := http.Header{"Host": {name}}
		if _, refused := evil.dial(host); !strings.HasPrefix(refused, "403") {
			t.Errorf("a page of %s opens a websocket: %q", name, refused)
		}
		if resp, body := evil.do("GET", "/console/me", "", host); resp.StatusCode != 403 || !strings.Contains(body, "--allow-origin") {
			t.Errorf("a page of %s asks who it is: %s %s", name, resp.Status, body)
		}
		if resp, _ := evil.do("POST", "/console/logout", "", host); resp.StatusCode != 403 {
			t.Errorf("a page of %s logs out: %s", name, resp.Status)
		}
	}
}

// TestConsoleBehindAProxy: a proxy that ends TLS passes the name on, and the operator has named the origin that browsers see.
func TestConsoleBehindAProxy(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--console", "--allow-origin", "https://build.example.org", "--allow-origin", "https://ide.example.org")...)
	b := newTab(t, s.url)
	b.origin = "https://build.example.org"
	host := http.Header{"Host": {"build.example.org"}, "Content-Type": {"application/json"}}
	if resp, _ := b.do("GET", "/console/", "", host); resp.StatusCode != 200 {
		t.Errorf("the page: %s", resp.Status)
	}
	resp, body := b.do("POST", "/console/login", `{"token":"token-of-alice-in-plain"}`, host)
	if cookie := resp.Header.Get("Set-Cookie"); resp.StatusCode != 204 || !strings.HasPrefix(cookie, "__Host-troupe=") || !strings.Contains(cookie, "Secure") {
		t.Fatalf("the login: %s %s, cookie %q", resp.Status, body, cookie)
	}
	if _, refused := b.dial(host); refused != "" {
		t.Errorf("the websocket: %s", refused)
	}
	if resp, body := b.do("GET", "/console/me", "", host); !strings.Contains(body, `"alice"`) {
		t.Errorf("me: %s %s", resp.Status, body)
	}
	// Another page that may connect has no right to the cookie, although browsers send it within a site.
	other := http.Header{"Host": {"build.example.org"}, "Origin": {"https://ide.example.org"}, "Content-Type": {"application/json"}}
	if _, refused := b.dial(other); !strings.HasPrefix(refused, "401") {
		t.Errorf("a sibling with the cookie: %q", refused)
	}
	if resp, _ := b.do("POST", "/console/login", `{"token":"token-of-alice-in-plain"}`, other); resp.StatusCode != 403 {
		t.Errorf("a sibling logs in: %s", resp.Status)
	}
	// A proxy that does not pass the name on gives no own origin.
	if _, refused := b.dial(nil); !strings.HasPrefix(refused, "401") {
		t.Errorf("without the name: %q", refused)
	}
	// What a client writes into headers of proxies counts for nothing.
	forged := http.Header{"Host": {"evil.example"}, "Origin": {"https://evil.example"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"build.example.org"}, "Forwarded": {"host=build.example.org;proto=https"}}
	if _, refused := b.dial(forged); !strings.HasPrefix(refused, "403") {
		t.Errorf("with forged headers: %q", refused)
	}
}

// TestConsoleInTLS: the cookie is for TLS only, and a browser with a client certificate needs no login.
func TestConsoleInTLS(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, append(k.flags("wss://127.0.0.1:0"), "--console")...)
	plain := newTab(t, s.url)
	plain.config = k.ca.Client(t, nil)
	if got := plain.me(); got != `{"auth":true,"identity":null,"oidc":false}` || plain.socket() != 401 {
		t.Errorf("before the login: %s", got)
	}
	if status := plain.login("token-of-alice-in-plain"); status != 204 || plain.socket() != 101 {
		t.Errorf("the login: %d", status)
	}
	for name := range maps.Clone(plain.cookies) {
		if !strings.HasPrefix(name, "__Host-troupe-") {
			t.Errorf("the cookie is %s", name)
		}
		plain.cookies[strings.TrimPrefix(name, "__Host-")] = plain.cookies[name]
		delete(plain.cookies, name)
	}
	if status := plain.socket(); status != 401 {
		t.Errorf("a cookie that a page without TLS may have set: %d", status)
	}
	certified := newTab(t, s.url)
	certified.config = k.ca.Client(t, &x509.Certificate{Subject: pkix.Name{CommonName: "erin"}})
	if got := certified.me(); got != `{"auth":true,"identity":"cert:erin","oidc":false}` || certified.socket() != 101 {
		t.Errorf("with a certificate: %s", got)
	}
	certified.origin = "https://evil.example"
	if status := certified.socket(); status != 403 {
		t.Errorf("with the certificate, from a page of somebody else: %d", status)
	}
}

// TestConsoleAgainstStrangers: no request of a stranger to the console holds the server, or gets out of the page.
func TestConsoleAgainstStrangers(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--console")...)
	at := strings.TrimPrefix(s.url, "ws://")
	raw := func(t *testing.T, text string) (status string) {
		t.Helper()
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(factTimeout))
		io.WriteString(c, text)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(line)
	}
	post := "POST /console/login HTTP/1.1\r\nHost: " + at + "\r\nOrigin: http://" + at + "\r\nContent-Type: application/json\r\n"
	for _, c := range []struct{ request, want string }{
		{"GET /console/../../etc/passwd HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET /console/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET /console/%00 HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET /console\\..\\x HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET /console/" + strings.Repeat("a", 8<<10) + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET /console/" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "431"},
		{"GET /console/me HTTP/1.1\r\nHost: " + at + "\r\nCookie: " + strings.Repeat("troupe=x; ", 8<<10) + "\r\n\r\n", "431"},
		{"TRACE /console/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "405"},
		{"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "404"},
		{"GET http://evil.example/console/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "403"},
		{"GET /console/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{post + "Content-Length: 1000000000\r\n\r\n" + strings.Repeat("a", 16<<10), "413"},
		{post + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", 16<<10, strings.Repeat("a", 16<<10)), "413"},
		{post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400"},
	} {
		if got := raw(t, c.request); !strings.Contains(got, " "+c.want+" ") {
			t.Errorf("%.120q: %s, want %s", c.request, got, c.want)
		}
	}
	// A body that never comes: the server gives up.
	for what, request := range map[string]string{"a login": post + "Content-Length: 100\r\n\r\n{", "a page": "GET /console/ HTTP/1.1\r\nHost: " + at + "\r\n"} {
		t.Run("without end/"+what, func(t *testing.T) {
			t.Parallel() // each takes 10 s
			if got := raw(t, request); strings.Contains(got, "timeout") {
				t.Errorf("%s that never ends was held: %s", what, got)
			}
		})
	}
	// Who guesses waits.
	guesser := newTab(t, s.url)
	for i := range 50 {
		if status := guesser.login("wrong-token-number-" + fmt.Sprint(i)); status == 429 {
			break
		} else if i == 49 || status != 401 {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
}

// TestConsoleCommand: troupe console serves the page of a server without a console. Only the browser that comes first with the secret gets in, and it acts
// with the credentials of the command.
func TestConsoleCommand(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, k.flags("ws://127.0.0.1:0")...)
	p := startTroupe(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TROUPE_TOKEN=token-of-alice-in-plain") }, "console", "--url", s.url)
	address, secret, ok := strings.Cut(p.firstLine(), "/console/#share=")
	if !ok || !strings.HasPrefix(address, "http://127.0.0.1:") || len(secret) < 40 {
		t.Fatalf("it prints %q", p.firstLine())
	}
	b, late := newTab(t, address), newTab(t, address)
	if resp, page := b.do("GET", "/console/", "", nil); resp.StatusCode != 200 || !strings.Contains(page, "<!doctype html>") {
		t.Errorf("the page: %s", resp.Status)
	}
	if _, refused := b.dial(nil); !strings.HasPrefix(refused, "401") {
		t.Errorf("before the login: %s", refused)
	}
	for _, wrong := range []string{"wrong", secret + "x", secret[1:], "token-of-alice-in-plain"} {
		if status := b.login(wrong); status != 401 {
			t.Errorf("the login with %q: %d", wrong, status)
		}
	}
	if status := b.login(secret); status != 204 {
		t.Fatalf("the login: %d", status)
	}
	if status := late.login(secret); status != 401 {
		t.Fatalf("a second browser: %d", status)
	}
	for _, value := range b.cookies {
		if strings.Contains(value, secret) || value == "" {
			t.Errorf("the cookie is %s", value)
		}
	}
	if got := b.me(); got != `{"auth":true,"identity":"you","oidc":false}` {
		t.Errorf("me: %s", got)
	}
	if _, refused := b.dial(http.Header{"Origin": nil}); !strings.HasPrefix(refused, "401") {
		t.Errorf("a program with the cookie: %q", refused)
	}
	if _, refused := b.dial(http.Header{"Origin": {"http://127.0.0.1:1"}}); !strings.HasPrefix(refused, "403") {
		t.Errorf("a page of another port with the cookie: %q", refused)
	}

	// The browser is alice. Messages of any size pass, and after a cut the client resumes.
	c := b.mustDial(nil)
	cat := c.start("cat", obj{"argv": []string{"cat"}, "pipeStdin": true})
	long := strings.Repeat("0123456789abcdef", 64<<10) + "\n"
	cat.write(long)
	cat.awaitOutput("stdout", long)
	c.cutRST()
	c = b.mustDial(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"cat": cat.lastSeq()}, "takeover": true})
	c.process("cat").write("after the cut\n")
	c.process("cat").awaitOutput("stdout", "after the cut\n")
	if list := sessionsOf(s.as("token-of-alice-in-plain", nil)); list[c.sessionID] == "" {
		t.Errorf("alice has not the session of the browser: %v", list)
	}
	// An end of the server's side reaches the browser with its reason.
	k.file("tokens", "bob bob-has-a-token-of-his-own\n")
	if code, reason := c.awaitClose(); code != 1008 || !strings.Contains(reason, "the credential is no longer right") {
		t.Errorf("after the revocation: %d %s", code, reason)
	}
	again, refused := b.dial(nil)
	if refused != "" {
		t.Fatal(refused)
	}
	if code, reason := again.awaitClose(); code != 1008 || !strings.Contains(reason, "401") {
		t.Errorf("with a revoked token: %d %s", code, reason)
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	if code := p.exitCode(); code != 0 || strings.Contains(p.stderr.String(), secret) {
		t.Errorf("after ^C: exit code %d, %s", code, p.stderr)
	}
}

// TestConsoleOfOwnServer: without a server, troupe console starts the user's own.
func TestConsoleOfOwnServer(t *testing.T) {
	t.Parallel()
	dir := runtimeDir(t)
	own := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir) }
	p := startTroupe(t, own, "console", "--open=false")
	address, secret, _ := strings.Cut(p.firstLine(), "/console/#share=")
	t.Cleanup(func() {
		if p := startTroupe(t, own, "server", "stop", "--force"); p.exitCode() != 0 {
			t.Errorf("server stop: %s", p.stderr)
		}
	})
	b := newTab(t, address)
	if status := b.login(secret); status != 204 {
		t.Fatalf("the login: %d", status)
	}
	b.mustDial(nil).start("p", obj{"argv": sh("echo hello")}).awaitClosed()
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	if p := startTroupe(t, nil, "console", "--url", "ws://127.0.0.1:1"); p.exitCode() != 1 || !strings.Contains(p.stderr.String(), "does troupe serve run there?") {
		t.Errorf("without a server: exit code %d, %s", p.exitCode(), p.stderr)
	}
}

// TestConsoleOpensABrowser: the address reaches the browser by a file that only the user can read, and not by arguments.
func TestConsoleOpensABrowser(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	dir, bin := runtimeDir(t), t.TempDir()
	seen := filepath.Join(bin, "seen")
	opener := "#!/bin/sh\nstat -c %a \"$1\" > " + seen + ".part; cat \"$1\" >> " + seen + ".part; echo \"$@\" >> " + seen + ".part; mv " + seen + ".part " + seen + "\n"
	if err := writeProgram(filepath.Join(bin, "xdg-open"), []byte(opener), 0o755); err != nil {
		t.Fatal(err)
	}
	p := startTroupe(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
	}, "console", "--open", "--url", s.url)
	url := p.firstLine()
	_, secret, _ := strings.Cut(url, "#share=")
	eventually(t, "a browser is opened", func() bool { _, err := os.Stat(seen); return err == nil })
	text, _ := os.ReadFile(seen)
	mode, rest, _ := strings.Cut(string(text), "\n")
	page, arguments, _ := strings.Cut(rest, "</a>")
	if mode != "600" || !strings.Contains(page, `url=`+url+`"`) || strings.Contains(arguments, secret) || !strings.HasPrefix(arguments, dir) {
		t.Errorf("mode %s, page %s, arguments %s", mode, page, arguments)
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "troupe", "console-*")); left != nil {
		t.Errorf("it leaves %v", left)
	}
}

// TestConsoleThroughAGateway: any node serves the page, and its cookie is the credential also on the node of the session.
func TestConsoleThroughAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks nothing of the system")
	}
	t.Parallel()
	k := newKeyring(t)
	flags := append(k.flags("ws://127.0.0.1:0")[2:], "--console")
	const alice = "token-of-alice-in-plain"
	nodes := startClusterFor(t, alice, []string{"a", "b"}, map[string][]string{"a": flags, "b": flags})
	first, second := newTab(t, nodes[0].url), newTab(t, nodes[1].url)
	if status := first.login(alice); status != 204 {
		t.Fatalf("the login: %d", status)
	}
	for name, value := range first.cookies { // a browser has both nodes behind one address
		second.cookies[strings.Replace(name, first.url[strings.LastIndexByte(first.url, ':')+1:], second.url[strings.LastIndexByte(second.url, ':')+1:], 1)] = value
	}
	if got := second.me(); got != `{"auth":true,"identity":"alice","oidc":false}` {
		t.Errorf("the second node says %s", got)
	}
	c := first.mustDial(obj{"placement": obj{"node": "b"}})
	p := c.start("cat", obj{"argv": []string{"cat"}, "pipeStdin": true})
	p.write("one\n")
	p.awaitOutput("stdout", "one\n")
	c.cutRST()
	c = second.mustDial(obj{"resumeSessionId": c.sessionID, "takeover": true, "resumeFrom": obj{"cat": p.lastSeq()}})
	c.process("cat").write("two\n")
	c.process("cat").awaitOutput("stdout", "two\n")
	if list := sessionsOf(nodes[1].as(alice, nil)); !strings.HasPrefix(list[c.sessionID], "alice ") {
		t.Errorf("the sessions of alice: %v", list)
	}
	_, token := c.share(obj{"access": "read"})
	guest := newTab(t, nodes[0].url)
	if status := guest.login(token); status != 204 {
		t.Errorf("the login of a guest: %d", status)
	}
	if watcher := guest.mustDial(nil); watcher.sessionID != c.sessionID {
		t.Errorf("the guest of %s is in %s", c.sessionID, watcher.sessionID)
	}
	bob := newTab(t, nodes[0].url)
	bob.login("token-of-bob-which-is-stored-as-a-hash")
	if ws, refused := bob.dial(nil); refused != "" {
		t.Error(refused)
	} else {
		wantAnswer(t, ws, "initialize", obj{"clientName": "console", "resumeSessionId": c.sessionID}, "-32600 unknown session id "+c.sessionID)
	}
}

// TestConsoleOIDC: people log in by a provider, and have an identity of their own. Nothing in a request says where the browser goes afterwards.
func TestConsoleOIDC(t *testing.T) {
	t.Parallel()
	p, k := testoidc.New(t), newKeyring(t)
	k.file("client", testoidc.Secret)
	k.file("roles", "oidc:erin observes alice\n")
	flags := []string{"--console-oidc-issuer", p.URL, "--console-oidc-client-id", testoidc.ClientID, "--console-oidc-client-secret-file", k.path("client"), "--console-oidc-allow", "groups=troupe"}
	s := startServer(t, append(flags, "--console", "--auth-token-file", k.path("tokens"), "--auth-roles-file", k.path("roles"))...)
	b := newTab(t, s.url)
	if got := b.me(); got != `{"auth":true,"identity":null,"oidc":true}` {
		t.Errorf("before the login: %s", got)
	}
	begin := func(b *tab, query string) (back string) {
		t.Helper()
		resp, body := b.do("GET", "/console/oidc"+query, "", nil)
		if resp.StatusCode != 302 || !strings.HasPrefix(resp.Header.Get("Location"), p.URL+"/authorize?") {
			t.Fatalf("%s %s, to %s", resp.Status, body, resp.Header.Get("Location"))
		}
		if c := resp.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge <= 0 {
			t.Errorf("the cookie of the attempt: %s", c)
		}
		back, ok := strings.CutPrefix(p.Authorize(resp.Header.Get("Location")), b.url)
		if !ok {
			t.Fatalf("the browser comes back to %s", back)
		}
		return back
	}
	back := begin(b, "?next=https://evil.example&redirect_uri=https://evil.example")
	if resp, body := newTab(t, s.url).do("GET", back, "", nil); resp.StatusCode != 401 || len(resp.Header.Values("Set-Cookie")) != 1 {
		t.Errorf("another browser comes back: %s %s", resp.Status, body)
	}
	resp, body := b.do("GET", back+"&next=https://evil.example", "", nil)
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "/console/" || len(b.cookies) != 1 {
		t.Fatalf("the login: %s %s, to %q, cookies %v", resp.Status, body, resp.Header.Get("Location"), b.cookies)
	}
	if got := b.me(); got != `{"auth":true,"identity":"oidc:erin","oidc":true}` {
		t.Errorf("after the login: %s", got)
	}
	alice := s.as("token-of-alice-in-plain", nil)
	if list := sessionsOf(b.mustDial(nil)); list[alice.sessionID] == "" {
		t.Errorf("the role of erin does not count: %v", list)
	}
	if resp, _ := b.do("GET", back, "", nil); resp.StatusCode != 401 {
		t.Errorf("the same answer again: %s", resp.Status)
	}
	p.Change(obj{"groups": []string{"guests"}})
	stranger := newTab(t, s.url)
	if resp, body := stranger.do("GET", begin(stranger, ""), "", nil); resp.StatusCode != 401 || !strings.Contains(body, "may not log in here") || len(stranger.cookies) > 0 {
		t.Errorf("somebody else: %s %s, cookies %v", resp.Status, body, stranger.cookies)
	}
	p.Sick(true)
	sick := newTab(t, s.url)
	sick.cookies = maps.Clone(b.cookies)
	if got := sick.me(); got != `{"auth":true,"identity":"oidc:erin","oidc":true}` {
		t.Errorf("without the provider: %s", got)
	}
	if status := b.login("token-of-alice-in-plain"); status != 204 {
		t.Errorf("a token beside the provider: %d", status)
	}
	// Another client secret ends all logins.
	k.file("client", "another-secret-of-the-client")
	other := startServer(t, append(flags, "--console")...)
	b = newTab(t, other.url)
	for name, value := range sick.cookies {
		b.cookies[strings.Replace(name, sick.url[strings.LastIndexByte(sick.url, ':')+1:], b.url[strings.LastIndexByte(b.url, ':')+1:], 1)] = value
	}
	if got := b.me(); got != `{"auth":true,"identity":null,"oidc":true}` {
		t.Errorf("with another secret: %s", got)
	}
	for says, args := range map[string][]string{
		"is for a server with --console": flags,
		"need --console-oidc-issuer":     {"--console", "--console-oidc-client-id", "x"},
		"needs --console-oidc-allow":     append(flags[:6:6], "--console"),
	} {
		if p := startTroupe(t, nil, append([]string{"serve"}, args...)...); p.exitCode() == 0 || !strings.Contains(p.stderr.String(), says) {
			t.Errorf("%v: %s", args, p.stderr)
		}
	}
}
