package tests

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// settingsFile returns a function that writes the file with settings of a server, and its path.
func settingsFile(t *testing.T) (path string, write func(text string)) {
	path = filepath.Join(t.TempDir(), "serve.yaml")
	return path, func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// limitOf returns how many programs a session may have, as the refusal of one more says; "": none is refused.
func limitOf(c *conn) string {
	c.t.Helper()
	for i := range 3 {
		answer := c.reply(c.request("process/start", startParams(fmt.Sprint("p", i), obj{"argv": sh("sleep 1000")})))
		if refused, ok := answer["error"].(obj); ok {
			return fmt.Sprint(refused["message"])
		}
	}
	return ""
}

// TestSettingsAreReadAgain: SIGHUP to the holder reads the settings again, and programs go on. Settings that are wrong are refused with their line, and
// those from before stay in force.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	path, write := settingsFile(t)
	write("max-processes: 1\n")
	h := startHolder(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}                                    // with a terminal, SIGHUP would be the end of the terminal
		cmd.Env = append(cmd.Env, "TROUPE_SERVE_MAX_SESSIONS=7", "TROUPE_SERVE_MAX_PROCESSES=") // an empty variable sets nothing
	}, "--config", path)
	c := h.session(nil)
	pid := c.start("p", obj{"argv": sh("sleep 1000")}).pid()
	if got := limitOf(c); !strings.Contains(got, "max-processes is 1 here") {
		t.Errorf("a start is refused by %q", got)
	}
	write("max-processes: 2\n")
	h.signal(syscall.SIGHUP)
	eventually(t, "the next server", func() bool { return strings.Contains(h.stderr.String(), "serves after an upgrade") })
	<-c.done
	c = h.session(obj{"resumeSessionId": c.sessionID})
	runs := func() {
		t.Helper()
		if got := c.call("process/info", obj{"processId": "p"}); num(got["pid"]) != int64(pid) {
			t.Errorf("the program %d is %v now", pid, got)
		}
	}
	runs()
	if got := limitOf(c); !strings.Contains(got, "max-processes is 2 here") {
		t.Errorf("a start is refused by %q", got)
	}
	serves := h.running()
	for text, want := range map[string]string{ // the address is that of a flag here
		"max-proceses: 3\n":                                      `serve.yaml:1: there is no setting "max-proceses": did you mean max-processes?`,
		"# x\nmax-processes: many\n":                             `serve.yaml:2: max-processes: "many": write a whole number`,
		"max-processes: 0\n":                                     "--max-sessions 7, --max-processes 0: at least 1 is needed",
		"audit: /does/not/exist\n":                               "serve.yaml:1: --audit /does/not/exist: no such file",
		"default-limits: {nofile: 9}\nmax-limits: {nofile: 8}\n": "default limits: ",
		"auth-token-file: /does/not/exist\n":                     "--auth-token-file: failed to read websocket auth secret /does/not/exist: no such file",
	} {
		write(text)
		h.signal(syscall.SIGHUP)
		eventually(t, "the fault of "+text, func() bool { return strings.Contains(h.stderr.String(), want) })
		if now := h.running(); now != serves {
			t.Errorf("with %q another server serves", text)
		}
	}
	runs()
}

// TestSettingsOfKilledServer: after its death a server goes on with the settings of the last one, whatever was written to their file since. So it does after a
// reload whose server could not serve. SIGHUP reads the file.
func TestSettingsOfKilledServer(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path, write := settingsFile(t)
	address := filepath.Join(t.TempDir(), "s")
	good := "listen: unix://" + address + "\nmax-processes: 1\n"
	write(good)
	s := &server{program: startTroupe(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }, "serve", "--config", path)}
	s.url = s.firstLine()
	h := &held{s, 0}
	t.Cleanup(func() { s.stop() })
	eventually(t, "the first server", func() bool { return strings.Contains(h.stderr.String(), "msg=ready") })
	c := h.session(nil)
	pid := c.start("p", obj{"argv": sh("sleep 1000")}).pid()
	back := func(text, want string) {
		t.Helper()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID})
		if got := limitOf(c); !strings.Contains(got, want) {
			t.Errorf("with %q a start is refused by %q", text, got)
		}
		if got := c.call("process/info", obj{"processId": "p"}); num(got["pid"]) != int64(pid) {
			t.Errorf("the program %d is %v now", pid, got)
		}
	}
	for _, text := range []string{"max-proceses: 7\n", strings.Replace(good, "processes: 1", "processes: 9", 1), "listen: [\n"} {
		write(text)
		h.kill()
		back(text, "max-processes is 1 here")
		eventually(t, "a warning", func() bool {
			return strings.Count(h.stderr.String(), "the file with the settings has changed") == h.kills
		})
	}
	text := "listen: ws://" + taken.Addr().String() + "\nmax-processes: 9\n"
	write(text)
	h.signal(syscall.SIGHUP)
	eventually(t, "the end of the reload", func() bool { return strings.Contains(h.stderr.String(), "the last binary comes back") })
	back(text, "max-processes is 1 here")
	write(strings.Replace(good, "processes: 1", "processes: 2", 1))
	h.signal(syscall.SIGHUP)
	back("the next settings", "max-processes is 2 here")
}

// TestSettingsWithoutHolder: a server without a holder reads its settings again, too. What it cannot change waits for the next start, and the log says so.
func TestSettingsWithoutHolder(t *testing.T) {
	t.Parallel()
	path, write := settingsFile(t)
	write("max-sessions: 5\n")
	s := startServer(t, "--no-holder", "--config", path)
	says := func(text, want string) {
		t.Helper()
		write(text)
		s.signal(syscall.SIGHUP)
		eventually(t, "the answer to "+text, func() bool { return strings.Contains(s.stderr.String(), want) })
	}
	says("max-sessions: 5\nverbose: true\n", `msg="has read the settings again"`)
	s.session(nil).close()
	eventually(t, "lines of a connection", func() bool { return strings.Contains(s.stderr.String(), "level=DEBUG") })
	says("max-sessions: 6\nretention: 100000\n", `settings="[max-sessions retention]"`)
	says("max-sessions: no\n", `msg="the settings are wrong, and those from before stay in force"`)
}

// TestSettingsAreChecked: --check-config says everything that is wrong with the settings, and starts nothing. --show-config tells where the settings come from.
func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	path, write := settingsFile(t)
	serve := func(more ...string) (code int, out, errs string) {
		p := startTroupe(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TROUPE_SERVE_RETENTION=70000") }, append([]string{"serve", "--config", path}, more...)...)
		code = p.exitCode()
		return code, p.stdout.String(), p.stderr.String()
	}
	write("max-sessions: 5\nlisten: unix:///tmp/nowhere\n")
	if code, out, errs := serve("--check-config"); code != 0 || out != "" || errs != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if code, out, errs := serve("--show-config", "--kill-grace", "3s"); code != 0 || errs != "" ||
		!strings.Contains(out, "max-sessions: 5 ") || !strings.Contains(out, path+":1\n") || !strings.Contains(out, "# TROUPE_SERVE_RETENTION\n") || !strings.Contains(out, "# --kill-grace\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	for text, want := range map[string]string{
		"max-sessions: 5\nverbos: true\nno-holder: true\n": path + `:2: there is no setting "verbos": did you mean verbose?` + "\n" +
			path + ":3: no-holder cannot be set in a file: the holder starts before the file is read: write --no-holder, or set TROUPE_SERVE_NO_HOLDER",
		"retention: 5\nlisten: stdio\n": path + ":2: listen: a server on stdio is told so by --listen stdio, because the holder starts before the file is read",
		"framing: lines\n":              "--framing lines is for --listen stdio, not for ws://127.0.0.1:7766",
	} {
		write(text)
		for _, flags := range [][]string{{"--check-config"}, nil} { // a server says the same, and does not serve
			if code, out, errs := serve(flags...); code != 2 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%q with %q: exit code %d, stdout %q, stderr %q", text, flags, code, out, errs)
			}
		}
	}
}
