//go:build linux

package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// manyLinks makes a directory of n dangling links.
func manyLinks(t *testing.T, n int) (dir string) {
	dir = t.TempDir()
	for i := range n {
		if err := os.Symlink("x", filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Entries skipped in a large directory might belong to the result, so Walk sets Truncated.
func TestWalkOfMoreThanIsRead(t *testing.T) {
	smaller(t, &maxEntries, 200)
	dir := manyLinks(t, maxEntries+2)
	r, err := Walk(t.Context(), dir, protocol.FsWalkOptions{MaxDepth: 1, MaxDirectories: 1, MaxEntries: 10}, nil)
	if err != nil || !r.Truncated {
		t.Errorf("truncated: %v, %v", r.Truncated, err)
	}
}

// walked is a result of Walk as one text, with paths below dir.
func walked(t *testing.T, dir string, r protocol.FsWalkResult) string {
	t.Helper()
	var all []string
	add := func(uri, text string) {
		path, err := protocol.ParseFileURI(uri)
		wantText(t, err, "")
		all = append(all, strings.TrimPrefix(path, dir+"/")+text)
	}
	for _, e := range r.Entries {
		add(e.Path, map[string]string{"file": "", "directory": "/"}[e.Kind])
	}
	for _, e := range r.Errors {
		add(e.Path, ": "+e.Message)
	}
	if r.Truncated {
		all = append(all, "…")
	}
	return strings.Join(all, " ")
}

func TestWalk(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{
		"a": "", "b/c": "", "b/d/e": "", "link@": "a", "z/f": "", "b/up@": "..", "y@": "z", "fifo|": "",
		".h/i": "", "gone@": "none", "b/loop@": "loop", "b/bad\xff": "",
	})
	const bad = " b/bad\ufffd: " + noSuchFile
	for _, c := range []struct {
		depth, directories, entries uint64
		follow, prune               bool
		want                        string
	}{
		{9, 9, 99, false, false, ".h/ a b/ z/ .h/i b/c b/d/ z/f b/d/e" + bad},
		{0, 9, 99, false, false, ".h/ a b/ z/"},
		{1, 9, 99, false, false, ".h/ a b/ z/ .h/i b/c b/d/ z/f" + bad},
		{64, 10_000, 50_000, false, true, ".h/ a b/ z/ b/c b/d/ z/f b/d/e" + bad},
		// Not all directories are entered, and all entries of the entered directories are listed.
		{9, 1, 99, false, false, ".h/ a b/ z/ …"},
		{9, 2, 99, false, false, ".h/ a b/ z/ .h/i …"},
		{9, 5, 99, false, false, ".h/ a b/ z/ .h/i b/c b/d/ z/f b/d/e" + bad},
		{9, 1, 99, false, true, ".h/ a b/ z/ …"},
		{0, 1, 99, false, false, ".h/ a b/ z/"},
		// Links, fifos and errors count as entries. Dangling links do not.
		{9, 9, 1, false, false, ".h/ …"},
		{9, 9, 4, false, false, ".h/ a b/ …"}, // the fourth is the fifo
		{9, 9, 7, false, false, ".h/ a b/ z/ …"},
		{9, 9, 8, false, false, ".h/ a b/ z/ .h/i …"},
		{9, 9, 14, false, false, ".h/ a b/ z/ .h/i b/c b/d/ z/f b/d/e" + bad},
		{9, 9, 13, false, false, ".h/ a b/ z/ .h/i b/c b/d/ z/f" + bad + " …"},
		// b/up is the directory itself, and z is y. Both are listed and not entered.
		{9, 9, 99, true, false, ".h/ a b/ y/ z/ .h/i b/c b/d/ b/up/ y/f b/d/e" + bad},
		{0, 9, 99, true, false, ".h/ a b/ y/ z/"},
		{9, 4, 99, true, false, ".h/ a b/ y/ z/ .h/i b/c b/d/ b/up/ y/f" + bad + " …"},
	} {
		r, err := Walk(t.Context(), dir, protocol.FsWalkOptions{
			MaxDepth: c.depth, MaxDirectories: c.directories, MaxEntries: c.entries,
			FollowDirectorySymlinks: c.follow, PruneHiddenDirectories: c.prune,
		}, nil)
		if got := walked(t, dir, r); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Walk(done, dir, protocol.FsWalkOptions{MaxDepth: 1, MaxDirectories: 1, MaxEntries: 1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a walk that is no longer wanted: %v", err)
	}
}

func TestWalkRoot(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "", "d/x": "", "l@": "d", "gone@": "none", "fifo|": ""})
	for _, c := range []struct {
		root      string
		follow    bool
		want, err string
	}{
		{"a", true, "", ""},
		{"fifo", true, "", ""},
		{"d", true, "d/x", ""},
		{"l", true, "l/x", ""},
		{"l", false, "", ""},
		{"none", true, "", noSuchFile},
		{"gone", false, "", noSuchFile},
		{"a/x", false, "", "Not a directory (os error 20)"},
	} {
		r, err := Walk(t.Context(), filepath.Join(dir, c.root), protocol.FsWalkOptions{MaxDirectories: 1, MaxEntries: 9, FollowDirectorySymlinks: c.follow}, nil)
		wantText(t, err, c.err)
		if got := walked(t, dir, r); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Wrong limits are found before the root is looked at.
func TestWalkLimits(t *testing.T) {
	const zero = "filesystem walk limits must be greater than zero"
	const excess = "filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000"
	for _, c := range []struct {
		depth, directories, entries uint64
		err                         string
	}{
		{8, 0, 100, zero}, {8, 100, 0, zero}, {65, 0, 0, zero},
		{65, 100, 100, excess}, {8, 10_001, 100, excess}, {8, 100, 50_001, excess}, {1<<64 - 1, 1, 1, excess},
		{0, 1, 1, noSuchFile}, {64, 10_000, 50_000, noSuchFile},
	} {
		_, err := Walk(t.Context(), "/none", protocol.FsWalkOptions{MaxDepth: c.depth, MaxDirectories: c.directories, MaxEntries: c.entries}, nil)
		wantText(t, err, c.err)
		if _, refused := errors.AsType[*Refusal](err); refused != (c.err != noSuchFile) {
			t.Errorf("%+v: refused %v", c, refused)
		}
	}
}

// A walk holds the listing of a directory only while it goes through the directory.
func TestListingsAreGivenBack(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a/b/c/d/e/f/": ""})
	held := 0
	hold := func(n int) error {
		held += n
		return nil
	}
	r, err := Walk(t.Context(), dir, protocol.FsWalkOptions{MaxDepth: 10, MaxDirectories: 10, MaxEntries: 10}, hold)
	if err != nil || len(r.Entries) != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := len(dir) // the texts of the result, and the paths of the directories that were to be listed
	for _, e := range r.Entries {
		want += 2*len(e.Path) - len("file://")
	}
	if held != want {
		t.Errorf("a walk holds %d bytes at its end, want %d for its result", held, want)
	}
}

// An unreadable directory is listed, and also an error. So is the root.
func TestWalkUnreadable(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/x": "", "e/y": ""})
	testroot.ObeyModes(t)
	if err := os.Chmod(dir+"/d", 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir+"/d", 0o777)
	for root, want := range map[string]string{
		"":   "d/ e/ e/y d: Permission denied (os error 13)",
		"/d": "d: Permission denied (os error 13)",
	} {
		r, err := Walk(t.Context(), dir+root, protocol.FsWalkOptions{MaxDepth: 9, MaxDirectories: 9, MaxEntries: 9}, nil)
		if got := walked(t, dir, r); got != want || err != nil {
			t.Errorf("%q: %s, %v", root, got, err)
		}
	}
}

// The bytes of a result are bounded: each entry counts its URI and 64 bytes, each error also its text.
func TestWalkBytes(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "", "b": "", "c\xff": ""})
	whole := maxWalkBytes
	defer func() { maxWalkBytes = whole }()
	o := protocol.FsWalkOptions{MaxDirectories: 1, MaxEntries: 9}
	file := len(protocol.FileURI(dir+"/a")) + 64
	failure := len(protocol.FileURI(dir+"/c\ufffd")) + len(noSuchFile) + 64
	for _, c := range []struct {
		bytes int
		want  string
	}{
		{2*file + failure, "a b c\ufffd: " + noSuchFile}, {2*file + failure - 1, "a b …"}, {2*file - 1, "a …"}, {file - 1, "…"},
	} {
		maxWalkBytes = c.bytes
		r, err := Walk(t.Context(), dir, o, nil)
		if got := walked(t, dir, r); got != c.want || err != nil {
			t.Errorf("%d bytes: %s, %v", c.bytes, got, err)
		}
	}
	// A Hold hears of all bytes of a result. An error of the Hold ends the walk.
	maxWalkBytes = whole
	var held []int
	if _, err := Walk(t.Context(), dir, o, func(n int) error { held = append(held, n); return nil }); err != nil {
		t.Error(err)
	}
	for _, n := range []int{file - 64, file - 64, failure - 64} {
		if !slices.Contains(held, n) {
			t.Errorf("%d bytes are not among %d", n, held)
		}
	}
	full := errors.New("full")
	for i := range held {
		calls := 0
		_, err := Walk(t.Context(), dir, o, func(n int) error {
			if calls++; calls == i+1 && n > 0 {
				return full
			}
			return nil
		})
		if held[i] > 0 && !errors.Is(err, full) {
			t.Errorf("at call %d of Hold: %v", i, err)
		}
	}
}
