package webconsole

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// checker accepts the token "right of NAME".
type checker struct{ unable error }

func (c *checker) Check(token string, _ time.Time) (auth.Identity, error) {
	name, ok := strings.CutPrefix(token, "right of ")
	switch {
	case c.unable != nil:
		return auth.Identity{}, c.unable
	case !ok:
		return auth.Identity{}, auth.ErrToken
	}
	return auth.Identity{Name: name}, nil
}

// A lab has a console, and its wrong credentials.
type lab struct {
	*transport.Pages
	checker checker
	door    *auth.Door
	refused []string
}

func newLab(o Options) *lab {
	l := new(lab)
	l.door = &auth.Door{Bearer: &l.checker, Shares: share.NewBook(time.Hour)}
	if o.Door == nil {
		o.Door = l.door
	}
	o.Refused = func(remote, reason string) { l.refused = append(l.refused, remote+" "+reason) }
	l.Pages = New(o)
	return l
}

// at is a request of the console's own page.
func at(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:7766"+path, strings.NewReader(body))
	if method == "POST" {
		r.Header.Set("Origin", "http://127.0.0.1:7766")
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

var own = transport.Caller{Peer: "192.0.2.1", Remote: "192.0.2.1:1", Own: true}

func (l *lab) ask(t *testing.T, r *http.Request, from transport.Caller) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	if !l.Serve(w, r, from) {
		t.Fatalf("%s %s is not answered", r.Method, r.URL)
	}
	return w.Result()
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestPaths: which requests are the console's, and which methods they may have.
func TestPaths(t *testing.T) {
	l := newLab(Options{})
	for _, c := range []struct {
		method, path, accept string
		status               int // 0: the server answers
	}{
		{"GET", "/console/", "", 200},
		{"HEAD", "/console/", "", 200},
		{"GET", "/console/?x=1", "", 200},
		{"GET", "/console/index.html", "", 200},
		{"GET", "/console", "", 302},
		{"GET", "/", "text/html,*/*", 302},
		{"GET", "/", "*/*", 0},
		{"POST", "/", "text/html", 0},
		{"GET", "/metrics", "text/html", 0},
		{"GET", "/consoles/", "text/html", 0},
		{"GET", "//console/", "text/html", 0},
		{"POST", "/console/", "", 405},
		{"POST", "/console", "", 405},
		{"PUT", "/console/index.html", "", 405},
		{"OPTIONS", "/console/login", "", 405},
		{"GET", "/console/login", "", 405},
		{"GET", "/console/logout", "", 405},
		{"POST", "/console/me", "", 405},
		{"GET", "/console/nothing", "", 404},
		{"GET", "/console/assets", "", 404},
		{"GET", "/console/assets/", "", 404},
		{"GET", "/console/../", "", 404},
		{"GET", "/console/..%2fconsole.go", "", 404},
		{"GET", "/console/%2e%2e/%2e%2e/etc/passwd", "", 404},
		{"GET", "/console//index.html", "", 404},
		{"GET", "/console/./index.html", "", 404},
		{"GET", "/console/index.html/", "", 404},
		{"GET", "/console/index.html.gz", "", 404},
		{"GET", "/console/index.html%00", "", 404},
		{"GET", "/console/SUMS", "", 404},
		{"GET", "/console/" + strings.Repeat("a/", 5000), "", 404},
	} {
		r := at(c.method, c.path, "")
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		if answers := l.Serve(w, r, own); answers != (c.status > 0) || answers && w.Code != c.status {
			t.Errorf("%s %.60s: %d, want %d", c.method, c.path, w.Code, c.status)
		}
		if c.status == 302 && w.Header().Get("Location") != "/console/" {
			t.Errorf("%s leads to %q", c.path, w.Header().Get("Location"))
		}
		if allow := w.Header().Get("Allow"); c.status == 405 && (allow == "" || strings.Contains(allow, c.method)) {
			t.Errorf("%s %s: Allow: %s", c.method, c.path, allow)
		}
		for name := range headers {
			if c.status > 0 && w.Header().Get(name) == "" {
				t.Errorf("%s %s: no %s", c.method, c.path, name)
			}
		}
	}
}

// TestAt: browsers find the console of a server at an address of TCP.
func TestAt(t *testing.T) {
	for url, want := range map[string]string{"ws://127.0.0.1:7766": "http://127.0.0.1:7766/console/", "wss://build.example.org/": "https://build.example.org/console/", "unix:///run/s": "", "unix+frames:///run/s": ""} {
		if got := At(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// TestPolicy: the page loads nothing from elsewhere, runs no inline script, and is shown in no frame.
func TestPolicy(t *testing.T) {
	policy := headers["Content-Security-Policy"]
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !slices.Contains(strings.Split(policy, "; "), part) {
			t.Errorf("%s lacks %s", policy, part)
		}
	}
	for _, hole := range []string{"unsafe", "*", "http", "blob:"} {
		if strings.Contains(policy, hole) {
			t.Errorf("%s has %s", policy, hole)
		}
	}
}

// TestFiles: each file of the page is served as it was built, compressed or not, and is not sent again while it has not changed.
func TestFiles(t *testing.T) {
	l := newLab(Options{})
	served := 0
	for name, f := range files() {
		if f.kind == "" {
			if name != "SUMS" {
				t.Errorf("%s has no type: add its suffix to kinds", name)
			}
			continue
		}
		served++
		ask := func(encoding, tag string) (*http.Response, string) {
			r := at("GET", "/console/"+name, "")
			r.Header.Set("Accept-Encoding", encoding)
			r.Header.Set("If-None-Match", tag)
			resp := l.ask(t, r, transport.Caller{})
			return resp, bodyOf(t, resp)
		}
		zipped, packed := ask("br, gzip", "")
		plain, text := ask("gzip;q=0, br", "")
		if f.zipped && (zipped.Header.Get("Content-Encoding") != "gzip" || packed != string(f.data) || zipped.Header.Get("Vary") != "Accept-Encoding") {
			t.Errorf("%s: %v", name, zipped.Header)
		}
		if plain.Header.Get("Content-Encoding") != "" || f.zipped && (text == "" || text == packed) || !f.zipped && text != string(f.data) {
			t.Errorf("%s: %v, %d bytes", name, plain.Header, len(text))
		}
		immutable := strings.Contains(zipped.Header.Get("Cache-Control"), "immutable")
		if immutable != strings.HasPrefix(name, "assets/") || !immutable && zipped.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: Cache-Control: %s", name, zipped.Header.Get("Cache-Control"))
		}
		tag := zipped.Header.Get("ETag")
		if f.zipped && tag == plain.Header.Get("ETag") {
			t.Errorf("%s: both encodings have the tag %s", name, tag)
		}
		if again, body := ask("gzip", `"x", `+tag); again.StatusCode != 304 || body != "" {
			t.Errorf("%s: %s with its own tag", name, again.Status)
		}
		if again, _ := ask("gzip", `"x"`); again.StatusCode != 200 {
			t.Errorf("%s: %s with another tag", name, again.Status)
		}
	}
	if served == 0 || files()["index.html"].kind == "" {
		t.Error("there is no page")
	}
}

// TestLogin: who has a right credential gets a cookie that only the server reads, and the server takes the credential from it.
func TestLogin(t *testing.T) {
	l := newLab(Options{})
	for _, c := range []struct{ origin, host, name string }{
		{"http://127.0.0.1:7766", "127.0.0.1:7766", "troupe-7766"},
		{"http://[::1]:7766", "[::1]:7766", "troupe-7766"},
		{"https://build.example.org", "build.example.org", "__Host-troupe"},
		{"https://build.example.org:8443", "build.example.org:8443", "__Host-troupe-8443"},
	} {
		r := at("POST", "/console/login", `{"token": " right of alice\n"}`)
		r.Host = c.host
		r.Header.Set("Origin", c.origin)
		resp := l.ask(t, r, own)
		cookies := resp.Cookies()
		if resp.StatusCode != 204 || len(cookies) != 1 {
			t.Fatalf("%s: %s, %v", c.origin, resp.Status, cookies)
		}
		k := cookies[0]
		secure := strings.HasPrefix(c.origin, "https")
		if k.Name != c.name || !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "/" || k.Domain != "" || k.Secure != secure || k.MaxAge != 0 || !k.Expires.IsZero() {
			t.Errorf("%s: the cookie is %s", c.origin, k)
		}
		socket := at("GET", "/", "")
		socket.Host = c.host
		socket.Header.Set("Origin", c.origin)
		socket.AddCookie(k)
		if got := l.Token(socket); got != "right of alice" {
			t.Errorf("%s: the token is %q", c.origin, got)
		}
		me := at("GET", "/console/me", "")
		me.Host = c.host
		me.AddCookie(k)
		if got := bodyOf(t, l.ask(t, me, transport.Caller{})); got != `{"auth":true,"identity":"alice","oidc":false}`+"\n" {
			t.Errorf("%s: me is %s", c.origin, got)
		}
		socket.AddCookie(k)
		if got := l.Token(socket); got != "" {
			t.Errorf("%s: of two cookies, %q counts", c.origin, got)
		}
		out := at("POST", "/console/logout", "")
		out.Host = c.host
		out.Header.Set("Origin", c.origin)
		resp = l.ask(t, out, own)
		if k := resp.Cookies()[0]; resp.StatusCode != 204 || k.Name != c.name || k.MaxAge >= 0 || k.Value != "" {
			t.Errorf("%s: logout sets %s", c.origin, k)
		}
	}
	if l.refused != nil {
		t.Errorf("refused: %q", l.refused)
	}
}

// TestRemember: a browser keeps the cookie of a login that asks for it for 30 days, and no other.
func TestRemember(t *testing.T) {
	l := newLab(Options{})
	for body, days := range map[string]int{`{"token": "right of alice", "remember": true}`: 30, `{"token": "right of alice", "remember": false}`: 0} {
		k := l.ask(t, at("POST", "/console/login", body), own).Cookies()[0]
		if k.MaxAge != days*24*60*60 {
			t.Errorf("%s: the cookie is %s, expected %d days", body, k, days)
		}
	}
}

// TestLoginRefused: everything that is no right login of the page itself leaves no cookie.
func TestLoginRefused(t *testing.T) {
	l := newLab(Options{})
	l.door.UnixUsers = true
	right := `{"token": "right of alice"}`
	for i, c := range []struct {
		what, body string
		kind       string // "": JSON
		from       transport.Caller
		status     int
		text       string
	}{
		{what: "another origin", body: right, from: transport.Caller{Peer: "x"}, status: 403, text: "only the page"},
		{what: "a form", body: right, kind: "application/x-www-form-urlencoded", from: own, status: 415, text: "JSON"},
		{what: "text", body: right, kind: "text/plain", from: own, status: 415, text: "JSON"},
		{what: "no JSON", body: "right of alice", from: own, status: 400, text: "JSON"},
		{what: "no token", body: "{}", from: own, status: 400, text: "JSON"},
		{what: "a blank token", body: `{"token": " \n"}`, from: transport.Caller{Own: true, UID: new(uint32)}, status: 400, text: "JSON"},
		{what: "two values", body: right + right, from: own, status: 400, text: "JSON"},
		{what: "too much", body: `{"token": "right of ` + strings.Repeat("a", maxBody) + `"}`, from: own, status: 413, text: "8192 bytes"},
		{what: "a wrong token", body: `{"token": "wrong"}`, from: own, status: 401, text: "invalid websocket bearer token"},
		{what: "an unknown share", body: `{"token": "troupe_share_x"}`, from: own, status: 401, text: "invalid websocket bearer token"},
	} {
		r := at("POST", "/console/login", c.body)
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		c.from.Peer = fmt.Sprint(i) // each has its own allowance
		resp := l.ask(t, r, c.from)
		if text := bodyOf(t, resp); resp.StatusCode != c.status || !strings.Contains(text, c.text) || len(resp.Cookies()) > 0 {
			t.Errorf("%s: %s %q, cookies %v, want %d %q", c.what, resp.Status, text, resp.Cookies(), c.status, c.text)
		}
	}
	if len(l.refused) != 2 || l.refused[0] != "192.0.2.1:1 login: invalid websocket bearer token" {
		t.Errorf("refused: %q, want the two wrong tokens", l.refused)
	}
	l.checker.unable = errors.New("no file")
	if resp := l.ask(t, at("POST", "/console/login", right), own); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || strings.Contains(bodyOf(t, resp), "no file") {
		t.Errorf("without the file: %s", resp.Status)
	}
	if resp := l.ask(t, at("POST", "/console/logout", ""), transport.Caller{}); resp.StatusCode != 403 || len(resp.Cookies()) > 0 {
		t.Errorf("a logout by another page: %s", resp.Status)
	}
}

// TestLongCredential: a token that no browser keeps is refused with its length.
func TestLongCredential(t *testing.T) {
	l := newLab(Options{Exchange: func(string) (string, error) { return "right of x" + strings.Repeat("\x00", maxCredential), nil }})
	l.door.Bearer = anybody{}
	if resp := l.ask(t, at("POST", "/console/login", `{"token":"x"}`), own); resp.StatusCode != 413 || !strings.Contains(bodyOf(t, resp), "3010 bytes") || len(resp.Cookies()) > 0 {
		t.Error(resp.Status)
	}
	r := at("GET", "/", "")
	r.Header.Set("Origin", "http://127.0.0.1:7766")
	for _, value := range []string{"%", base64.RawURLEncoding.EncodeToString(make([]byte, maxCredential+1))} {
		r.Header.Set("Cookie", "troupe-7766="+value)
		if got := l.Token(r); got != "" {
			t.Errorf("a cookie of %d bytes counts", len(value))
		}
	}
}

// anybody accepts each token.
type anybody struct{}

func (anybody) Check(string, time.Time) (auth.Identity, error) { return auth.Identity{Name: "x"}, nil }

// TestExchange: the browser gets another credential than the token of the login.
func TestExchange(t *testing.T) {
	l := newLab(Options{Exchange: func(token string) (string, error) {
		if token != "once" {
			return "", auth.ErrToken
		}
		return "right of you", nil
	}})
	if resp := l.ask(t, at("POST", "/console/login", `{"token":"right of you"}`), own); resp.StatusCode != 401 {
		t.Errorf("without an exchange: %s", resp.Status)
	}
	resp := l.ask(t, at("POST", "/console/login", `{"token":"once"}`), own)
	r := at("GET", "/", "")
	r.AddCookie(resp.Cookies()[0])
	if got := l.Token(r); got != "right of you" {
		t.Errorf("the browser keeps %q", got)
	}
}

// TestMe: a page learns whether the server asks for a credential, and who its user is by the cookie, or by what the connection shows.
func TestMe(t *testing.T) {
	l := newLab(Options{})
	guest := auth.Identity{Name: "share:1", Guest: &identity.Guest{Session: "s", Host: "alice"}}
	token, digest := l.door.Shares.NewToken()
	l.door.Shares.Add(digest, guest, time.Now().Add(time.Hour))
	l.door.UnixUsers = true
	uid := uint32(1000)
	for _, c := range []struct {
		what, cookie string
		header       string
		from         transport.Caller
		identity     string
		forgets      bool
	}{
		{what: "nobody", identity: "null"},
		{what: "a cookie", cookie: "right of alice", identity: `"alice"`},
		{what: "a guest", cookie: token, identity: `"share:1"`},
		{what: "a wrong cookie", cookie: "wrong", identity: "null", forgets: true},
		{what: "a user", from: transport.Caller{UID: &uid}, identity: `"uid:1000"`},
		{what: "a user with a wrong cookie", cookie: "wrong", from: transport.Caller{UID: &uid}, identity: `"uid:1000"`, forgets: true},
		{what: "a header", header: "Bearer right of bob", identity: `"bob"`},
		{what: "a header and a cookie", header: "Bearer right of bob", cookie: "right of alice", identity: `"bob"`},
		{what: "a name with quotes", cookie: `right of </script>"`, identity: `"\u003c/script\u003e\""`},
	} {
		r := at("GET", "/console/me", "")
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: "troupe-7766", Value: base64.RawURLEncoding.EncodeToString([]byte(c.cookie))})
		}
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		l.refused = nil
		resp := l.ask(t, r, c.from)
		want := `{"auth":true,"identity":` + c.identity + `,"oidc":false}` + "\n"
		if body := bodyOf(t, resp); resp.StatusCode != 200 || body != want || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s %s, want %s", c.what, resp.Status, body, want)
		}
		if forgets := len(resp.Cookies()) == 1 && resp.Cookies()[0].MaxAge < 0; forgets != c.forgets || forgets != (len(l.refused) == 1) {
			t.Errorf("%s: cookies %v, refused %q", c.what, resp.Cookies(), l.refused)
		}
	}
	l.checker.unable = errors.New("no file")
	r := at("GET", "/console/me", "")
	r.AddCookie(&http.Cookie{Name: "troupe-7766", Value: base64.RawURLEncoding.EncodeToString([]byte("right of alice"))})
	if resp := l.ask(t, r, own); resp.StatusCode != 503 || len(resp.Cookies()) > 0 {
		t.Errorf("without the file: %s", resp.Status)
	}
}

// TestWithoutCredentials: a server that asks for no credential says so, and nobody logs in.
func TestWithoutCredentials(t *testing.T) {
	pages := New(Options{Refused: func(string, string) {}})
	l := &lab{Pages: pages}
	if body := bodyOf(t, l.ask(t, at("GET", "/console/me", ""), transport.Caller{TLS: &tls.ConnectionState{}})); body != `{"auth":false,"identity":null,"oidc":false}`+"\n" {
		t.Error(body)
	}
	if resp := l.ask(t, at("POST", "/console/login", `{"token":"x"}`), own); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
}

// TestGuessing: after some wrong logins, an address waits. Others do not wait, nor does anybody for right logins.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(Options{})
		login := func(token string, peer string) *http.Response {
			return l.ask(t, at("POST", "/console/login", `{"token":"`+token+`"}`), transport.Caller{Peer: peer, Own: true})
		}
		for range 3 * guessRate.Burst {
			if got := login("right of alice", "good").StatusCode; got != 204 {
				t.Fatalf("a right login: %d", got)
			}
		}
		for range guessRate.Burst {
			if got := login("wrong", "bad").StatusCode; got != 401 {
				t.Fatalf("a wrong login: %d", got)
			}
		}
		if resp := login("right of alice", "bad"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "5" || len(resp.Cookies()) > 0 {
			t.Errorf("after %d wrong logins: %s, Retry-After: %s", guessRate.Burst, resp.Status, resp.Header.Get("Retry-After"))
		}
		if got := login("right of alice", "good").StatusCode; got != 204 {
			t.Errorf("from another address: %d", got)
		}
		time.Sleep(5 * time.Second)
		if got := login("right of alice", "bad").StatusCode; got != 204 {
			t.Errorf("after a while: %d", got)
		}
	})
}

// TestGuessersAreBounded: an attacker with many addresses fills no memory, and keeps out nobody whose address was known before.
func TestGuessersAreBounded(t *testing.T) {
	var g guesses
	now := time.Now()
	for i := range 3 * maxGuessers {
		g.begin(fmt.Sprint(i), now)
	}
	if n := len(g.all); n > maxGuessers+1 {
		t.Errorf("%d addresses", n)
	}
	if wait := g.begin("0", now); wait > 0 {
		t.Errorf("the first address waits %v", wait)
	}
	if wait := g.begin("new", now); wait == 0 {
		t.Error("further addresses have an allowance each")
	}
	if wait := g.begin("new", now.Add(time.Hour)); wait > 0 || len(g.all) != 1 {
		t.Errorf("after an hour, %v and %d addresses", wait, len(g.all))
	}
}
