package tests

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// TestUserByCapabilities: a server that is not root, and has the four capabilities that it asks for, starts and ends
// programs of other users. No program has the capabilities, not even as the user of the server.
func TestUserByCapabilities(t *testing.T) {
	needs.Root(t)
	dir := openDir(t)
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("* @server\n* default "+stranger+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	bin = install(t, dir, bin, 0o755)
	c := startServerWith(t, func(cmd *exec.Cmd) {
		cmd.Path = bin
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: nobody, Gid: nobody},
			AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_CHOWN},
		}
	}, "--users-file", users).session(nil)
	const ids = "Uid: 54321 54321 54321 54321\nGid: 54322 54322 54322 54322\nGroups:\nCapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 0"
	wantSays(t, c, "ids", status, ids, nil)
	wantSays(t, c, "as the server", "id -u; grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status | tr -d '\t'", "65534\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapAmb:0000000000000000", obj{"user": "@server"})
	// The process for calls about files has none either.
	text := c.call("fs/readFile", obj{"path": "file:///proc/thread-self/status"})["dataBase64"].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t54321\t54321\t54321\t54321\n", "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the process for calls about files has no line %q:\n%s", want, data)
		}
	}
	_, tgid, _ := strings.Cut(string(data), "\nTgid:\t")
	tgid, _, _ = strings.Cut(tgid, "\n")
	wantNoThreadBecomes(t, tgid)
	p := c.start("tty", obj{"argv": sh("id -u && echo written >$(tty)"), "tty": true})
	p.awaitClosed()
	if out := p.outputSoFar("pty"); strings.ReplaceAll(out, "\r", "") != "54321\nwritten\n" {
		t.Errorf("on a terminal: %q", out)
	}
	token := newToken(t)
	c.start("tree", obj{"argv": sh("setsid env -i /bin/sleep " + token + " & echo up; wait")}).awaitOutput("stdout", "up")
	eventually(t, "the daemon runs", func() bool { return len(kin(token)) > 0 })
	c.call("session/close", obj{})
	wantNoKin(t, "once session/close was answered", token)
}

// wantNoThreadBecomes wants that no thread of a process can change its user. In a binary with cgo, threads that make no calls keep the
// capabilities for it, and then a filter refuses the calls.
func wantNoThreadBecomes(t *testing.T, pid string) {
	t.Helper()
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	cgo := errno == syscall.ENOTSUP // in troupe as in the test
	threads, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %s has no threads: %v", pid, err)
	}
	for _, thread := range threads {
		data, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		text := string(data)
		for _, want := range []string{"Uid:\t54321\t54321\t54321\t54321\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("a thread of the process for calls about files has no line %q:\n%s", want, text)
			}
		}
		if none := strings.Contains(text, "CapPrm:\t0000000000000000\n"); !none && (!cgo || !strings.Contains(text, "CapPrm:\t00000000000000c0\n")) {
			t.Errorf("a thread of the process for calls about files has more capabilities than CAP_SETUID and CAP_SETGID, or any without cgo:\n%s", text)
		}
	}
}
