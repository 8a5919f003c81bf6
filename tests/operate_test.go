package tests

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// operated is a server with a holder and an admin socket.
type operated struct {
	*held
	socket string
}

// startOperated starts a server with a session of its own, so that no terminal takes SIGHUP away.
func startOperated(t *testing.T, args ...string) *operated {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "admin.sock")
	h := startHolder(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }, append([]string{"--admin", "unix://" + socket}, args...)...)
	return &operated{h, socket}
}

// admin runs troupe admin, and returns all that it prints, and its exit code.
func (o *operated) admin(args ...string) (text string, code int) {
	o.t.Helper()
	cmd := exec.Command(o.cmd.Path, append([]string{"admin", "--admin", "unix://" + o.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		o.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// adminSays runs troupe admin, and checks a part of what it prints, and its exit code.
func (o *operated) adminSays(code int, want string, args ...string) string {
	o.t.Helper()
	text, got := o.admin(args...)
	if got != code || !strings.Contains(text, want) {
		o.t.Fatalf("troupe admin %q: exit code %d, want %d and %q:\n%s", args, got, code, want, text)
	}
	return text
}

// value returns the value of a series, by the beginning of its line; -1: there is none.
func value(text, series string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return v
			}
		}
	}
	return -1
}

// httpGet gets a URL over a connection of its own.
func httpGet(t *testing.T, url string) (status int, contentType, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(body)
}

// scrape gets the metrics of an address, as Prometheus does.
func scrape(t *testing.T, url string) string {
	t.Helper()
	status, contentType, text := httpGet(t, url)
	if status != http.StatusOK || !strings.HasPrefix(contentType, "text/plain; version=0.0.4") {
		t.Fatalf("%s: %d %q\n%s", url, status, contentType, text)
	}
	return text
}

// TestDrainOfOperator: a drained server opens no session and is not ready. Its clients are told when they end, also those who come back, and also after a death of
// the server. Taken back, it goes on. It ends with exit code 0 when no session is left.
func TestDrainOfOperator(t *testing.T) {
	t.Parallel()
	o := startOperated(t)
	c := o.session(nil)
	c.start("p", obj{"argv": sh("sleep 1000")})
	expiring := func(c *conn) {
		t.Helper()
		if reason, in := c.notice("session/expiring"); reason != "the server is being drained, and ends" || in < 3500_000 || in > 3600_000 {
			t.Errorf("the client is told: %q in %d ms", reason, in)
		}
	}
	o.adminSays(0, "draining: 1 session, until ", "drain", "--for", "1h")
	c.awaitFact("a warning", func() bool { return len(c.other) > 0 })
	expiring(c)
	refused := func() {
		t.Helper()
		if code, text := o.dial().callError("initialize", obj{"clientName": "late"}); code != -32600 || !strings.Contains(text, "being drained") {
			t.Errorf("a new session: %d %s", code, text)
		}
		o.adminSays(1, "drained until", "ready")
		if status, _, _ := httpGet(t, "http"+strings.TrimPrefix(o.url, "ws")+"/readyz"); status != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d", status)
		}
	}
	refused()
	o.kill()
	<-c.done
	c = o.session(obj{"resumeSessionId": c.sessionID})
	c.awaitFact("a warning", func() bool { return len(c.other) > 0 })
	expiring(c)
	refused()
	look := exec.Command(o.cmd.Path, "ps", "--url", o.url) // commands that start nothing work
	look.Env = o.cmd.Env
	if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), "sleep 1000") {
		t.Errorf("troupe ps: %v: %s", err, out)
	}
	o.adminSays(0, "not draining", "drain", "--cancel")
	o.adminSays(0, "ready", "ready")
	o.session(nil).call("session/close", nil)
	o.adminSays(0, "draining: ", "drain", "--for", "1h")
	c.call("session/close", nil)
	if code := o.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(o.socket); err == nil {
		t.Error("the admin socket is left")
	}
}

// TestDrainEnds: at the end of its time a drain ends the sessions, with their programs.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	o := startOperated(t)
	token := newToken(t)
	c := o.session(nil)
	p := c.start("p", obj{"argv": []string{"sleep", token}})
	run := exec.Command(o.cmd.Path, "run", "--url", o.url, "--", "sleep", "1000")
	said := &tap{}
	run.Env, run.Stderr = o.cmd.Env, said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program of troupe run", func() bool { text, _ := o.admin("metrics"); return value(text, "troupe_children") == 2 })
	o.adminSays(0, "draining: 2 sessions", "drain", "--for", "1h")
	o.adminSays(0, "the server has ended", "drain", "--for", "0s", "--wait")
	if run.Wait(); run.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("troupe run: %v: %s", run.ProcessState, said)
	}
	if exited := p.awaitExit(); exited["reason"] != "the server is being drained, and ends" {
		t.Errorf("the program has ended by %v", exited)
	}
	if code := o.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantNoKin(t, "after a drain", token)
}

// TestReloadByAdmin: troupe admin reload waits for the next server, with the settings of now. Of settings that are wrong it says why, and the server stays.
func TestReloadByAdmin(t *testing.T) {
	t.Parallel()
	path, write := settingsFile(t)
	write("max-processes: 1\n")
	o := startOperated(t, "--config", path)
	c := o.session(nil)
	c.start("p", obj{"argv": sh("sleep 1000")})
	serves := o.running()
	write("max-proceses: 2\n")
	o.adminSays(1, `serve.yaml:1: there is no setting "max-proceses"`, "reload")
	if now := o.running(); now != serves {
		t.Error("another server serves")
	}
	write("max-processes: 2\nlog-level: warn\n")
	o.adminSays(0, "reloaded: ", "reload")
	<-c.done
	c = o.session(obj{"resumeSessionId": c.sessionID})
	if got := limitOf(c); !strings.Contains(got, "max-processes is 2 here") {
		t.Errorf("a start is refused by %q", got)
	}
	o.adminSays(0, "warn\n", "log")
	o.adminSays(0, "warn,journal=debug\n", "log", "warn,journal=debug")
	c.call("process/terminate", obj{"processId": "p"})
	eventually(t, "an event in the log", func() bool { return strings.Contains(o.stderr.String(), `level=DEBUG msg="process exited"`) })
	line := ""
	for l := range strings.Lines(o.stderr.String()) {
		if strings.Contains(l, "process exited") {
			line = l
		}
	}
	for _, want := range []string{" session=" + c.sessionID + " ", " process=p ", " signal=SIGKILL "} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %q: %s", want, line)
		}
	}
}

// TestMetricsOfServer: Prometheus gets the metrics at an address of their own, and nothing else. They begin anew with the next server.
func TestMetricsOfServer(t *testing.T) {
	t.Parallel()
	o := startOperated(t, "--metrics-listen", "http://127.0.0.1:0")
	url := ""
	address := func(servers int) { // the last in the log
		t.Helper()
		eventually(t, "the address", func() bool {
			parts := strings.Split(o.stderr.String(), `msg="answers Prometheus" url=`)
			url, _, _ = strings.Cut(parts[len(parts)-1], "\n")
			return len(parts) == servers+1
		})
	}
	address(1)
	if _, answer, err := dialWS(t, o.url, http.Header{"Origin": {"https://example.org"}}); err == nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("a web page: %v, %v", answer, err)
	}
	c := o.session(obj{"session": obj{"name": "alice"}})
	p := c.start("p", obj{"argv": sh("cat"), "tty": true})
	p.write("x\n")
	p.awaitOutput("pty", "x\r\nx\r\n") // the terminal, and cat
	var text string
	eventually(t, "a Pong", func() bool { text = scrape(t, url); return value(text, "troupe_pong_seconds_count") > 0 })
	for series, want := range map[string]float64{
		"troupe_connections":                             1,
		`troupe_connections_refused_total{why="origin"}`: 1,
		"troupe_processes{state=\"running\"}":            1,
		"exec_server_processes_active":                   1,
		"troupe_start_seconds_count":                     1,
		"troupe_write_seconds_count":                     1,
		"troupe_stdin_bytes_total":                       2,
		"troupe_server_number":                           1,
		`troupe_requests_total{method="process/start"}`:  1,
		`troupe_process_events_total{event="started"}`:   1,
		`troupe_connections_refused_total{why="limit"}`:  0,
	} {
		if got := value(text, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if got := value(text, `troupe_output_bytes_total{stream="pty"}`); got != 6 {
		t.Errorf("%v bytes of output", got)
	}
	for _, secret := range []string{"alice", c.sessionID} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics name %s", secret)
		}
	}
	base := strings.TrimSuffix(url, "/metrics")
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/actors": 404, "/debug/pprof/heap": 404, "/info": 404} {
		if got, _, _ := httpGet(t, base+path); got != status {
			t.Errorf("%s: %d, want %d", path, got, status)
		}
	}
	syscall.Kill(o.running(), syscall.SIGKILL)
	address(2)
	text = scrape(t, url)
	if n, starts := value(text, "troupe_server_number"), value(text, "troupe_start_seconds_count"); n != 2 || starts != 0 {
		t.Errorf("server %v has counted %v starts", n, starts)
	}
	if got := value(text, "troupe_server_gap_seconds"); got <= 0 {
		t.Errorf("a gap of %v s", got)
	}
	eventually(t, "the program counts again", func() bool { return value(scrape(t, url), `troupe_processes{state="running"}`) == 1 })
}

// TestAdminFindsServer: without --admin, the socket of a server is where troupe admin looks. Other users cannot open it.
func TestAdminFindsServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	runtime := ""
	for _, v := range s.cmd.Env {
		if dir, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			runtime = dir
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(s.cmd.Path, append([]string{"admin"}, args...)...)
		cmd.Env = s.cmd.Env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	if got := run("health"); got != "healthy\n" {
		t.Errorf("health: %s", got)
	}
	if got := run("--url", s.url, "health"); got != "healthy\n" {
		t.Errorf("health of %s: %s", s.url, got)
	}
	if got := run("--url", "ws://127.0.0.1:1", "health"); !strings.Contains(got, "no admin socket that you can open belongs to ws://127.0.0.1:1. There are:\n  unix://") || !strings.Contains(got, "the server at "+s.url+", process ") {
		t.Errorf("health of another server: %s", got)
	}
	if got := run("actors"); !strings.Contains(got, "\n  registry ") {
		t.Errorf("actors: %s", got)
	}
	sockets, err := filepath.Glob(filepath.Join(runtime, "troupe", "admin-*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("%q, %v", sockets, err)
	}
	if info, err := os.Lstat(sockets[0]); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	profile := filepath.Join(t.TempDir(), "heap")
	if got := run("profile", "heap", "--output", profile); got != "" {
		t.Errorf("profile: %s", got)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	s.signal(syscall.SIGTERM)
	if code := s.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := run("health"); !strings.Contains(got, "no server of yours runs on this machine with an admin socket") {
		t.Errorf("without a server: %s", got)
	}
}

// TestLogInJSON: each line of the log is an object, also those of the holder.
func TestLogInJSON(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"flag": {"--log-format", "json"}, "file": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "file" {
				path, write := settingsFile(t)
				write("log-format: json # for the collector\n")
				args = []string{"--config", path}
			}
			s := startServer(t, args...)
			line := func(message string) (found obj) {
				t.Helper()
				eventually(t, message, func() bool {
					for l := range strings.Lines(s.stderr.String()) {
						m, err := fromJSON([]byte(l))
						if err != nil {
							t.Fatalf("%v: %s", err, l)
						}
						if text, _ := m["msg"].(string); strings.HasPrefix(text, message) {
							found = m
						}
					}
					return found != nil
				})
				return found
			}
			if m := line("ready"); m["level"] != "INFO" || m["containment"] == "" {
				t.Errorf("%v", m)
			}
			syscall.Kill(s.pid(), syscall.SIGKILL)
			if m := line("the server, process "); m["level"] != "ERROR" {
				t.Errorf("%v", m)
			}
			if m := line("serves in place of a server that died"); m["level"] != "WARN" || !strings.HasSuffix(m["gap"].(string), "s") {
				t.Errorf("%v", m)
			}
		})
	}
}
