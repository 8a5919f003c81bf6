//go:build slow

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childMain(os.Args[2:])
	}
	os.Exit(m.Run())
}

// TestEveryRow measures every row with small numbers. The figures mean nothing; the test shows that
// each row works.
func TestEveryRow(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Parallel()
	o, err := parse([]string{"--quick", "--runs", "1", "--json", "-", "--timeout", "8m"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var stdout bytes.Buffer
	if err := run(t.Context(), o, &stdout, t.Output()); err != nil {
		t.Error(err)
	}
	t.Logf("%.1f s", time.Since(begin).Seconds())
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v:\n%s", err, stdout.Bytes())
	}
	want := 0
	for _, row := range rows {
		want += len(row.lines)
	}
	if len(r.Lines) != want {
		t.Errorf("%d lines, want %d", len(r.Lines), want)
	}
	_, err = exec.LookPath("cc")
	if err != nil && os.Getenv("CI") == "" {
		t.Log("without cc some rows are skipped: ", err)
	} else if len(r.Growth) == 0 {
		t.Error("growth was not measured")
	}
	inCI := os.Getenv("CI") != ""
	for _, l := range r.Lines {
		if l.Skipped != "" {
			if err := mayNamespace(t); inCI && strings.HasPrefix(l.Row, "sandbox") && err == nil {
				t.Errorf("%s: skipped, although this machine permits namespaces: %s", l.What, l.Skipped)
			} else {
				t.Logf("%s: skipped: %s (namespaces: %v)", l.What, l.Skipped, err)
			}
			continue
		}
		if !finite(l.Ours) {
			t.Errorf("%s: %v", l.What, l.Ours)
		}
		for _, raw := range l.Raw {
			if (raw.What == bubblewrap || raw.What == bareBubblewrap) && len(raw.Runs) == 0 {
				if inCI {
					t.Errorf("%s: bubblewrap is missing or fails, although .ci/run installs it", l.What)
				} else {
					t.Logf("%s: without bubblewrap", l.What)
				}
				continue
			}
			if !finite(raw.figure) {
				t.Errorf("%s: raw limit %s: %v", l.What, raw.What, raw.figure)
			}
		}
	}
}

// mayNamespace makes namespaces like those of a sandbox, without the server.
func mayNamespace(t *testing.T) error {
	cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "--mount-proc", "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func finite(f figure) bool {
	return len(f.Runs) == 1 && !math.IsNaN(f.Median) && !math.IsInf(f.Median, 0) && f.Median >= 0
}
