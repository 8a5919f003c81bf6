package tests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ask sends a plain HTTP request and returns the answer and its body.
func ask(t *testing.T, s *server, method, path string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, strings.Replace(s.url, "ws", "http", 1)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// upgrade returns the header of a websocket handshake, changed by with: a name without a value is left
// out.
func upgrade(with http.Header) http.Header {
	h := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	for name, values := range with {
		if h[name] = values; len(values) == 0 {
			delete(h, name)
		}
	}
	return h
}

// TestHTTP: without a websocket the server answers only /healthz and /readyz, and nobody from an origin that the operator has not
// allowed. TestHTTP of package transport has all requests.
func TestHTTP(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--allow-origin", "https://other.example", "--allow-origin", "https://ide.example")
	for _, test := range []struct {
		path   string
		header http.Header
		status int
		body   string // contained in the answer; "": the body is empty
	}{
		{"/readyz", http.Header{"Origin": {"https://ide.example"}}, 200, ""},
		{"/healthz", nil, 200, ""},
		{"/metrics", nil, 404, "/readyz"},
		{"/", nil, 400, "websocket"},
		{"/", upgrade(http.Header{"Origin": {"http://127.0.0.1"}}), 403, "--allow-origin"},
		{"/", upgrade(http.Header{"Origin": {"https://ide.example"}}), 101, ""},
	} {
		resp, body := ask(t, s, "GET", test.path, test.header)
		if resp.StatusCode != test.status || !strings.Contains(body, test.body) || test.body == "" && body != "" {
			t.Errorf("%s %v: %s %q, want %d and a body with %q", test.path, test.header, resp.Status, body, test.status, test.body)
		}
	}
}

// TestStrayDescriptors: files left open by the starter of the server do not reach the server's
// children. A child would keep such files open for its whole life.
func TestStrayDescriptors(t *testing.T) {
	t.Parallel()
	stray, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stray.Close() })
	_, _, c := startStdio(t, stray)
	c.call("initialize", obj{"clientName": "stray"})
	c.notify("initialized", obj{})
	for id, tty := range map[string]bool{"pipes": false, "tty": true} {
		p := c.start(id, obj{"argv": sh("ls -l /proc/self/fd"), "tty": tty})
		p.awaitClosed()
		if list := p.outputSoFar("stdout") + p.outputSoFar("pty"); strings.Contains(list, "/dev/zero") || strings.Count(list, " -> ") != 4 {
			t.Errorf("a child has these files open, want 0, 1, 2 and that of the list itself:\n%s", list)
		}
	}
}

// TestListenRefused: a server that cannot listen says why and ends. TestListenRefuses of package transport has all reasons.
func TestListenRefused(t *testing.T) {
	t.Parallel()
	for listen, says := range map[string]string{"ws://localhost:0": "ws://IP:PORT", "ws://0.0.0.0:0": "--insecure", "wss://127.0.0.1:0": "--tls-cert"} {
		p := startTroupe(t, nil, "serve", "--listen", listen)
		code := p.exitCode()
		if text := p.stderr.String(); code <= 0 || !strings.Contains(text, says) || !strings.Contains(text, listen) || strings.Contains(text, "goroutine ") {
			t.Errorf("--listen %s: exit code %d, stderr %q: want a clear error that says %q and the value", listen, code, text, says)
		}
		if p.stdout.String() != "" {
			t.Errorf("--listen %s: stdout %q", listen, p.stdout)
		}
	}
}

// TestReadyWhileDraining: during a drain /readyz says so, and a client after a cut may come back for
// the end of its output.
func TestReadyWhileDraining(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--listen", "ws://127.0.0.1:0", "--kill-grace", "1h")
	c := s.session(nil)
	end := filepath.Join(t.TempDir(), "end")
	p := c.start("p", obj{"argv": append(sh(`trap 'echo bye' TERM; echo up; while [ ! -e $0 ]; do sleep 0.01; done; exit 3`), end)})
	p.awaitOutput("stdout", "up")
	s.signal(syscall.SIGTERM)
	eventually(t, "503 from readyz", func() bool {
		resp, _ := ask(t, s, "GET", "/readyz", nil)
		return resp.StatusCode == 503
	})
	if resp, _ := ask(t, s, "GET", "/healthz", nil); resp.StatusCode != 200 {
		t.Errorf("healthz: %s, want 200", resp.Status)
	}
	eventually(t, "a new session to be refused", func() bool { // the registry may not know of the drain yet
		c := s.dial()
		defer c.hangUp()
		refused := errorOf(c.reply(c.request("initialize", obj{"clientName": "tests"})))
		return num(refused["code"]) == -32600 && strings.Contains(fmt.Sprint(refused["message"]), "shutting down")
	})
	p.awaitOutput("stdout", "bye")
	c.cutRST()
	c = s.session(obj{"resumeSessionId": c.sessionID, "takeover": true, "resumeFrom": obj{"p": 0}})
	p = c.process("p")
	p.awaitOutput("stdout", "bye")
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _ := p.awaitClosed(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if code := s.exitCode(); code != 0 {
		t.Errorf("the server: exit code %d, want 0", code)
	}
}

func TestListenInsecure(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--listen", "ws://0.0.0.0:0", "--insecure")
	s.url = strings.Replace(s.url, "0.0.0.0", "127.0.0.1", 1)
	s.session(nil)
}

// startStdio runs a server on pipes, with files left open in the server. startStdio returns the
// program, the write end of its stdin, and the connection.
func startStdio(t *testing.T, stray ...*os.File) (*program, *os.File, *conn) {
	t.Helper()
	return startStdioFraming(t, nil, func(r io.Reader, w io.Writer) *conn { return dialLines(t, r, w) }, stray...)
}

func startStdioFraming(t *testing.T, flags []string, dial func(io.Reader, io.Writer) *conn, stray ...*os.File) (*program, *os.File, *conn) {
	t.Helper()
	var ends [4]*os.File
	for i := range 2 {
		var err error
		if ends[2*i], ends[2*i+1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	stdin, toServer, fromServer, stdout := ends[0], ends[1], ends[2], ends[3]
	p := startTroupe(t, func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = stdin, stdout, stray
	}, append([]string{"serve", "--listen", "stdio"}, flags...)...)
	stdin.Close()
	stdout.Close()
	c := dial(fromServer, toServer)
	t.Cleanup(func() {
		toServer.Close()
		<-c.done
		fromServer.Close()
	})
	return p, toServer, c
}

func TestStdio(t *testing.T) {
	t.Parallel()
	p, toServer, c := startStdio(t)
	testStdio(t, p, toServer, c, func() {
		c.sendRaw(0, []byte(" \t"))
		c.sendRaw(0, nil)
	})
}

// testStdio runs a session over stdio. ignored sends input that the server skips.
func testStdio(t *testing.T, p *program, toServer *os.File, c *conn, ignored func()) {
	c.call("initialize", obj{"clientName": "stdio"}) // the answer is the first message: there is no banner
	ignored()
	c.notify("initialized", obj{})
	c.sendRaw(0, []byte("{not json"))
	if e := errorOf(c.reply(-1)); num(e["code"]) != -32600 {
		t.Errorf("a malformed message: %v, want -32600", e)
	}
	if code, out := c.start("p", obj{"argv": sh("echo over stdio; exit 9")}).awaitClosed(); code != 9 || out != "over stdio\n" {
		t.Errorf("exit code %d, stdout %q", code, out)
	}

	// The end of stdin ends the session and the server.
	child := c.start("sleeper", obj{"argv": sh("trap '' TERM; sleep 600 & echo $!; wait")})
	var grandchild int
	fmt.Sscan(child.awaitOutput("stdout", "\n"), &grandchild)
	leader := child.pid()
	toServer.Close()
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after the end of stdin, want 0", code)
	}
	if alive(leader) || alive(grandchild) {
		t.Errorf("after the end of the server: leader alive %v, its child alive %v", alive(leader), alive(grandchild))
	}
}

func TestStdioViolation(t *testing.T) {
	t.Parallel()
	p, _, c := startStdio(t)
	c.notify("initialized", obj{})
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after a protocol violation, want 0", code)
	}
}

// TestStdioEnds: requests sent before the end of the input are answered, even if they had to wait, or
// had no newline.
func TestStdioEnds(t *testing.T) {
	t.Parallel()
	p, toServer, c := startStdio(t)
	lines := []string{
		`{"id":1,"method":"initialize","params":{"clientName":"stdio"}}`,
		`{"method":"initialized"}`,
		`{"id":2,"method":"process/start","params":` + jsonText(startParams("p", obj{"argv": sh("echo hello; exit 3")})) + `}`,
	}
	last := 3
	for ; last < 50; last++ {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"method":"process/list"}`, last))
	}
	lines = append(lines, fmt.Sprintf(`{"id":%d,"method":"process/wait","params":{"processId":"p"}}`, last))
	if _, err := toServer.WriteString(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	toServer.Close()
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after the end of stdin, want 0", code)
	}
	<-c.done
	for id := 1; id <= last; id++ {
		if answer := c.takeReply(id); answer["result"] == nil {
			t.Errorf("request %d: %s, want a result", id, jsonText(answer))
		}
	}
}
