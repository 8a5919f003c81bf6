package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/slots"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childMain(os.Args[2:])
	}
	slots.Widen()
	os.Exit(m.Run())
}

// TestAttacksExplain checks each attack for a unique name and a description.
func TestAttacksExplain(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks {
		if a.name == "" || a.does == "" || a.must == "" || a.run == nil || seen[a.name] {
			t.Errorf("attack %q: it needs a name of its own, what it does, what must hold, and run", a.name)
		}
		seen[a.name] = true
	}
}

// TestDocumentsNameAttacks finds names of attacks in the documents that no attack has.
func TestDocumentsNameAttacks(t *testing.T) {
	var found int
	anAttack := regexp.MustCompile("\\battack *`([^`]+)`")
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/protocol/*.md", "../../docs/decisions/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range anAttack.FindAllSubmatch(text, -1) {
				found++
				if !slices.ContainsFunc(attacks, func(a *attack) bool { return a.name == string(m[1]) }) {
					t.Errorf("%s: there is no attack %q", path, m[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("the documents name no attack")
	}
}
