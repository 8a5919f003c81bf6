//go:build slow

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// TestLoadOnEveryWire: the load generator works on each transport, in both encodings, with pipes and with terminals, also over cuts. Each
// two values are together in one of the runs.
func TestLoadOnEveryWire(t *testing.T) {
	const cuts = "fin=2/s,rst=1/s,mid-frame=1/s,handshake=1/s,resume=1/s"
	for i, c := range []struct {
		wire, encoding string
		more           string // of cuts
		flags          string
	}{
		{wire: "ws", encoding: "json"},
		{wire: "ws", encoding: "msgpack", flags: "--tty"},
		{wire: "wss", encoding: "json", flags: "--tty --upload"},
		{wire: "wss", encoding: "msgpack", more: ",half-open=2/s"},
		{wire: "unix", encoding: "json"},
		{wire: "unix", encoding: "msgpack", flags: "--tty"},
		{wire: "unix+frames", encoding: "json", more: ",half-open=2/s", flags: "--tty"},
		{wire: "unix+frames", encoding: "msgpack"},
	} {
		t.Run(strings.Join(strings.Fields(c.wire+" "+c.encoding+" "+c.flags), ","), func(t *testing.T) {
			t.Parallel()
			s, flags, env := startServerOn(t, c.wire)
			file := filepath.Join(t.TempDir(), "result.json")
			args := []string{"load", "--url", s.url, "--encoding", c.encoding, "--sessions", "3", "--processes", "5", "--profile", "mixed", "--duration", "2s",
				"--chaos", cuts + c.more, "--seed", fmt.Sprint(i + 1), "--json", file, "--quiet"}
			args = append(append(args, strings.Fields(c.flags)...), flags...)
			load := startTroupe(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], env...) }, args...)
			code := load.exitCode()
			r := loadResultIn(t, file)
			n := r.Counts
			// A half-open connection is silent for seconds: on a busy machine nobody may write to a program meanwhile.
			if code != 0 || n["cuts"] == 0 || n["resumes"] == 0 || n["checked bytes"] == 0 || n["stdin bytes"] == 0 && c.more == "" || n["starts"] == 0 || n["starts"] != n["ends"] ||
				n["sessions"] != 3 || len(r.Servers) != 1 || r.Servers[0].URL != s.url || (n["cuts half-open"] > 0) != (c.more != "") {
				t.Errorf("exit code %d, counts %v, servers %v; the report:\n%s", code, n, r.Servers, load.stdout)
			}
			if strings.Contains(c.flags, "--upload") {
				_, err := os.Stat(filepath.Dir(r.Plan.Program))
				if !strings.HasPrefix(r.Plan.Program, "/tmp/troupe-load-") || !os.IsNotExist(err) {
					t.Errorf("the programs were %q, and after the run: %v", r.Plan.Program, err)
				}
			}
			if env == nil {
				return
			}
			without := startTroupe(t, nil, args...)
			if code := without.exitCode(); code != 125 || !strings.Contains(without.stderr.String(), "missing websocket bearer token") {
				t.Errorf("without the token: exit code %d, stderr %s", code, without.stderr)
			}
		})
	}
}

// TestLoadOnServerThatEndsPrograms: a server that ends programs itself, and says so, is no liar.
func TestLoadOnServerThatEndsPrograms(t *testing.T) {
	s := startServer(t, "--max-run-time", "500ms")
	file := filepath.Join(t.TempDir(), "result.json")
	load := startTroupe(t, nil, "load", "--url", s.url, "--sessions", "2", "--processes", "4", "--profile", "lines,idle,echo,upload", "--duration", "2s",
		"--seed", "3", "--json", file, "--quiet")
	code := load.exitCode()
	r := loadResultIn(t, file)
	if code != 1 || r.Counts["wrong"] > 0 || len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0], "nobody checked their ends: timed out") {
		t.Errorf("exit code %d, counts %v, problems %q; the report:\n%s", code, r.Counts, r.Problems, load.stdout)
	}
}

// startServerOn starts a server of a wire with a TMPDIR of its own, and returns the flags and the environment for its clients. wss
// has a certificate that only a flag makes known, and wss and unix+frames need a token.
func startServerOn(t *testing.T, wire string) (s *server, flags, env []string) {
	t.Helper()
	dir := testroot.Dir(t, "") // t.TempDir() may be too long for a socket
	args := []string{"--listen", wire + "://127.0.0.1:0"}
	k := newKeyring(t)
	k.file("mine", "token-of-alice-in-plain\n")
	token := func() {
		args, env = append(args, "--auth-token-file", k.path("tokens")), []string{"TROUPE_TOKEN_FILE=" + k.path("mine")}
	}
	switch wire {
	case "wss":
		args, flags = append(args, "--tls-cert", k.path("cert"), "--tls-key", k.path("key")), []string{"--tls-ca", k.path("cas")}
		token()
	case "unix":
		args = []string{"--listen", "unix://" + filepath.Join(dir, "s")}
	case "unix+frames":
		args = []string{"--listen", "unix://" + filepath.Join(dir, "s"), "--framing", "length"}
		token()
	}
	s = startServerWith(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "TMPDIR="+dir) }, args...)
	return s, flags, env
}
