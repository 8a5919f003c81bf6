package actors

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every actor of the tree is behind a gate and a guard: only the guard's file makes Props.
func TestEveryActorHasAGate(t *testing.T) {
	makers := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch made := strings.Contains(string(text), "actor.PropsFrom"); {
		case strings.HasPrefix(path, filepath.Join("internal", "fake")): // of tests
		case path == "follow.go": // an actor below one of the host, whose supervisor restarts it
		case made && path != filepath.Join("internal", "env", "guard.go"):
			t.Errorf("%s makes Props itself: use Env.Props", path)
		case made:
			makers++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if makers != 1 {
		t.Errorf("%d files make Props, want one", makers)
	}
}
