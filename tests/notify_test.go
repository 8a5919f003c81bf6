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
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// A manager is a service manager that hears what a service says, as systemd does with NotifyAccess=main: only of the process that it has started.
type manager struct {
	t       *testing.T
	address string
	heard   chan notice // read as they come: the queue of the kernel may be short
	main    *server     // whom it hears
}

type notice struct {
	text string
	pid  int // of the sender
}

func newManager(t *testing.T, address string) *manager {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t, address, make(chan notice, 10_000), nil}
	go func() {
		var b, control [4096]byte
		for {
			n, size, _, _, err := socket.ReadMsgUnix(b[:], control[:])
			if err != nil {
				return
			}
			got := notice{text: string(b[:n])}
			if all, err := unix.ParseSocketControlMessage(control[:size]); err == nil && len(all) == 1 {
				if cred, err := unix.ParseUnixCredentials(&all[0]); err == nil {
					got.pid = int(cred.Pid)
				}
			}
			m.heard <- got
		}
	}()
	return m
}

// env gives a service the variables of the manager.
func (m *manager) env(more ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // with a terminal, SIGHUP would be the end of the terminal
		cmd.Env = append(append(cmd.Env, "NOTIFY_SOCKET="+m.address), more...)
	}
}

// hear returns the next message except signs of life.
func (m *manager) hear() string {
	m.t.Helper()
	for end := time.Now().Add(factTimeout); time.Now().Before(end); {
		if text := m.next(); text != "WATCHDOG=1" {
			return text
		}
	}
	m.t.Fatal("the manager hears nothing but signs of life")
	return ""
}

// next returns the next message.
func (m *manager) next() string {
	m.t.Helper()
	select {
	case got := <-m.heard:
		if want := m.main.cmd.Process.Pid; got.pid != want {
			m.t.Fatalf("%q is of process %d, want %d", got.text, got.pid, want)
		}
		return got.text
	case <-time.After(factTimeout):
		m.t.Fatal("the manager hears nothing")
		return ""
	}
}

// want hears a message that has these texts.
func (m *manager) want(texts ...string) string {
	m.t.Helper()
	got := m.hear()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			m.t.Fatalf("the manager has heard %q, want %q", got, texts)
		}
	}
	return got
}

// wantNoVariables checks that neither the server nor a program has the variables of the manager.
func (m *manager) wantNoVariables(s *server, server int) {
	m.t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", server))
	if err != nil && !os.IsPermission(err) { // only root may read it
		m.t.Fatal(err)
	}
	c := s.session(nil)
	p := c.start("env", obj{"argv": sh("env")})
	p.awaitClosed()
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_"} {
		if strings.Contains(p.output("stdout"), name) || server != s.cmd.Process.Pid && strings.Contains(string(environ), name) {
			m.t.Errorf("a program or the server has %s:\n%s\n%q", name, p.output("stdout"), environ)
		}
	}
	c.call("session/close", obj{})
}

// TestServiceManager: the manager hears from the holder alone, of the first server, of a death, of upgrades that succeed and fail, and of the end.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	binary, policy := filepath.Join(t.TempDir(), "troupe"), newPolicy(t, "* cwd /\n* run /**")
	built, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	install(t, filepath.Dir(binary), built, 0o755)
	h := startHolder(t, func(cmd *exec.Cmd) {
		m.env("WATCHDOG_USEC=200000")(cmd)
		cmd.Path, cmd.Args[0] = binary, binary
	}, "--policy-file", policy.path)
	m.main = h.server
	m.want("READY=1\nSTATUS=process ", " serves")
	for m.next() != "WATCHDOG=1" {
	}
	m.wantNoVariables(h.server, h.running())

	h.kill()
	if got := m.want("STATUS=the server, process ", "has died (killed by SIGKILL)"); strings.Contains(got, "READY") {
		t.Errorf("after a death: %q", got)
	}
	m.want("READY=1\nSTATUS=process ", "the server before: killed by SIGKILL")

	reload := func(texts ...string) {
		t.Helper()
		monotonic := func() int64 {
			var now unix.Timespec
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
			return now.Nano() / 1000
		}
		before, began := monotonic(), int64(0)
		if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		got := m.want("RELOADING=1\nMONOTONIC_USEC=", "\nSTATUS=tries "+binary)
		if fmt.Sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%d\n", &began); began < before || began > monotonic() {
			t.Errorf("%q, sent after %d", got, before)
		}
		m.want(texts...)
	}
	reload("READY=1\nSTATUS=process ", "the server before: replaced by the binary on disk")
	policy.write("nonsense")
	reload("READY=1\nSTATUS=no upgrade: ", "cannot serve (exit code 1)")

	h.signal(syscall.SIGTERM)
	m.want("STOPPING=1")
	if code := h.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestServiceManagerOfPlainServer: a server without a holder says itself that it serves, lives and ends.
func TestServiceManagerOfPlainServer(t *testing.T) {
	t.Parallel()
	m := newManager(t, fmt.Sprintf("@troupe-%s-%d", newToken(t), os.Getpid()))
	m.main = startServerWith(t, m.env("WATCHDOG_USEC=200000"))
	m.want("READY=1")
	for range 3 {
		if got := m.next(); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	m.wantNoVariables(m.main, m.main.cmd.Process.Pid)
	m.main.signal(syscall.SIGTERM)
	m.want("STOPPING=1")
}

// TestUnit: systemd accepts the units of the packages without a warning, and their commands serve at the address that the units and the settings name.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := needs.Program(t, "systemd-analyze")
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ as, service, address string }{
		{"--system", "troupe.service", "socket"},
		{"--user", "troupe-user.service", "troupe/server.sock"},
	} {
		dir := t.TempDir()
		copied := func(name, as string) string {
			t.Helper()
			text, err := os.ReadFile("../cmd/release/files/" + name)
			if err != nil {
				t.Fatal(err)
			}
			unit := strings.NewReplacer("/usr/bin/troupe", bin, "/run/troupe", dir, "/etc/troupe", dir, "%t", dir).Replace(string(text))
			if err := os.WriteFile(filepath.Join(dir, as), []byte(unit), 0o644); err != nil {
				t.Fatal(err)
			}
			return unit
		}
		unit := copied(c.service, "troupe.service")
		verify := exec.Command(analyze, c.as, "verify", "--man=no", filepath.Join(dir, "troupe.service"))
		if c.as == "--system" {
			copied("troupe.socket", "troupe.socket")
			copied("serve.yaml", "serve.yaml")
			verify.Args = append(verify.Args, filepath.Join(dir, "troupe.socket"))
		}
		verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %v\n%s", verify, err, out)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, c.address)), 0o700); err != nil {
			t.Fatal(err)
		}
		_, command, _ := strings.Cut(unit, "\nExecStart=")
		command, _, _ = strings.Cut(command, "\n")
		m := newManager(t, filepath.Join(dir, "notify"))
		m.main = startServerWith(t, func(cmd *exec.Cmd) {
			m.env()(cmd)
			cmd.Args = strings.Fields(command)
		})
		m.want("READY=1")
		if want := "unix://" + filepath.Join(dir, c.address); m.main.url != want {
			t.Errorf("%s serves at %s, want %s", c.service, m.main.url, want)
		}
		m.main.session(nil).call("process/list", obj{})
	}
}
