package tests

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// activate starts a command with sockets as a service manager passes them (sd_listen_fds(3)). A shell becomes the command, because the pid of the command is in a
// variable.
func activate(t *testing.T, listeners ...net.Listener) func(*exec.Cmd) {
	t.Helper()
	needs.Program(t, "sh")
	var files []*os.File
	for _, l := range listeners {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		cmd.Env = append(cmd.Env, "LISTEN_FDS="+string('0'+rune(len(files))), "LISTEN_FDNAMES=troupe.socket")
		cmd.ExtraFiles = files
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // with a terminal, SIGHUP would be the end of the terminal
	}
}

// listenAt opens a socket as a service manager does, and leaves its file.
func listenAt(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if l, ok := l.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false)
		if err := os.Chmod(address, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestSocketActivation: a client that connects before the server starts is served. The socket goes on over a kill and an upgrade, and after the end of the
// server. No program has the socket, or its variables.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "tcp"} {
		for _, holds := range []bool{true, false} {
			t.Run(network+map[bool]string{true: " holder", false: " plain"}[holds], func(t *testing.T) {
				t.Parallel()
				address, scheme := "127.0.0.1:0", "ws://"
				if network == "unix" {
					address, scheme = filepath.Join(t.TempDir(), "s"), "unix://"
				}
				l := listenAt(t, network, address)
				address = l.Addr().String()
				early, err := net.Dial(network, address)
				if err != nil {
					t.Fatal(err)
				}
				defer early.Close()
				args := []string{"--listen", scheme + address}
				if !holds {
					args = append(args, "--no-holder")
				}
				h := startHolder(t, activate(t, l), args...)
				if h.url != scheme+address {
					t.Errorf("the server says %s, want %s", h.url, scheme+address)
				}
				wantAlive(t, early)
				c := h.session(nil)
				p := c.start("p", obj{"argv": sh("env; ls -l /proc/self/fd; echo that is all; exec sleep 1000")})
				p.awaitOutput("stdout", "that is all\n")
				if out := p.output("stdout"); strings.Contains(out, "LISTEN_") || strings.Contains(out, "socket:") {
					t.Errorf("a program has\n%s", out)
				}
				if holds {
					h.kill()
					h.session(nil).call("process/list", obj{})
					if code, _, errs := upgradeCommand(t, h.server); code != 0 {
						t.Errorf("upgrade: exit code %d: %s", code, errs)
					}
					h.session(nil).call("process/list", obj{})
				}
				h.stop()
				late, err := net.Dial(network, address)
				if err != nil {
					t.Fatalf("after the end of the server: %v", err)
				}
				late.Close()
			})
		}
	}
}

// wantAlive asks over an open connection whether the server is alive.
func wantAlive(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var b [64]byte
	if n, err := c.Read(b[:]); err != nil || !strings.Contains(string(b[:n]), " 200 ") {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// TestSocketActivationIsRefused: a server that cannot serve the passed socket says why.
func TestSocketActivationIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	unix, tcp := listenAt(t, "unix", path), listenAt(t, "tcp", "127.0.0.1:0")
	open := filepath.Join(dir, "open")
	opened := listenAt(t, "unix", open)
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	at := tcp.Addr().String()
	for _, c := range []struct {
		name  string
		given []net.Listener
		args  string
		want  string // "": the check succeeds
	}{
		{"same", []net.Listener{unix}, "--listen unix://" + path, ""},
		{"link", []net.Listener{unix}, "--listen unix://" + link, ""},
		{"port", []net.Listener{tcp}, "--listen ws://" + at, ""},
		{"without --listen", []net.Listener{unix}, "", "passed a socket at unix://" + path + ", and the server has to listen at ws://127.0.0.1:7766: let --listen and ListenStream="},
		{"another port", []net.Listener{tcp}, "--listen ws://127.0.0.1:1", "passed a socket at ws://" + at + ", and the server has to listen at ws://127.0.0.1:1"},
		{"another kind", []net.Listener{tcp}, "--listen unix://" + path, "passed a socket at ws://" + at},
		{"two", []net.Listener{unix, tcp}, "--listen unix://" + path, "passed 2 sockets (troupe.socket)"},
		{"stdio", []net.Listener{unix}, "--listen stdio", "name the address of the socket unit"},
		{"open", []net.Listener{opened}, "--listen unix://" + open, "has mode 0666. Set SocketMode=0660"},
		{"open and asked for", []net.Listener{opened}, "--insecure --listen unix://" + open, ""},
		{"open with credentials", []net.Listener{opened}, "--auth-unix-users --listen unix://" + open, ""},
	} {
		p := startTroupe(t, activate(t, c.given...), append([]string{"serve", "--check-config"}, strings.Fields(c.args)...)...)
		if code := p.exitCode(); (code == 0) != (c.want == "") || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, %q; want %q", c.name, code, p.stderr, c.want)
		}
	}
}
