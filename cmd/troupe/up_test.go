//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Several commands at once start each program of a file once.
func TestUpAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "troupe.yaml")
	if err := os.WriteFile(file, []byte("name: at-once\nprocesses:\n  a: {command: sleep 1000}\n  b: {command: sleep 1000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if out, err := troupe(t, "up", "--detach", file).CombinedOutput(); err != nil {
					t.Errorf("up: %v: %s", err, out)
				}
			})
		}
		all.Wait()
		out, err := troupe(t, "ps", "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var list []struct{ SessionName, ProcessID, State string }
		if err := json.Unmarshal(out, &list); err != nil {
			t.Fatal(err)
		}
		count := make(map[string]int)
		for _, p := range list {
			if p.SessionName == "at-once" && p.State != "exited" && p.State != "closed" {
				count[p.ProcessID]++
			}
		}
		if count["a"] != 1 || count["b"] != 1 {
			t.Errorf("copies of the programs: %v, want one of each", count)
		}
		for range 4 { // of the sessions; one in good order
			if out, err := troupe(t, "down", file).CombinedOutput(); err != nil {
				t.Errorf("down: %v: %s", err, out)
			}
		}
	}
}
