//go:build linux

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

const (
	fileExists = "File exists (os error 17)"
	intoItself = "fs/copy cannot copy a directory to itself or one of its descendants"
	notCopied  = "fs/copy only supports regular files, directories, and symlinks"
)

func wantModes(t *testing.T, dir string, modes map[string]fs.FileMode) {
	t.Helper()
	for name, want := range modes {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("the mode of %s is %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
}

func TestCopy(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{
		"a": "new", "b": "old", "link@": "a", "self@": "a", "gone@": "none", "l2@": "b", "fifo|": "", "d/x": "1", "e/": "",
	})
	os.Chmod(dir+"/a", 0o751)
	twin := filepath.Join(t.TempDir(), "twin") // another name of a
	if err := os.Link(dir+"/a", twin); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to  string
		recursive bool
		err       string
	}{
		{"a", "b", false, ""},
		{"a", "a", false, ""},
		{"a", "self", false, ""}, // self is the same file as a
		{"link", "c", true, ""},
		{"gone", "gone2", false, ""},
		{"link", "l2", false, ""},
		{"link", "l2", false, ""},
		{"link", "b", false, fileExists},
		{"link", "e", false, fileExists},
		{"link", "no/c", false, noSuchFile},
		{"none", "c", true, noSuchFile},
		{"a", "no/c", false, noSuchFile},
		{"a", "d", false, "Is a directory (os error 21)"},
		{"a", "fifo", false, "No such device or address (os error 6)"},
		{"fifo", "c2", false, notCopied},
		{"fifo", "c2", true, notCopied},
		{"d", "d2", false, "fs/copy requires recursive: true when sourcePath is a directory"},
		{"d", "a", true, fileExists},
		{"d", "gone", true, fileExists},
		{"d", "a/x", true, notADirectory},
	} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			wantText(t, Copy(t.Context(), Place{Path: filepath.Join(dir, c.from)}, Place{Path: filepath.Join(dir, c.to)}, c.recursive, nil), c.err)
		})
	}
	if info, err := os.Stat(twin); err != nil || info.Sys().(*syscall.Stat_t).Nlink != 2 {
		t.Errorf("a copy of a file onto itself is another file: %v", err)
	}
	wantText(t, Copy(t.Context(), Place{Path: "/dev/null"}, Place{Path: dir + "/c2"}, true, nil), notCopied)
	wantNames(t, dir, "a=new b=new c@a d/ d/x=1 e/ fifo gone@none gone2@none l2@a link@a self@a")
	wantModes(t, dir, map[string]fs.FileMode{"a": 0o751, "b": 0o751})
	// Through a link as target the link's target is written.
	if err := os.WriteFile(dir+"/other", []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, Copy(t.Context(), Place{Path: dir + "/other"}, Place{Path: dir + "/l2"}, false, nil), "")
	wantText(t, Copy(t.Context(), Place{Path: dir + "/other"}, Place{Path: dir + "/gone"}, false, nil), "")
	wantNames(t, dir, "a=other b=new c@a d/ d/x=1 e/ fifo gone@none gone2@none l2@a link@a none=other other=other self@a")
	// A target that must stay the file that it is, since it has two names, gets the mode of the source, too.
	if err := os.Chmod(dir+"/other", 0o640); err != nil {
		t.Fatal(err)
	}
	wantText(t, Copy(t.Context(), Place{Path: dir + "/other"}, Place{Path: twin}, false, nil), "")
	if info, err := os.Stat(twin); err != nil || info.Mode().Perm() != 0o640 || info.Sys().(*syscall.Stat_t).Nlink != 2 {
		t.Errorf("after the copy, the file with two names is %+v, want the mode 0640 (%v)", info, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Copy(done, Place{Path: dir + "/a"}, Place{Path: dir + "/late"}, false, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that is no longer wanted: %v", err)
	}
	if _, err := os.Lstat(dir + "/late"); err == nil {
		t.Error("a copy that is no longer wanted is there")
	}
}

func TestCopyTree(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{
		"d/x": "1", "d/sub/y": "2", "d/l@": "x", "d/far@": "/etc", "d/gone@": "none", "d/fifo|": "", "d/bad\xff/z": "3", "d/empty/": "",
		"into/d/x": "old", "into/d/keep": "4", "into/d/sub/": "", "into/d/l@": "old",
	})
	socket, err := net.Listen("unix", dir+"/d/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for path, mode := range map[string]fs.FileMode{"d": 0o750, "d/sub": 0o555, "d/empty": 0o700, "into/d": 0o711, "into/d/sub": 0o777} {
		os.Chmod(filepath.Join(dir, path), mode)
	}
	const want = "bad\xff/ bad\xff/z=3 empty/ far@/etc gone@none"
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/new/parents/d"}, true, nil), "")
	wantNames(t, dir+"/new/parents/d", want+" l@x sub/ sub/y=2 x=1")
	wantModes(t, dir+"/new/parents", map[string]fs.FileMode{"d": 0o750, "d/sub": 0o555, "d/empty": 0o700, "d/x": 0o666 &^ umask(t)})
	// Into an existing directory, and again.
	for range 2 {
		wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/into/d"}, true, nil), "")
		wantNames(t, dir+"/into/d", want+" keep=4 l@x sub/ sub/y=2 x=1")
	}
	wantModes(t, dir+"/into", map[string]fs.FileMode{"d": 0o711, "d/sub": 0o777, "d/empty": 0o700})
	for _, sub := range []string{"/d/sub", "/new/parents/d/sub"} {
		os.Chmod(dir+sub, 0o755)
	}
}

func umask(t *testing.T) fs.FileMode {
	t.Helper()
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask)
}

// A copy keeps the set-group-ID bit that a directory inherits.
func TestCopyTreeForGroup(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/sub/": "", "group/": ""})
	os.Chmod(dir+"/group", fs.ModeSetgid|0o775)
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/group/d"}, true, nil), "")
	if info, err := os.Stat(dir + "/group/d/sub"); err != nil || info.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// More entries than are read at a time.
func TestCopyLargeTree(t *testing.T) {
	smaller(t, &dirBatch, 50)
	dir := t.TempDir()
	for i := range dirBatch + 10 {
		if err := os.Mkdir(fmt.Sprintf("%s/d%d", dir, i), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("x", fmt.Sprintf("%s/l%d", dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	wantText(t, Copy(t.Context(), Place{Path: dir}, Place{Path: dir + "-copy"}, true, func(n int) error { held += n; return nil }), "")
	if got, want := len(entries(t, dir+"-copy")), len(entries(t, dir)); got != want || held != 0 {
		t.Errorf("%d entries, want %d; %d bytes are held", got, want, held)
	}
	full := errors.New("full")
	if err := Copy(t.Context(), Place{Path: dir}, Place{Path: dir + "-copy"}, true, func(n int) error {
		if held += n; held > 500 {
			held -= n
			return full
		}
		return nil
	}); !errors.Is(err, full) || held != 0 {
		t.Errorf("%v; %d bytes are held", err, held)
	}
}

// A directory is not copied into itself, whatever the path says. Nothing is left behind.
func TestCopyIntoItself(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{
		"d/sub/x": "1", "up@": "d", "deep@": "d/sub", "dd/": "", "d/d/": "", "merge/sub@": "../d/sub", "bind/": "",
	})
	before := names(t, dir)
	for _, to := range []string{"d", "d/sub", "d/sub/new", "d/new", "d/new/parents", "up", "up/new", "deep/new", "deep"} {
		wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: filepath.Join(dir, to)}, true, nil), intoItself)
		wantNames(t, dir, before)
	}
	wantText(t, Copy(t.Context(), Place{Path: dir + "/up"}, Place{Path: dir + "/d/link"}, true, nil), "") // a link is not its target
	os.Remove(dir + "/d/link")
	// A link within an existing target leads back into the source.
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/merge"}, true, nil), intoItself)
	os.RemoveAll(dir + "/merge/d")
	// A directory beside it, or above, is another.
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/dd"}, true, nil), "")
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir}, true, nil), "")
	wantNames(t, dir, "bind/ d/ d/d/ d/sub/ d/sub/x=1 dd/ dd/d/ dd/sub/ dd/sub/x=1 deep@d/sub merge/ merge/sub@../d/sub sub/ sub/x=1 up@d")
	needs.Mount(t)
	if err := syscall.Mount(dir+"/d", dir+"/bind", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir+"/bind", 0)
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/bind/new"}, true, nil), intoItself)
	wantNames(t, dir+"/d", "d/ sub/ sub/x=1")
}

// A copy that fails halfway leaves whole files, and directories that nobody else may read.
func TestCopyFailsHalfway(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "1", "d/sub/b": "2", "d/sub/locked": "3"})
	testroot.ObeyModes(t)
	os.Chmod(dir+"/d/sub/locked", 0)
	wantText(t, Copy(t.Context(), Place{Path: dir + "/d"}, Place{Path: dir + "/to"}, true, nil), "Permission denied (os error 13)")
	got := strings.ReplaceAll(names(t, dir+"/to"), " sub/b=2", "") // before or after the failure
	if want := "a=1 sub/"; got != want {
		t.Errorf("there is %q, want %q", got, want)
	}
	wantModes(t, dir, map[string]fs.FileMode{"to": 0o700, "to/sub": 0o700})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Copy(done, Place{Path: dir + "/d"}, Place{Path: dir + "/late"}, true, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that is no longer wanted: %v", err)
	}
	wantNames(t, dir+"/late", "")
}

// A deep tree takes no file descriptors.
func TestCopyDeepTree(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("/d", 150)
	if err := os.MkdirAll(dir+"/from"+deep, 0o777); err != nil {
		t.Fatal(err)
	}
	var before, fewer syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	fewer = before
	fewer.Cur = 100
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &fewer); err != nil {
		t.Fatal(err)
	}
	wantText(t, Copy(t.Context(), Place{Path: dir + "/from"}, Place{Path: dir + "/to"}, true, nil), "")
	if _, err := os.Stat(dir + "/to" + deep); err != nil {
		t.Error(err)
	}
}
