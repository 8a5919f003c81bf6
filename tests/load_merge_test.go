//go:build slow

package tests

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoadsMerge: two loads at the same time on one server, the first one through a proxy that lies, are added up. All counts and histograms
// are the sums, and each finding is named by its file.
func TestLoadsMerge(t *testing.T) {
	t.Parallel()
	const sessions, each = 2, 8
	server := startServer(t)
	wrong, right := startLiar(t, server.url, "lose exited", 7, false), startLiar(t, server.url, "none", 7, false)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "wrong.json"), filepath.Join(dir, "right.json")}
	load := func(url, file, seed string) *program {
		return startTroupe(t, nil, "load", "--url", url, "--encoding", "json", "--sessions", "2", "--processes", "8", "--profile", "lines,echo", "--rate", "50", "--duration", "4s",
			"--seed", seed, "--json", file, "--findings", t.TempDir(), "--quiet")
	}
	first, second := load(wrong.url, files[0], "7"), load(right.url, files[1], "8")
	// On a busy machine a keystroke may get no answer until the end of a load: such a keystroke is missed, and the load exits with 1.
	if a, b := first.exitCode(), second.exitCode(); a != 1 || b != 0 && loadResultIn(t, files[1]).Counts["missed"] == 0 {
		t.Fatalf("exit codes %d and %d: %s%s", a, b, first.stdout, second.stdout)
	}
	whole := filepath.Join(dir, "whole.json")
	merge := startTroupe(t, nil, "load", "merge", files[0], files[1], "--json", whole)
	code := merge.exitCode()
	a, b, r := loadResultIn(t, files[0]), loadResultIn(t, files[1]), loadResultIn(t, whole)
	const all = 2 * sessions * each
	n := r.Counts
	if code != 1 || len(r.Hosts) != 2 || len(r.Servers) != 2 || len(r.Problems) > 0 || n["sessions"] != 2*sessions || n["starts"] != all || n["ends"] != all ||
		n["checked bytes"] != a.Counts["checked bytes"]+b.Counts["checked bytes"] || n["lost sessions"] != 0 {
		t.Errorf("exit code %d, %d hosts, servers %v, problems %q, counts %v; the report:\n%s", code, len(r.Hosts), r.Servers, r.Problems, n, merge.stdout)
	}
	// Each keystroke that was due has an answer, or is missed.
	if starts, typed := r.Latency["start"].Count, r.Latency["echo"].Count; starts != all || typed == 0 || typed != n["operations"]+n["missed"] {
		t.Errorf("the histograms have %d starts and %d keystrokes, and the counts are %v", starts, typed, n)
	}
	if out := merge.stdout.String(); len(r.Findings) == 0 || strings.Count(out, files[0]+" · ") != len(r.Findings) || strings.Contains(out, "at once, ") {
		t.Errorf("%d findings; the report:\n%s", len(r.Findings), out)
	}
	wrong.mu.Lock()
	defer wrong.mu.Unlock()
	wantLies(t, wrong, r.Findings)
	if !slices.Equal(r.Findings, a.Findings) {
		t.Errorf("findings %+v, want %+v", r.Findings, a.Findings)
	}
}
