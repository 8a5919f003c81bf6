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
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
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
	result chan []string
}

func newSite(t *testing.T, troupe *server) *site {
	s := &site{result: make(chan []string, 1)}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: strings.TrimPrefix(troupe.url, "ws://")})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			io.WriteString(w, s.page.Load().(string))
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
	s.page.Store(fmt.Sprintf(page, list))
	cmd := chromium(t, "--host-resolver-rules=MAP *.example 127.0.0.1", s.origin(name)+"/page")
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
		allowing := startServer(t, "--allow-origin", s.origin("good.example"))
		for name, want := range map[string]string{"good.example": "open", "evil.example": "refused", "not.good.example": "refused", "good.example.evil.example": "refused"} {
			if got := s.visit(t, name, attempt{URL: allowing.url + "/"}); got[0] != want {
				t.Errorf("from %s: %s, want %s", name, got[0], want)
			}
		}
		// A right origin is no credential.
		asks := startServer(t, append(flags, "--allow-origin", s.origin("good.example"))...)
		if got := s.visit(t, "good.example", attempt{URL: asks.url + "/?token=" + token}, attempt{URL: asks.url, Protocols: []string{"troupe.json", token}}); got[0] != "refused" || got[1] != "refused" {
			t.Errorf("without a credential: %v", got)
		}
	})
}
