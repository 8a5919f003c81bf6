//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// An attempt of a page to reach a server: a websocket, or with Init a fetch.
type attempt struct {
	URL       string   `json:"url"`
	Protocols []string `json:"protocols,omitempty"` // of the websocket
	Init      obj      `json:"init,omitempty"`      // of the fetch
}

// page makes each attempt, and reports how each ended: open or refused, for a fetch also opaque (the page sees
// nothing of the answer) or read and the status.
const page = `<!doctype html><script>
const open = a => new Promise(done => {
	try {
		const ws = new WebSocket(a.url, a.protocols || []);
		ws.onopen = () => { ws.close(); done("open"); };
		ws.onerror = () => done("refused");
	} catch (e) { done("refused"); }
});
const get = a => fetch(a.url, a.init).then(r => r.type == "opaque" ? "opaque" : "read " + r.status, () => "refused");
Promise.all(%s.map(a => a.init ? get(a) : open(a))).then(all => fetch("/result", {method: "POST", body: JSON.stringify(all)}));
</script>`

// A site is a web server with a page. All other requests go on to a troupe server, as they do after the name
// of the site was bound to the address of that server.
type site struct {
	*httptest.Server
	page   atomic.Value // string
	ready  atomic.Value // string, which /ready says
	result chan []string
}

func newSite(t *testing.T, troupe *server) *site {
	s := &site{result: make(chan []string, 1)}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: strings.TrimPrefix(troupe.url, "ws://")})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			io.WriteString(w, s.page.Load().(string))
		case "/ready":
			fmt.Fprint(w, s.ready.Load())
		case "/result":
			var all []string
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &all); err != nil {
				t.Errorf("%v: %s", err, body)
			}
			s.result <- all
		default:
			forward.ServeHTTP(w, r) // with the Host and the Origin of the browser
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// origin is the origin of the page under a name.
func (s *site) origin(name string) string {
	return "http://" + name + s.URL[strings.LastIndexByte(s.URL, ':'):]
}

// chromium returns a headless Chromium in a process group of its own, which leaves files only in directories of the test.
func chromium(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("chromium", append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir=" + t.TempDir(),
		"--remote-debugging-pipe", // else --headless ends before a page has done anything
	}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// visit opens the page of a site in Chromium, under a name, and returns the result of each attempt.
func (s *site) visit(t *testing.T, name string, attempts ...attempt) []string {
	t.Helper()
	list, err := json.Marshal(attempts)
	if err != nil {
		t.Fatal(err)
	}
	return s.show(t, name, fmt.Sprintf(page, list))
}

// show opens a page in Chromium, under a name of its site, and returns what the page reports.
func (s *site) show(t *testing.T, name, html string) []string {
	t.Helper()
	s.page.Store(html)
	cmd := chromium(t, "--host-resolver-rules=MAP *.example 127.0.0.1", "--disable-popup-blocking", "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", s.origin(name)+"/page")
	var log strings.Builder
	cmd.Stderr = &log
	// --remote-debugging-pipe reads from descriptor 3 and writes to descriptor 4.
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{in, sink}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	sink.Close()
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		hold.Close()
		cmd.Wait()
	}()
	select {
	case result := <-s.result:
		return result
	case <-time.After(factTimeout):
		t.Fatalf("the page reports nothing; Chromium says: %s", &log)
		return nil
	}
}

// TestWebPages: a page in a browser opens no websocket unless its origin is allowed: not with the address, not
// after its name was bound to the address, and not with a token in the URL or among the subprotocols. Its fetches
// change nothing, and the page reads no answer but that of its own name.
func TestWebPages(t *testing.T) {
	needs.Program(t, "chromium")
	t.Parallel()
	k := newKeyring(t)
	const token = "token-of-alice-in-plain"
	flags := k.flags("ws://127.0.0.1:0")
	open, asking := guard(t, nil, "--listen", "ws://127.0.0.1:0"), guard(t, nil, flags...)
	for name, troupe := range map[string]*guarded{"without credentials": open, "with credentials": asking} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, troupe.server)
			address, own := strings.TrimPrefix(troupe.url, "ws://"), strings.TrimPrefix(s.origin("evil.example"), "http://")
			var attempts []attempt
			var wants []string
			try := func(want string, a attempt) { attempts, wants = append(attempts, a), append(wants, want) }
			for _, host := range []string{address, strings.Replace(address, "127.0.0.1", "localhost", 1), strings.Replace(address, "127.0.0.1", "rebound.example", 1), own} {
				try("refused", attempt{URL: "ws://" + host + "/"})
				try("refused", attempt{URL: "ws://" + host + "/rpc"})
				try("refused", attempt{URL: "ws://" + host + "/?token=" + token + "&access_token=" + token})
				try("refused", attempt{URL: "ws://" + token + ":" + token + "@" + host + "/"})
				try("refused", attempt{URL: "ws://" + host + "/", Protocols: []string{"troupe.json", "bearer", token}})
				for _, path := range []string{"/", "/rpc", "/healthz", "/readyz", "/anything"} {
					for _, method := range []string{"GET", "HEAD", "POST"} {
						a := attempt{URL: "http://" + host + path, Init: obj{"method": method, "mode": "no-cors", "credentials": "include"}}
						if host != own {
							try("opaque", a)
							a.Init = obj{"method": method}
							try("refused", a)
							a.Init = obj{"method": method, "headers": obj{"Authorization": "Bearer " + token, "Upgrade": "websocket"}}
							try("refused", a)
							continue
						}
						// The name of the page is bound to the server. Only POST tells the origin.
						want := map[string]string{"/": "read 400", "/rpc": "read 404", "/healthz": "read 200", "/readyz": "read 200", "/anything": "read 404"}[path]
						if method == "POST" {
							want = "read 403"
						}
						try(want, a)
					}
				}
			}
			for i, got := range s.visit(t, "evil.example", attempts...) {
				if got != wants[i] {
					t.Errorf("%+v: %s, want %s", attempts[i], got, wants[i])
				}
			}
			if text := troupe.record.text(); strings.Contains(text, "connection.accepted") || !strings.Contains(text, "origin not allowed") || strings.Contains(text, token) {
				t.Errorf("the record after the page: %s", text)
			}
		})
	}
	t.Run("an allowed origin", func(t *testing.T) { // else a page that never works would pass
		s := newSite(t, open.server)
		allow := []string{"--allow-origin", s.origin("good.example")}
		allowing, asks := startServer(t, allow...), startServer(t, append(flags, allow...)...)
		got := s.visit(t, "good.example", attempt{URL: allowing.url + "/"}, attempt{URL: asks.url + "/?token=" + token}, attempt{URL: asks.url, Protocols: []string{"troupe.json", token}})
		if want := []string{"open", "refused", "refused"}; !slices.Equal(got, want) { // a right origin is no credential
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// strangersPage waits until the visitor has logged in at the console in another window, and then tries to use the login: by a websocket, by requests of every
// kind, by a form, in a frame, as a script, and by the window. Each attempt reports what it got.
const strangersPage = `<!doctype html><body><script>
const at = %q, token = %q;
const sleep = ms => new Promise(done => setTimeout(done, ms));
const socket = protocols => new Promise(done => {
	const ws = new WebSocket(at.replace("http", "ws") + "/", protocols);
	ws.onopen = () => done("open");
	ws.onerror = () => done("refused");
});
const get = (path, init) => fetch(at + path, {credentials: "include", ...init}).then(r => r.type == "opaque" ? "opaque" : "read " + r.status, () => "refused");
const load = (name, attributes) => new Promise(done => {
	const e = Object.assign(document.createElement(name), attributes);
	e.onload = () => done("loaded");
	e.onerror = () => done("refused");
	document.body.append(e);
});
let frames = 0;
const submits = (path, enctype) => new Promise(done => {
	const frame = Object.assign(document.createElement("iframe"), {name: "frame" + frames++}), form = document.createElement("form");
	document.body.append(frame, form);
	Object.assign(form, {action: at + path, enctype, method: "post", target: frame.name});
	form.append(Object.assign(document.createElement("input"), {name: '{"token":"' + token + '","x":"', value: '"}'}));
	frame.onload = () => done(frame.contentDocument ? "read" : "refused");
	form.submit();
});
const framed = path => new Promise(done => {
	const frame = document.createElement("iframe");
	frame.onload = () => done(frame.contentDocument ? "read" : "refused");
	frame.src = at + path;
	document.body.append(frame);
});
const severed = async w => {
	while (!w.closed) await sleep(100);
	try { return w.document ? "read" : "refused"; } catch (e) { return "refused"; }
};
(async () => {
	const first = window.open(at + "/console/#share=" + token);
	while (await (await fetch("/ready")).text() != "logged in") await sleep(100);
	const all = [
		await socket(["troupe.json"]), await socket([]),
		await severed(first),
		await framed("/console/"), await framed("/console/me"),
		await load("script", {src: at + "/console/me"}), await load("img", {src: at + "/console/me"}), await load("link", {rel: "stylesheet", href: at + "/console/index.html"}),
		await submits("/console/login", "text/plain"), await submits("/console/logout", "application/x-www-form-urlencoded"), await submits("/console/logout", "text/plain"),
	];
	for (const [path, method] of [["/console/", "GET"], ["/console/me", "GET"], ["/console/login", "POST"], ["/console/logout", "POST"], ["/", "GET"]])
		for (const mode of ["cors", "no-cors"])
			for (const type of ["text/plain", "application/json"])
				all.push(await get(path, {method, mode, ...(method == "POST" && {body: JSON.stringify({token}), headers: {"Content-Type": type}})}));
	window.open(at + "/console/#share=troupe_share_wrong");
	window.open(at + "/console/");
	while (await (await fetch("/ready")).text() != "over") await sleep(100);
	await fetch("/result", {method: "POST", body: JSON.stringify(all)});
})();
</script>`

// TestStrangersPage: a page of somebody else can do nothing with the login of its visitor at the console, also if it is of the same site, so that the browser
// sends the cookie along. It can open the console in a window, and not reach into the window.
func TestStrangersPage(t *testing.T) {
	needs.Program(t, "chromium")
	t.Parallel()
	for _, name := range []string{"127.0.0.1", "evil.example"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, r := newKeyring(t), newRecord(t)
			troupe := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--console", "--audit", r.path)...)
			host := troupe.as("token-of-alice-in-plain", nil)
			_, token := host.share(obj{"access": "type"})
			guests := func() int {
				return strings.Count(r.text(), `"event":"connection.accepted","identity":"share:`)
			}
			s := newSite(t, troupe)
			s.ready.Store("")
			go func() { // The page goes on when its visitor has a connection, and ends when he has one again.
				for i, state := range []string{"logged in", "over"} {
					for deadline := time.Now().Add(factTimeout); guests() <= i && time.Now().Before(deadline); {
						time.Sleep(50 * time.Millisecond)
					}
					s.ready.Store(state)
				}
			}()
			for i, got := range s.show(t, name, fmt.Sprintf(strangersPage, strings.Replace(troupe.url, "ws", "http", 1), token)) {
				if got != "refused" && got != "opaque" {
					t.Errorf("attempt %d of the page: %s", i, got)
				}
			}
			// The page has opened three windows of the console, of which the second tried a wrong token. Nothing else may have connected.
			if n := guests(); n < 2 || n > 3 {
				t.Errorf("%d connections with the login of the visitor, want those of the windows", n)
			}
		})
	}
}
