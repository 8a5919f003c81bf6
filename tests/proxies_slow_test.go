//go:build slow

package tests

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/internal/stream"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/gorilla/websocket"
)

// A proxyKind is a program that is a proxy, and its document in docs/operations.
type proxyKind struct {
	program, document string
	serve, reload     func(f *front) []string          // arguments
	changes           func(f *front) map[string]string // texts of the document that only a test replaces
	brief             map[string]string                // likewise: the proxy cuts a connection on which the server is silent for 4 s
	unix              string                           // begins the address of a server on a unix socket
	reloadCuts        bool                             // a reload cuts the connections
}

var proxyKinds = map[string]proxyKind{
	"nginx": {
		program: "nginx", document: "nginx.conf",
		serve: func(f *front) []string { return []string{"-e", "stderr", "-p", f.dir, "-c", f.path("main")} },
		reload: func(f *front) []string {
			return []string{"-e", "stderr", "-p", f.dir, "-c", f.path("main"), "-s", "reload"}
		},
		changes: func(f *front) map[string]string {
			return map[string]string{"listen 443 ssl": fmt.Sprintf("listen 127.0.0.1:%d ssl", f.ports[0]), "listen 8443 ssl": fmt.Sprintf("listen 127.0.0.1:%d ssl", f.ports[1])}
		},
		brief: map[string]string{"proxy_read_timeout 60s;": "proxy_read_timeout 4s;"},
		unix:  "unix:",
	},
	"caddy": {
		program: "caddy", document: "Caddyfile",
		serve: func(f *front) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", f.path("document")}
		},
		reload: func(f *front) []string {
			return []string{"reload", "--adapter", "caddyfile", "--config", f.path("document")}
		},
		changes: func(f *front) map[string]string {
			return map[string]string{
				"build.example.org {": fmt.Sprintf("localhost:%d {", f.ports[0]), "build.example.org:8443 {": fmt.Sprintf("localhost:%d {", f.ports[1]),
				"unix//run/caddy/admin.sock": "unix/" + f.path("admin") + "\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1",
			}
		},
		// Without read_timeout, Caddy has no such time.
		brief:      map[string]string{" # or unix//run/troupe/socket": " {\n\t\t\ttransport http {\n\t\t\t\tread_timeout 4s\n\t\t\t}\n\t\t}\n\t\t#"},
		unix:       "unix/",
		reloadCuts: true,
	},
}

// nginxMain is the part of the configuration of nginx that Debian has in /etc/nginx/nginx.conf.
const nginxMain = `daemon off;
user daemon;
pid DIR/pid;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	include DIR/document;
}
`

// A front is a proxy in front of a server.
type front struct {
	t     *testing.T // of the present subtest
	kind  proxyKind
	dir   string
	ca    *testca.CA
	text  string // of the configuration
	ports [2]int // for tokens, and for certificates
	log   *tap
	cmd   *exec.Cmd
	over  chan struct{} // closed at the end of cmd
}

const proxyToken = "alice-has-a-long-token"

// startFront starts a proxy with its document. more are further changes of the document.
func startFront(t *testing.T, kind proxyKind, ca *testca.CA, server string, more map[string]string) *front {
	t.Helper()
	f := &front{t: t, kind: kind, dir: openDir(t), ca: ca, ports: [2]int{quietPort(t), quietPort(t)}, log: &tap{}}
	document, err := os.ReadFile(filepath.Join("../docs/operations", kind.document))
	if err != nil {
		t.Fatal(err)
	}
	f.text = string(document)
	cert, key := ca.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "proxy"}, DNSNames: []string{"localhost"}})
	for name, text := range map[string]string{"cert": cert, "key": key, "clients": ca.PEM, "main": strings.ReplaceAll(nginxMain, "DIR", f.dir)} {
		f.write(name, text)
	}
	f.change(more)
	f.change(kind.changes(f))
	f.change(map[string]string{
		"127.0.0.1:7766": server, "/etc/troupe/cert.pem": f.path("cert"), "/etc/troupe/key.pem": f.path("key"), "/etc/troupe/clients.pem": f.path("clients"), "TOKEN-OF-ALICE": proxyToken,
	})
	f.start()
	t.Cleanup(func() {
		f.t = t
		f.stop(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the log of %s:\n%s", kind.program, f.log)
		}
	})
	return f
}

func (f *front) path(name string) string { return filepath.Join(f.dir, name) }

func (f *front) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// change replaces texts of the configuration. Each of them must be there.
func (f *front) change(texts map[string]string) {
	f.t.Helper()
	for old, new := range texts {
		if !strings.Contains(f.text, old) {
			f.t.Fatalf("%s lacks %q:\n%s", f.kind.document, old, f.text)
		}
		f.text = strings.ReplaceAll(f.text, old, new)
	}
	f.write("document", f.text)
}

// quietPort returns a free port that the kernel gives to nobody who asks for any port.
func quietPort(t *testing.T) int {
	for range 1000 {
		port := 20000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (f *front) command(args []string) *exec.Cmd {
	cmd := exec.Command(f.kind.program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir} // Caddy writes below HOME
	return cmd
}

// start starts the proxy, and waits until it listens.
func (f *front) start() {
	f.t.Helper()
	f.cmd, f.over = f.command(f.kind.serve(f)), make(chan struct{})
	f.cmd.Stdout, f.cmd.Stderr = f.log, f.log
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // of SIGKILL the workers of nginx would not hear
	started := make(chan error)
	go func(cmd *exec.Cmd, over chan struct{}) {
		runtime.LockOSThread() // Pdeathsig comes at the end of the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(over)
	}(f.cmd, f.over)
	if err := <-started; err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, f.kind.program+" listens", func() bool {
		select {
		case <-f.over:
			f.t.Fatalf("%s has ended:\n%s\n%s", f.kind.program, f.log, f.text)
		default:
		}
		return f.listens(0) && f.listens(1)
	})
}

func (f *front) listens(which int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.ports[which]))
	if err == nil {
		c.Close()
	}
	return err == nil
}

// stop ends all processes of the proxy.
func (f *front) stop(sig syscall.Signal) {
	f.t.Helper()
	syscall.Kill(-f.cmd.Process.Pid, sig)
	<-f.over
	eventually(f.t, f.kind.program+" has ended", func() bool { return !f.listens(0) && !f.listens(1) })
}

// reload gives the running proxy a new configuration, with another answer at paths without a server.
func (f *front) reload() {
	f.t.Helper()
	was, is := "404", "410" // what the proxy answers at other paths
	if f.status(0, "/readyz", nil) == http.StatusGone {
		was, is = is, was
	}
	f.change(map[string]string{was: is})
	if out, err := f.command(f.kind.reload(f)).CombinedOutput(); err != nil {
		f.t.Fatalf("reload: %v: %s", err, out)
	}
	eventually(f.t, "the configuration is new", func() bool { return strconv.Itoa(f.status(0, "/readyz", nil)) == is })
}

// tls returns the configuration of a client with a certificate of a CA for a common name. "": the client has none.
func (f *front) tls(ca *testca.CA, name string) *tls.Config {
	var template *x509.Certificate
	if name != "" {
		template = &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	}
	config := ca.Client(f.t, template)
	config.RootCAs, config.ServerName = f.ca.Roots, "localhost"
	return config
}

// status gets a path without a websocket.
func (f *front) status(which int, path string, config *tls.Config) int {
	f.t.Helper()
	if config == nil {
		config = f.tls(f.ca, "")
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := web.Get(fmt.Sprintf("https://localhost:%d%s", f.ports[which], path))
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// A guest is a client behind a proxy.
type guest struct {
	*client.Client
	cuts, resumed atomic.Int32
}

// dial connects to an address of the proxy. options may be nil.
func (f *front) dial(which int, token string, config *tls.Config, options *client.Options) (*guest, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), factTimeout)
	defer cancel()
	if options == nil {
		options = &client.Options{}
	}
	if config == nil {
		config = f.tls(f.ca, "")
	}
	g := &guest{}
	options.TLS, options.Proxy, options.Token = config, client.NoProxy, func() (string, error) { return token, nil }
	options.Lost, options.Resumed = func(error) { g.cuts.Add(1) }, func() { g.resumed.Add(1) }
	c, err := client.Dial(ctx, fmt.Sprintf("wss://localhost:%d", f.ports[which]), options)
	if err != nil {
		return nil, err
	}
	g.Client = c
	f.t.Cleanup(func() { c.CloseSession(context.Background()) })
	return g, nil
}

// alice connects with her token.
func (f *front) alice(options *client.Options) *guest {
	f.t.Helper()
	g, err := f.dial(0, proxyToken, nil, options)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// streams gets 8 MiB of a program. After 2 MiB the client takes no more until during has returned. During may be nil.
func (f *front) streams(g *guest, during func()) {
	f.t.Helper()
	const size, at = 8 << 20, 2 << 20
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	check := stream.NewChecker(1)
	cmd := g.Command(exe, "source", strconv.Itoa(size))
	cmd.Env = []string{programVar + "=1", raceVar + "=" + raceOptions}
	middle, on := make(chan struct{}), make(chan struct{})
	reached := false
	cmd.Stdout = checked(func(p []byte) (int, error) {
		if !reached && check.Bytes() >= at {
			reached = true
			close(middle)
			<-on
		}
		return check.Write(p)
	})
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*factTimeout)
	defer cancel()
	if err := cmd.Start(ctx); err != nil {
		f.t.Fatal(err)
	}
	select {
	case <-middle:
	case <-ctx.Done():
		f.t.Fatalf("%d bytes came", check.Bytes())
	}
	func() {
		defer close(on)
		if during != nil {
			during()
		}
	}()
	if err := cmd.Wait(ctx); err != nil {
		f.t.Fatalf("after %d bytes: %v", check.Bytes(), err)
	}
	if err := check.End(); err != nil || check.Bytes() != size {
		f.t.Fatalf("%d of %d bytes: %v", check.Bytes(), size, err)
	}
}

type checked func(p []byte) (int, error)

func (f checked) Write(p []byte) (int, error) { return f(p) }

// TestProxies: real proxies stand in front of a server, with the configurations of docs/operations.
func TestProxies(t *testing.T) {
	for name, kind := range proxyKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs.Program(t, kind.program)
			behindProxy(t, kind)
		})
	}
}

// behindProxy tests a proxy. Its subtests run one after the other, because some of them end the proxy or the server.
func behindProxy(t *testing.T, kind proxyKind) {
	dir, ca := t.TempDir(), testca.New(t)
	tokens, record := filepath.Join(dir, "tokens"), filepath.Join(dir, "record")
	if err := os.WriteFile(tokens, []byte("alice "+proxyToken+"\nbob bob-has-a-long-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startHolder(t, nil, "--auth-token-file", tokens, "--audit", record)
	address := strings.TrimPrefix(s.url, "ws://")
	run := func(name string, f *front, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			f.t = t
			do(t)
		})
	}

	f := startFront(t, kind, ca, address, nil)
	run("stream", f, func(t *testing.T) {
		g := f.alice(nil)
		f.streams(g, nil)
		if n := g.cuts.Load(); n != 0 {
			t.Errorf("%d cuts", n)
		}
	})
	run("terminal", f, func(t *testing.T) {
		cmd := f.alice(nil).Command("sh", "-c", "stty -echo; echo ready; exec cat")
		cmd.TTY = true
		keys, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		screen := &tap{}
		cmd.Stdout = screen
		if err := cmd.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		shows := func(text string) {
			t.Helper()
			if !screen.await(factTimeout, func() bool { return bytes.Contains(screen.data, []byte(text)) }) {
				t.Fatalf("%q does not come: %q", text, screen)
			}
		}
		shows("ready\r\n")
		for i := range 20 {
			line := fmt.Sprintf("line %d", i)
			io.WriteString(keys, line+"\n")
			shows(line + "\r\n")
		}
	})
	run("large messages", f, func(t *testing.T) {
		g := f.alice(nil)
		data := make([]byte, 20<<20)
		rand.NewChaCha8([32]byte{7}).Read(data)
		path := protocol.FileURI(filepath.Join(t.TempDir(), "large"))
		if err := g.Call(t.Context(), protocol.MethodFsWriteFile, protocol.FsWriteFileParams{Path: path, Data: data}, nil); err != nil {
			t.Fatal(err)
		}
		var back protocol.FsReadFileResult
		if err := g.Call(t.Context(), protocol.MethodFsReadFile, protocol.FsReadFileParams{Path: path}, &back); err != nil || !bytes.Equal(back.Data, data) {
			t.Errorf("%d bytes came back: %v", len(back.Data), err)
		}
		if n := g.cuts.Load(); n != 0 {
			t.Errorf("%d cuts", n)
		}
	})
	for _, c := range []struct {
		name string
		do   func()
		cuts bool
	}{
		{"the proxy is killed", func() { f.stop(syscall.SIGKILL); f.start() }, true},
		{"the proxy is stopped", func() { f.stop(syscall.SIGTERM); f.start() }, true},
		{"the proxy reloads", f.reload, kind.reloadCuts},
		{"the server is killed", s.kill, true},
	} {
		run(c.name, f, func(t *testing.T) {
			g := f.alice(nil)
			f.streams(g, func() {
				c.do()
				if c.cuts {
					eventually(t, "the client comes back", func() bool { return g.resumed.Load() > 0 })
				}
			})
			if n := g.cuts.Load(); n > 0 != c.cuts {
				t.Errorf("%d cuts", n)
			}
		})
	}

	run("a token", f, func(t *testing.T) {
		for _, token := range []string{"", "wrong"} {
			if _, err := f.dial(0, token, nil, nil); !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "401") {
				t.Errorf("the token %q: %v", token, err)
			}
		}
		f.serves(0, proxyToken, nil, "alice")
		f.serves(0, "bob-has-a-long-token", nil, "bob")
	})
	run("a certificate", f, func(t *testing.T) {
		f.serves(1, "", f.tls(ca, "alice"), "alice")
		f.serves(1, "bob-has-a-long-token", f.tls(ca, "alice"), "alice") // the proxy replaces the token
		if _, err := f.dial(1, proxyToken, f.tls(ca, "mallory"), nil); !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "401") {
			t.Errorf("a subject without a line: %v", err)
		}
		for what, config := range map[string]*tls.Config{"no certificate": f.tls(ca, ""), "a certificate of others": f.tls(testca.New(t), "alice")} {
			if _, err := f.dial(1, proxyToken, config, nil); err == nil {
				t.Errorf("%s is enough", what)
			}
		}
	})
	run("paths", f, func(t *testing.T) {
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/rpc"} {
			for which, config := range []*tls.Config{nil, f.tls(ca, "alice")} {
				if got := f.status(which, path, config); got != http.StatusNotFound && got != http.StatusGone {
					t.Errorf("address %d, %s: %d", which, path, got)
				}
			}
		}
		if got, _, _ := httpGet(t, "http://"+address+"/readyz"); got != http.StatusOK {
			t.Errorf("the server itself says %d", got)
		}
	})
	run("the record", f, func(t *testing.T) {
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"event":"connection.refused"`, `"event":"session.opened"`, `"identity":"alice"`, `"identity":"bob"`, `"remote":"127.0.0.1:`} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("the record lacks %s:\n%s", want, text)
			}
		}
	})
	run("a unix socket", f, func(t *testing.T) {
		socket := filepath.Join(openDir(t), "socket")
		s := startHolder(t, nil, "--listen", "unix://"+socket, "--auth-token-file", tokens)
		if err := os.Chmod(socket, 0o666); err != nil {
			t.Fatal(err)
		}
		f := startFront(t, kind, ca, kind.unix+socket, nil)
		f.serves(1, "", f.tls(ca, "alice"), "alice")
		s.kill() // the next server has the same socket, with its mode
		f.serves(1, "", f.tls(ca, "alice"), "alice")
	})
}

// TestIdleBehindProxies: the pings of the server keep an idle connection through a proxy with the configuration of docs/operations. If the proxy waits for a shorter
// time, the pings of the client do.
func TestIdleBehindProxies(t *testing.T) {
	for name, kind := range proxyKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs.Program(t, kind.program)
			ca, tokens := testca.New(t), testca.File(t, "tokens", "alice "+proxyToken+"\n")
			address := strings.TrimPrefix(startServer(t, "--auth-token-file", tokens).url, "ws://")

			f := startFront(t, kind, ca, address, nil)
			for _, m := range regexp.MustCompile(`timeout (\d+)s`).FindAllStringSubmatch(f.text, -1) {
				if s, _ := strconv.Atoi(m[1]); time.Duration(s)*time.Second < 2*protocol.PingEvery {
					t.Errorf("%s, and the server pings every %v", m[0], protocol.PingEvery)
				}
			}
			ws, status, text := dialAs(t, fmt.Sprintf("wss://localhost:%d", f.ports[0]), "Bearer "+proxyToken, f.tls(ca, ""))
			if ws == nil {
				t.Fatalf("%d %s", status, text)
			}
			ws.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"method":"initialize","params":{"clientName":"idle"}}`))
			ws.WriteMessage(websocket.TextMessage, []byte(`{"method":"initialized","params":{}}`))

			brief := startFront(t, kind, ca, address, kind.brief)
			pinging, silent := brief.alice(&client.Options{PingEvery: 200 * time.Millisecond}), brief.alice(&client.Options{PingEvery: -1})
			eventually(t, "the proxy cuts a connection without pings", func() bool { return silent.cuts.Load() > 0 })
			if n := pinging.cuts.Load(); n != 0 {
				t.Errorf("%d cuts of a connection with pings", n)
			}

			pinged := false
			ws.SetPingHandler(func(string) error { pinged = true; return ws.SetReadDeadline(time.Now()) })
			ws.SetReadDeadline(time.Now().Add(factTimeout))
			var err error
			for err == nil && !pinged {
				_, _, err = ws.ReadMessage()
			}
			if !pinged {
				t.Errorf("no Ping of the server comes: %v", err)
			}
		})
	}
}

// serves connects, and checks the identity of the session.
func (f *front) serves(which int, token string, config *tls.Config, identity string) {
	f.t.Helper()
	g, err := f.dial(which, token, config, nil)
	if err != nil {
		f.t.Errorf("%s: %v", identity, err)
		return
	}
	sessions, err := g.Sessions(f.t.Context(), "")
	for _, s := range sessions {
		if s.SessionID == g.SessionID() {
			if s.Identity != identity {
				f.t.Errorf("the session is of %q, want %q", s.Identity, identity)
			}
			return
		}
	}
	f.t.Errorf("%v in %+v", err, sessions)
}

// TestConsoleBehindProxies: the console works behind each proxy as its document says, and the cookie is for TLS only.
func TestConsoleBehindProxies(t *testing.T) {
	for name, kind := range proxyKinds {
		t.Run(name, func(t *testing.T) {
			needs.Program(t, kind.program)
			t.Parallel()
			ca, server := testca.New(t), fmt.Sprintf("127.0.0.1:%d", quietPort(t))
			f := startFront(t, kind, ca, server, nil)
			tokens := testca.File(t, "tokens", "alice "+proxyToken+"\n")
			b := newTab(t, fmt.Sprintf("https://localhost:%d", f.ports[0]))
			startServer(t, "--listen", "ws://"+server, "--auth-token-file", tokens, "--console", "--allow-origin", b.url)
			b.config = f.tls(ca, "")
			if resp, page := b.do("GET", "/console/", "", nil); resp.StatusCode != 200 || !strings.Contains(page, "<!doctype html>") || resp.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("the page: %s %v %.300s", resp.Status, resp.Header, page)
			}
			if status := b.socket(); status != 401 {
				t.Errorf("a websocket before the login: %d", status)
			}
			if status := b.login(proxyToken); status != 204 || b.socket() != 101 {
				t.Errorf("the login: %d", status)
			}
			for name := range b.cookies {
				if !strings.HasPrefix(name, "__Host-troupe-") {
					t.Errorf("the cookie is %s", name)
				}
			}
			b.origin = "https://evil.example"
			if status := b.socket(); status != 403 {
				t.Errorf("a page of somebody else: %d", status)
			}
		})
	}
}
