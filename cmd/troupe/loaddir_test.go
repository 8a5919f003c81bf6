//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// The next load removes the directories of killed loads, and nothing else.
func TestLoadDirs(t *testing.T) {
	parent := testroot.Dir(t, "") // the path of a socket is short
	t.Setenv("TMPDIR", parent)
	newDir := func() *loadDir {
		d, err := newLoadDir()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	running, killed, serves := newDir(), newDir(), newDir()
	defer running.remove()
	l, err := net.Listen("unix", filepath.Join(serves.path, loadDirSocket)) // its server lives on for a while
	if err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(killed.path, loadDirSocket)})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	killed.lock.Close()
	serves.lock.Close()
	others := []string{filepath.Base(running.path), filepath.Base(serves.path)}
	for name, mode := range map[string]os.FileMode{"troupe-load-nolock": 0o700, "troupe-load-open": 0o755, "else": 0o700} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir, mode)
		if name != "troupe-load-nolock" {
			os.WriteFile(filepath.Join(dir, loadDirLock), nil, 0o600)
		}
		others = append(others, name)
	}
	if err := os.Symlink("else", filepath.Join(parent, "troupe-load-link")); err != nil {
		t.Fatal(err)
	}
	others = append(others, "troupe-load-link")
	wantDirs := func(want ...string) {
		t.Helper()
		var got []string
		entries, err := os.ReadDir(parent)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the directories are %q, want %q; %v", got, want, err)
		}
	}
	wantDirs(append(slices.Clone(others), filepath.Base(killed.path))...)
	next := newDir()
	wantDirs(append(slices.Clone(others), filepath.Base(next.path))...)
	next.remove()
	l.Close()
	newDir().remove()
	wantDirs(slices.DeleteFunc(slices.Clone(others), func(name string) bool { return name == filepath.Base(serves.path) })...)
}
