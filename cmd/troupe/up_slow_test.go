//go:build slow

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A troupe up that replaces a process waits for those who look at the process, and are not read for a while: the last lines of
// the process are shown.
func TestUpWaitsForViewers(t *testing.T) {
	t.Parallel()
	const block = 55_000 // lines of 8 bytes; the server retains two blocks
	dir := t.TempDir()
	file := filepath.Join(dir, "troupe.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The shell counts before it prints: the next signal may come as soon as the lines are there, and the trap runs at once, within more.
	write(filepath.Join(dir, "web"), fmt.Sprintf(`n=0; more() { n=$((n+%d)); seq -f %%07.0f $((n-%[1]d+1)) $n; }
trap more USR1; trap 'more; exit 3' TERM; echo $1; while :; do sleep 0.01; done`, block))
	write(file, "name: slow-reader\nprocesses:\n  web: {command: exec sh web one}\n")
	does(t, "up", "--detach", file)
	viewer := troupe(t, "logs", "-f", "slow-reader/web")
	out, err := viewer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	viewer.Stderr = &stderr
	if err := viewer.Start(); err != nil {
		t.Fatal(err)
	}
	shown := bufio.NewScanner(out)
	if !shown.Scan() || !strings.HasSuffix(shown.Text(), "one") {
		t.Fatalf("logs shows %q: %s", shown.Text(), stderr.String())
	}
	awaitWeb := func(done func(*psEntry) bool) {
		await(t, func() (bool, any) {
			out, err := troupe(t, "info", "--json", "slow-reader/web").Output()
			var found []psEntry
			return json.Unmarshal(out, &found) == nil && len(found) == 1 && done(&found[0]), fmt.Sprintf("%s, %v", out, err)
		})
	}
	var first psEntry
	for full := false; !full; { // until the viewer takes no more
		had := first.OutputBytes
		does(t, "signal", "slow-reader/web", "USR1")
		awaitWeb(func(p *psEntry) bool {
			first = *p
			lags := slices.ContainsFunc(p.Viewers, func(v protocol.Viewer) bool { return v.LagBytes > 0 })
			full = lags && p.QuietMs > 300
			return p.OutputBytes >= had+8*block && (full || !lags)
		})
	}
	write(file, "name: slow-reader\nprocesses:\n  web: {command: exec sh web two}\n")
	other, replaced := troupe(t, "up", "--detach", file), make(chan error, 1)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		replaced <- other.Wait()
		close(replaced)
	}()
	awaitWeb(func(p *psEntry) bool { return p.OutputBytes > first.OutputBytes || p.Instance != first.Instance })
	select {
	case <-replaced: // too early: lines are missing
	case <-time.After(time.Second):
	}
	n, want := 0, int(first.OutputBytes/8/block+1)*block
	for n < want && shown.Scan() {
		if strings.HasSuffix(shown.Text(), fmt.Sprintf("%07d", n+1)) {
			n++
		}
	}
	if err := <-replaced; err != nil || n != want {
		t.Errorf("the other up: %v; %d lines are shown, want %d: %s", err, n, want, stderr.String())
	}
	if out, err := troupe(t, "down", file).CombinedOutput(); err != nil {
		t.Errorf("down: %v: %s", err, out)
	}
	viewer.Wait()
}
