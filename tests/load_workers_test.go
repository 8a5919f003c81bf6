//go:build slow

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startLoadWorker starts a worker of troupe load, and returns its address.
func startLoadWorker(t *testing.T, secret string) string {
	t.Helper()
	w := startTroupe(t, nil, "load", "--worker", ":0", "--secret-file", secret, "--findings", t.TempDir())
	line := w.firstLine()
	addr, ok := strings.CutPrefix(line, "worker at ")
	if !ok {
		t.Fatalf("the worker prints %q", line)
	}
	t.Cleanup(func() {
		w.signal(syscall.SIGINT)
		if code := w.exitCode(); code != 130 {
			t.Errorf("after SIGINT the worker exited with %d, want 130", code)
		}
	})
	return addr
}

// TestLoadTwoWorkersTwoServers: two workers share the load on two servers. The controller adds up all counts and histograms, and a merged
// finding names the server that lied.
func TestLoadTwoWorkersTwoServers(t *testing.T) {
	t.Parallel()
	const seed, sessions, each = 7, 4, 8
	wrong := startLiar(t, startServer(t).url, "lose exited", seed, false)
	right := startLiar(t, startServer(t).url, "none", seed, false)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of the test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	workers := startLoadWorker(t, secret) + "," + startLoadWorker(t, secret)
	file := filepath.Join(t.TempDir(), "result.json")
	load := startTroupe(t, nil, "load", "--url", wrong.url, "--also", right.url, "--encoding", "json", "--workers", workers, "--secret-file", secret,
		"--sessions", "4", "--processes", "8", "--profile", "lines,echo", "--rate", "100", "--duration", "2s", "--seed", "7", "--json", file, "--quiet")
	code := load.exitCode()
	r := loadResultIn(t, file)
	wrong.mu.Lock()
	defer wrong.mu.Unlock()
	right.mu.Lock()
	defer right.mu.Unlock()
	const all = sessions * each
	n := r.Counts
	if code != 1 || len(r.Hosts) != 2 || len(r.Servers) != 2 || len(r.Problems) > 0 || n["sessions"] != sessions || n["starts"] != all || n["ends"] != all ||
		n["checked bytes"] == 0 || n["lost sessions"] != 0 {
		t.Errorf("exit code %d, %d hosts, servers %v, problems %q, counts %v; the report:\n%s", code, len(r.Hosts), r.Servers, r.Problems, n, load.stdout)
	}
	if len(wrong.victims) != all/2 || len(right.victims) != all/2 {
		t.Errorf("the servers had %d and %d programs, want %d each", len(wrong.victims), len(right.victims), all/2)
	}
	// Each keystroke that was due has an answer.
	if starts, typed := r.Latency["start"].Count, r.Latency["echo"].Count; starts != all || typed == 0 || typed != n["operations"] {
		t.Errorf("the histograms have %d starts and %d keystrokes, and the counts are %v", starts, typed, n)
	}
	wantLies(t, wrong, r.Findings)
	if len(wrong.told) == 0 {
		t.Errorf("the proxy told no lie in %d exits", wrong.exits)
	}
	for worker := range 2 {
		prefix := [...]string{"w1s", "w2s"}[worker]
		found := false
		for key := range wrong.victims {
			found = found || strings.HasPrefix(key[0], prefix)
		}
		if !found {
			t.Errorf("no session of the first server is called %s…: %v", prefix, wrong.sessions)
		}
	}
}
