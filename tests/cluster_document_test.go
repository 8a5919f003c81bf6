package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

// TestClusterDocument runs the lines in CLUSTER.md that start three nodes on one machine, and those that use them.
func TestClusterDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/CLUSTER.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks are marked sh, want 2", len(blocks))
	}
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	address := testrelay.Loopback() + ":"
	// Each node has to know all three before the document goes on. A person is slow enough. At the end all servers, which are in the group of the shell, end.
	script := blocks[0][1] + `
for port in 7781 7782 7783; do
	until [ "$(troupe nodes --url ws://127.0.0.1:$port 2>/dev/null | grep -c ready)" = 3 ]; do sleep 0.1; done
done
` + strings.Replace(blocks[1][1], "troupe logs", "until troupe logs --url ws://127.0.0.1:7782 web | grep -q hello; do sleep 0.1; done\ntroupe logs", 1) + `
trap '' TERM
kill 0
wait
`
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.ReplaceAll(script, "127.0.0.1:", address))
	cmd.Dir = runtimeDir(t)
	cmd.Env = append(serverEnv, "XDG_RUNTIME_DIR="+cmd.Dir, "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = factTimeout
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{"\nweb\n", "\nhello\n", "\na-", "\nb-", "\nc-"} {
		if !strings.Contains("\n"+string(out), want) {
			t.Errorf("the lines of CLUSTER.md print no line with %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// TestClusterMessages sends what docs/protocol/cluster.md sends.
func TestClusterMessages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/protocol/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	nodes := startCluster(t, []string{"a", "b"}, nil)
	if found := converse(t, string(text), nodes[0].url); found < 17 {
		t.Errorf("docs/protocol/cluster.md has only %d messages", found)
	}
}
