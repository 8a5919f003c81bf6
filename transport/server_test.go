package transport

import (
	"bufio"
	"errors"
	"fmt"
	"github.com/gorilla/websocket"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestHTTP(t *testing.T) {
	var unready atomic.Bool
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{
		AllowOrigins: []string{"https://ide.example"},
		Ready:        func() bool { return !unready.Load() },
	})
	upgrade := map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	}
	with := func(key, value string) map[string]string {
		h := map[string]string{key: value}
		for k, v := range upgrade {
			if k != key {
				h[k] = v
			}
		}
		return h
	}
	for _, c := range []struct {
		method, path string
		header       map[string]string
		unready      bool
		status       int
		body         string // "": empty
	}{
		{"GET", "/healthz", nil, false, 200, ""},
		{"HEAD", "/healthz", nil, false, 200, ""},
		{"GET", "/readyz", nil, false, 200, ""},
		{"GET", "/readyz", nil, true, 503, ""},
		{"GET", "/healthz", nil, true, 200, ""},
		{"POST", "/readyz", nil, false, 405, ""},
		{"DELETE", "/healthz", nil, false, 405, ""},
		{"GET", "/metrics", nil, false, 404, "the websocket is at /"},
		{"GET", "/ws", upgrade, false, 404, "the websocket is at /"},
		{"GET", "/", nil, false, 400, "open it with a websocket client"},
		{"GET", "/", with("Sec-WebSocket-Version", "12"), false, 400, "13"},
		{"GET", "/", with("Sec-WebSocket-Key", ""), false, 400, "Sec-WebSocket-Key"},
		{"POST", "/", upgrade, false, 405, "GET"},
		{"GET", "/?token=x", upgrade, false, 101, ""},
		{"GET", "/", with("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"), false, 101, ""},
		{"GET", "/", with("Origin", "https://ide.example"), false, 101, ""},
		{"GET", "/", with("Origin", "https://evil.example"), false, 403, `--allow-origin "https://evil.example"`},
		{"GET", "/", with("Origin", "https://ide.example.evil.example"), false, 403, "not allowed"},
		{"GET", "/", with("Origin", "https://not.ide.example"), false, 403, "not allowed"},
		{"GET", "/", with("Origin", "null"), false, 403, "not allowed"},
		{"GET", "/", with("Origin", ""), false, 403, "not allowed"},
		{"GET", "/healthz", map[string]string{"Origin": s.URL()}, false, 403, "not allowed"},
		{"GET", "/healthz", map[string]string{"Origin": "https://ide.example"}, false, 200, ""},
		{"GET", "/", with("Origin", "https://evil.example/https://ide.example"), false, 403, "not allowed"},
		{"GET", "/", with("Origin", "https://ide.example\r\nOrigin: https://evil.example"), false, 403, "not allowed"},
		{"GET", "/nowhere", map[string]string{"Origin": "x"}, false, 403, "not allowed"},
		{"OPTIONS", "*", map[string]string{"Origin": "x"}, false, 403, "not allowed"},
	} {
		unready.Store(c.unready)
		resp, body := request(t, s.URL(), c.method, c.path, c.header)
		if resp.StatusCode == 101 {
			<-accepted
		}
		if resp.StatusCode != c.status || (c.body == "") != (body == "") || !strings.Contains(body, c.body) {
			t.Errorf("%s %s %v: %s %q, want %d %q", c.method, c.path, c.header, resp.Status, body, c.status, c.body)
		}
		if kind := resp.Header.Get("Content-Type"); c.body != "" && !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s %s: Content-Type %q, want text/plain", c.method, c.path, kind)
		}
		if c.status == 405 && c.path != "/" && resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow: %q", c.method, c.path, resp.Header.Get("Allow"))
		}
		if c.status == 101 && len(resp.Header) != 3 {
			t.Errorf("the upgrade says more than it must: %v", resp.Header)
		}
	}
}

// request sends a handmade request with headers that net/http would refuse. Without a Host among them, the host is h.
func request(t *testing.T, url, method, path string, header map[string]string) (*http.Response, string) {
	t.Helper()
	network, at, _ := strings.Cut(url, "://")
	if network == "ws" {
		network = "tcp"
	}
	c, err := net.Dial(network, at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lines := method + " " + path + " HTTP/1.1\r\n"
	if _, ok := header["Host"]; !ok {
		lines += "Host: h\r\n"
	}
	for k, v := range header {
		lines += k + ": " + v + "\r\n"
	}
	io.WriteString(c, lines+"\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, string(body)
}

func TestSubprotocols(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	for _, c := range []struct {
		offered []string
		want    string
	}{
		{nil, ""},
		{[]string{"troupe.json"}, "troupe.json"},
		{[]string{"other", "troupe.json"}, "troupe.json"},
		{[]string{"other"}, ""},
		{[]string{"troupe.msgpack"}, "troupe.msgpack"},
		{[]string{"troupe.msgpack", "troupe.json"}, "troupe.msgpack"},
		{[]string{"troupe.json", "troupe.msgpack"}, "troupe.msgpack"}, // in the server's order
	} {
		client := dial(t, s.URL(), &DialOptions{Subprotocols: c.offered})
		server := <-accepted
		if client.Subprotocol() != c.want || server.Subprotocol() != c.want {
			t.Errorf("%q: %q and %q, want %q", c.offered, client.Subprotocol(), server.Subprotocol(), c.want)
		}
	}
}

func TestListenRefuses(t *testing.T) {
	taken, _ := serve(t, "ws://127.0.0.1:0", nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const unsupported = "unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio`\n"
	const invalid = "invalid websocket --listen URL `%s`; expected `ws://IP:PORT`\n"
	const refusing = "refusing to start non-loopback websocket listener %s without auth; configure `--ws-auth capability-token` or `--ws-auth signed-bearer-token`\n"
	for url, want := range map[string]string{
		"":                       fmt.Sprintf(unsupported, ""),
		"http://127.0.0.1:0":     fmt.Sprintf(unsupported, "http://127.0.0.1:0"),
		"127.0.0.1:0":            fmt.Sprintf(unsupported, "127.0.0.1:0"),
		"unix://":                fmt.Sprintf(unsupported, "unix://"),
		"ws://example.org:0":     fmt.Sprintf(invalid, "ws://example.org:0"),
		"ws://localhost:0":       fmt.Sprintf(invalid, "ws://localhost:0"),
		"ws://127.0.0.1":         fmt.Sprintf(invalid, "ws://127.0.0.1"),
		"ws://127.0.0.1:0/":      fmt.Sprintf(invalid, "ws://127.0.0.1:0/"),
		"ws://127.0.0.1:0/x":     fmt.Sprintf(invalid, "ws://127.0.0.1:0/x"),
		"ws://127.0.0.1:70000":   fmt.Sprintf(invalid, "ws://127.0.0.1:70000"),
		"ws://0.0.0.0:0":         fmt.Sprintf(refusing, "0.0.0.0:0"),
		"ws://[::]:0":            fmt.Sprintf(refusing, "[::]:0"),
		"ws://[::ffff:0:0]:0":    fmt.Sprintf(refusing, "[::ffff:0.0.0.0]:0"),
		"ws://192.0.2.1:0":       "could run programs here: ask for credentials (troupe serve -h), choose a loopback address, or allow it with --insecure",
		taken.URL():              "Address in use (os error 98)\nlisten at " + taken.URL(),
		"unix://" + file:         "is not a socket",
		"unix://" + dir + "/a/b": "no such file or directory",
		"unix:///" + strings.Repeat("x", maxSocketPath): "at most",
	} {
		s, err := Listen(url, nil)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", url, err, want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	s, err := Listen("ws://0.0.0.0:0", &ServerOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as if the server had been killed
	stale.Close()

	s, accepted := serve(t, "unix://"+path, nil)
	if s.URL() != "unix://"+path {
		t.Error(s.URL())
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeSocket|0o600 {
		t.Error(info.Mode())
	}
	client := dial(t, s.URL(), nil)
	server := <-accepted
	mustWrite(t, client, "hello")
	wantMessage(t, server, "hello")
	if client.RemoteAddr() != "unix:"+path || server.RemoteAddr() != "unix:"+path {
		t.Error(client.RemoteAddr(), server.RemoteAddr())
	}

	if _, err := Listen(s.URL(), nil); err == nil || !strings.Contains(err.Error(), "another server listens") {
		t.Error(err)
	}
	mustWrite(t, client, "still there")
	wantMessage(t, server, "still there")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the socket file is left:", err)
	}
}

func TestServerClose(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	client := dial(t, s.URL(), nil)
	server := <-accepted
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	mustWrite(t, client, "open connections go on")
	wantMessage(t, server, "open connections go on")
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "ws://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}

	unserved, err := Listen("ws://127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := unserved.Close(); err != nil {
		t.Error(err)
	}
	if err := unserved.Serve(nil); err != nil {
		t.Error(err)
	}
}

// The number of strangers is bounded; admitted connections do not count.
func TestAdmittedAreNoStrangers(t *testing.T) {
	t.Parallel()
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	const most = 20
	s.listener.visitors.hold(most)
	for range 3 {
		dial(t, s.URL(), nil)
		(<-accepted).(*webSocket).Admit()
	}
	for range 3 { // clients that gave up do not count either
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "ws://"))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		dial(t, s.URL(), nil)
		(<-accepted).Close(CloseNormal, "")
	}
	guests := s.listener.visitors.guests
	for guests() > 0 {
		runtime.Gosched()
	}
	for range most + 1 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "ws://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for guests() < most {
		runtime.Gosched()
	}
	if err := s.Close(); err != nil { // Serve must end although Accept waits for a place
		t.Error(err)
	}
}

// A relative path is relative to the directory of the server, and of the client. The server shows an
// absolute path, for clients in other directories.
func TestRelativeUnixSocket(t *testing.T) {
	for _, framed := range []bool{false, true} {
		dir := t.TempDir()
		t.Chdir(dir)
		s, accepted := serve(t, "unix://sub/../s", &ServerOptions{Framed: framed})
		scheme := "unix://"
		if framed {
			scheme = framedScheme
		}
		if want := scheme + filepath.Join(dir, "s"); s.URL() != want {
			t.Errorf("%s, want %s", s.URL(), want)
		}
		for _, url := range []string{s.URL(), scheme + "s", scheme + "./s"} {
			client := dial(t, url, nil)
			mustWrite(t, client, "hello")
			wantMessage(t, <-accepted, "hello")
		}
	}
	for _, url := range []string{"unix://", framedScheme} {
		if _, err := Dial(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "unsupported URL") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// On a unix socket app-server's clients open the websocket at /rpc. On TCP nothing is there.
func TestWebsocketAtRPC(t *testing.T) {
	unix, _ := serve(t, "unix://"+filepath.Join(t.TempDir(), "s"), nil)
	tcp, _ := serve(t, "ws://127.0.0.1:0", nil)
	for _, c := range []struct {
		server *Server
		path   string
		want   int
	}{
		{unix, "/", 101}, {unix, "/rpc", 101}, {unix, "/rpc?x", 101}, {unix, "/rpc/", 404}, {unix, "/other", 404},
		{tcp, "/", 101}, {tcp, "/rpc", 404},
	} {
		dialer := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) {
			at := c.server.listener.Addr()
			return net.Dial(at.Network(), at.String())
		}}
		ws, response, err := dialer.Dial("ws://localhost"+c.path, nil)
		if response == nil || response.StatusCode != c.want {
			t.Errorf("%s %s: %v, want %d", c.server.URL(), c.path, err, c.want)
		}
		if ws != nil {
			ws.Close()
		}
	}
}

// A server whose socket file was removed leaves the file of the next server at that path alone.
func TestUnixSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen("unix://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen("unix://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first server has removed the socket of the second: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: want no socket after the end", err)
	}
}
