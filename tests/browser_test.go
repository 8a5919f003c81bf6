package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
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
)

// page opens a websocket at each URL, and reports for each whether the websocket opened.
const page = `<!doctype html><script>
const urls = %s, result = {};
Promise.all(urls.map(url => new Promise(done => {
	const ws = new WebSocket(url);
	ws.onopen = () => { result[url] = "open"; ws.close(); done(); };
	ws.onerror = () => { result[url] = "refused"; done(); };
}))).then(() => fetch("/result", {method: "POST", body: JSON.stringify(result)}));
</script>`

// A site is a web server. Its page tries to open websockets. Requests for a websocket go on to a troupe
// server, as they do after the name of the site was bound to the address of that server.
type site struct {
	*httptest.Server
	page   atomic.Value // string
	result chan map[string]string
}

func newSite(t *testing.T, troupe *server) *site {
	s := &site{result: make(chan map[string]string, 1)}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: strings.TrimPrefix(troupe.url, "ws://")})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			forward.ServeHTTP(w, r) // with the Host and the Origin of the browser
		case r.URL.Path == "/page":
			io.WriteString(w, s.page.Load().(string))
		case r.URL.Path == "/result":
			var m map[string]string
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &m); err != nil {
				t.Errorf("%v: %s", err, body)
			}
			s.result <- m
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// visit opens the page of a site in Chromium, under the name evil.example, and returns the result for each URL.
func (s *site) visit(t *testing.T, urls ...string) map[string]string {
	t.Helper()
	list, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	s.page.Store(fmt.Sprintf(page, list))
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP evil.example 127.0.0.1",
		"--remote-debugging-pipe", // else --headless ends before the page has reported
		"http://evil.example:"+port+"/page")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
// after its name was bound to the address, and not with a token in the URL.
func TestWebPages(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("chromium is not installed")
	}
	t.Parallel()
	k := newKeyring(t)
	open, asking := startServer(t), startServer(t, k.flags("ws://127.0.0.1:0")...)
	for name, troupe := range map[string]*server{"without credentials": open, "with credentials": asking} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, troupe)
			own := "ws://evil.example:" + s.URL[strings.LastIndexByte(s.URL, ':')+1:] + "/"
			address := troupe.url + "/"
			for url, got := range s.visit(t, address, strings.Replace(address, "127.0.0.1", "localhost", 1), own,
				address+"?token=token-of-alice-in-plain", own+"?token=token-of-alice-in-plain&access_token=token-of-alice-in-plain") {
				if got != "refused" {
					t.Errorf("%s: %s", url, got)
				}
			}
		})
	}
	t.Run("an allowed origin", func(t *testing.T) { // else a page that never works would pass
		s := newSite(t, open)
		origin := "http://evil.example:" + s.URL[strings.LastIndexByte(s.URL, ':')+1:]
		allowing := startServer(t, "--allow-origin", origin)
		if got := s.visit(t, allowing.url+"/"); got[allowing.url+"/"] != "open" {
			t.Errorf("%v", got)
		}
	})
}
