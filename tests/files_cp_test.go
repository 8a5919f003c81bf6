package tests

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestCpOverCuts: troupe cp takes 60 MB to the server and back over connections that are cut, and the copies are the same.
func TestCpOverCuts(t *testing.T) {
	t.Parallel()
	const size, cuts = 60_000_000, 2
	dir := t.TempDir()
	here, there, back := filepath.Join(dir, "here"), filepath.Join(dir, "there"), filepath.Join(dir, "back")
	f, err := os.Create(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{7}), size); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s := startServer(t)
	for _, c := range []struct {
		source, target, file string
		every                int64 // bytes from the server; of an upload these are 1,300 before the first block, and then 18 for each block
	}{{here, ":" + there, there, 2 << 10}, {":" + there, back, back, size / 5}} {
		cut := newCutter(t, strings.TrimPrefix(s.url, "ws://"), cuts, c.every)
		p := startTroupe(t, nil, "cp", "--url", "ws://"+cut.Addr(), c.source, c.target)
		if code := p.exitCode(); code != 0 {
			t.Fatalf("cp %s %s: exit code %d", c.source, c.target, code)
		}
		cut.Close()
		if n := cut.cuts.Load(); n != cuts {
			t.Errorf("%d connections were cut, want %d", n, cuts)
		}
		if got, want := digest(t, c.file), digest(t, here); got != want {
			t.Errorf("%s differs from %s", c.file, here)
		}
	}
	wantFiles(t, dir, "back", "here", "there")
}

// TestCopyInterrupted: after a signal nothing is left of a file that was under way.
func TestCopyInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, sub := range []string{"here", "there"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // sparse
		needs.Feature(t, fmt.Errorf("the filesystem has no sparse files of a terabyte: %w", err))
	}
	s := startServer(t)
	for _, c := range []struct {
		source, target, at string
		sig                syscall.Signal
	}{{large, ":" + dir + "/there/copy", "there", syscall.SIGINT}, {":" + large, dir + "/here/copy", "here", syscall.SIGTERM}} {
		p := startTroupe(t, nil, "cp", "--url", s.url, c.source, c.target)
		eventually(t, "the copy is under way", func() bool {
			entries, err := os.ReadDir(filepath.Join(dir, c.at))
			return err == nil && len(entries) == 1
		})
		if err := p.cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		if code := p.exitCode(); code != 128+int(c.sig) {
			t.Errorf("exit code %d after %v", code, c.sig)
		}
		wantFiles(t, filepath.Join(dir, c.at))
	}
}

func digest(t *testing.T, path string) (sum [sha256.Size]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("in %s are %q, want %q", dir, got, want)
	}
}
