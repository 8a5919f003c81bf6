// Package testroot keeps a test away from files not made by the test.
//
// Dir makes a directory for a test. Inside and Confine start a process able to write only to such directories, however a path is
// spelled: with links, with .., through /proc, through its working directory or as the owner of a file. The kernel refuses, not the
// code under test. A fuzzer of a server, and whatever else chooses requests at random, runs so.
//
// Every worker of `go test -fuzz` whose test binary has this package runs as a test that called Inside. The pure decoders
// without this package open no file.
package testroot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Dir makes a directory and removes it at the end of the test. Unlike the path of t.TempDir, the path is short enough for a socket, has no
// links, and every user may follow it from its parent on. The parent "" is the directory for temporary files.
func Dir(t testing.TB, parent string) string {
	t.Helper()
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "troupe-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Tree makes files in a new directory, whose path has no links. The map has the content by path. A path ending in a slash is a directory,
// in @ a symbolic link to the content, in | a fifo.
func Tree(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		at := filepath.Join(dir, strings.TrimRight(path, "@|"))
		err := os.MkdirAll(filepath.Dir(at), 0o777)
		switch {
		case err != nil:
		case strings.HasSuffix(path, "/"):
			err = os.MkdirAll(at, 0o777)
		case strings.HasSuffix(path, "@"):
			err = os.Symlink(content, at)
		case strings.HasSuffix(path, "|"):
			err = syscall.Mkfifo(at, 0o666)
		default:
			err = os.WriteFile(at, []byte(content), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// remove is os.RemoveAll, also for directories whose mode forbids removal.
func remove(dir string) error {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
