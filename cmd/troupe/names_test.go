//go:build unix

package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Of three commands that start a program of the same name at the same moment, one does.
func TestRunsOfOneName(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	for round := range 4 {
		name := fmt.Sprint("web", round)
		var started sync.Map
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				cmd := troupe(t, "run", "-d", "--name", name, "--url", url, "--", "sleep", "1000")
				out, err := cmd.CombinedOutput()
				switch text := string(out); {
				case err == nil && text == name+"\n":
					started.Store(i, true)
				case err == nil || !strings.Contains(text, name+" runs already: see troupe attach "):
					t.Errorf("%s: %q, %v", name, out, err)
				}
			})
		}
		all.Wait()
		n := 0
		started.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%s: %d of 3 commands have started a program", name, n)
		}
	}
}
