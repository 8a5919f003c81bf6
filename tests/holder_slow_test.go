//go:build slow

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledServerLosesNothingOfEach is TestKilledServerLosesNothing for each kind of traffic.
func TestKilledServerLosesNothingOfEach(t *testing.T) {
	for name, args := range map[string][]string{
		"streams":   {"--profile", "flood,upload,viewers"},
		"starts":    {"--profile", "spawn,restart,lines"},
		"terminals": {"--profile", "flood,echo,lines", "--tty"},
	} {
		t.Run(name, func(t *testing.T) { killsUnderLoad(t, append(args, "--chaos", "kill-server=3/s")...) })
	}
}

// TestIdleAndStoppedServer: the holder takes neither a server without clients for one that hangs, nor a stopped one. The test waits for the real time of
// the binary: a server that gives no answer for half a minute is killed.
func TestIdleAndStoppedServer(t *testing.T) {
	t.Parallel()
	idle, stopped := startHeld(t, nil), startHeld(t, nil)
	servers := []int{idle.running(), stopped.running()}
	if err := syscall.Kill(servers[1], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(37 * time.Second)
	if err := syscall.Kill(servers[1], syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i, h := range []*held{idle, stopped} {
		h.session(nil).call("process/list", obj{})
		if log := h.stderr.String(); h.running() != servers[i] || strings.Contains(log, "hangs") {
			t.Errorf("the server is process %d, and was %d; the log:\n%s", h.running(), servers[i], log)
		}
	}
}

// TestUpgradeOfHolder: a binary that speaks another version with its holder replaces the holder, too. The process stays, and no program notices. After an
// early death of the new server, the old binary comes back in the same way.
func TestUpgradeOfHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	installed := filepath.Join(dir, "troupe")
	built, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	const source = "internal/holder/wire_linux.go"
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`(?m)^const Version = .*$`).ReplaceAll(text, []byte("const Version = 1000"))
	if bytes.Equal(text, other) {
		t.Fatalf("%s has no version", source)
	}
	changed, overlay := filepath.Join(dir, "wire.go"), filepath.Join(dir, "overlay.json")
	files, err := json.Marshal(obj{"Replace": obj{filepath.Join(root, source): changed}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{changed: other, overlay: files} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newer := filepath.Join(dir, "newer")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", newer, "github.com/b6f6fdd7/troupe/cmd/troupe").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	install := func(from string) {
		t.Helper()
		os.Remove(installed)
		if err := os.Link(from, installed); err != nil {
			t.Fatal(err)
		}
	}
	install(built)
	m := newManager(t, filepath.Join(dir, "notify"))
	h := startHolder(t, func(cmd *exec.Cmd) {
		m.env()(cmd)
		cmd.Path, cmd.Args[0] = installed, installed
	})
	m.main = h.server
	m.want("READY=1", " serves")
	c := h.session(nil)
	p := c.start("p", obj{"argv": sh("while read line; do echo got $line; done; exit 7"), "pipeStdin": true})
	pid := p.pid()
	resume := func() {
		t.Helper()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": p.lastSeq()}})
		p = c.process("p")
	}
	for i, binary := range []string{newer, newer, built} {
		p.write(fmt.Sprintln(i))
		p.awaitOutput("stdout", fmt.Sprintf("got %d\n", i))
		install(binary)
		if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		h.stderr.await(factTimeout, func() bool { return strings.Count(string(h.stderr.data), "serves after an upgrade") == i+1 })
		m.want("RELOADING=1")
		m.want("READY=1", "the server before: replaced by the binary on disk")
		resume()
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.cmd.Process.Pid)); err != nil || string(name) != "troupe\n" {
			t.Errorf("the holder has the name %q, %v", name, err)
		}
		if i == 0 { // within the probation
			if err := syscall.Kill(h.running(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			h.stderr.await(factTimeout, func() bool { return strings.Contains(string(h.stderr.data), "serves in place of a server that died") })
			if !strings.Contains(h.stderr.String(), "the last binary comes back") {
				t.Errorf("the log: %s", h.stderr)
			}
			m.want("the last binary comes back")
			m.want("READY=1", "the server before: killed by SIGKILL")
			resume()
		}
	}
	if p.pid() != pid {
		t.Errorf("the program is process %d, and was %d", p.pid(), pid)
	}
	c.call("process/closeStdin", obj{"processId": "p"})
	if code, _ := p.awaitClosed(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	h.stop()
}
