package remote

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// A jail is no longer intact once somebody has put another directory in the place of a placeholder.
func TestExchangedPlaceholder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".codex")
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	m, err := WatchMounts(os.Getpid(), &sandbox.Policy{Paths: []sandbox.Path{{Path: name, Kind: sandbox.Missing, Dev: uint64(st.Dev), Ino: st.Ino}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Intact() {
		t.Error("a jail whose placeholder is there is not intact")
	}
	if err := os.Rename(name, name+".moved"); err != nil {
		t.Fatal(err)
	}
	if m.Intact() {
		t.Error("a jail whose placeholder is gone is intact")
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if m.Intact() {
		t.Error("a jail whose placeholder was exchanged is intact")
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".moved", name); err != nil {
		t.Fatal(err)
	}
	if !m.Intact() {
		t.Error("a jail whose placeholder is back is not intact")
	}
}

// A jail stays without its view after a change of its mounts, also if the kernel tells of the change only once.
func TestChangedMounts(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	jail := exec.CommandContext(t.Context(), needs.Program(t, "unshare"), "--user", "--map-root-user", "--mount", "sh", "-c",
		`echo ready; read line; mount -t tmpfs none "$0" && echo changed; read line`, t.TempDir())
	in, err := jail.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := jail.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	jail.Stderr = &stderr
	if err := jail.Start(); err != nil {
		t.Fatal(err)
	}
	defer jail.Wait()
	defer in.Close() // ends both reads
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		io.Copy(io.Discard, lines)
		t.Fatal(err, stderr.String())
	}
	m, err := WatchMounts(jail.Process.Pid, &sandbox.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Intact() {
		t.Error("a jail without a change is not intact")
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	if line, _ := lines.ReadString('\n'); line != "changed\n" {
		t.Fatalf("mount(8): %q", line)
	}
	for range 2 {
		if m.Intact() {
			t.Error("a jail with another mount is intact")
		}
	}
}
