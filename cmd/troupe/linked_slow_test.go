//go:build slow

package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnusedMethodsAreLeftOut: no function in the binary finds methods by names that are known only when it runs. With one such function the linker
// keeps every exported method: a template would add 3 MB. The tag is that of a release: without it, gRPC has a page of traces with a template.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "build", "-tags=grpcnotrace", "-o", filepath.Join(t.TempDir(), "troupe"), "-ldflags=-dumpdep", ".")
	links, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.1000s", err, links)
	}
	found, edges := make(map[string]bool), 0
	for line := range strings.Lines(string(links)) { // CALLER -> CALLEE <ReflectMethod>
		from, _, isEdge := strings.Cut(line, " -> ")
		if isEdge {
			edges++
		}
		if name, ok := strings.CutSuffix(from, " <ReflectMethod>"); ok {
			found[name] = true
		}
	}
	if len(found) > 0 {
		t.Errorf("these functions find methods by name: %q. go build -ldflags=-dumpdep ./cmd/troupe says who calls them", slices.Sorted(maps.Keys(found)))
	}
	if edges < 10_000 {
		t.Errorf("the linker told of only %d links between functions: %.1000s", edges, links)
	}
}
