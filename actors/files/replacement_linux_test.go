package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"
)

// as runs f with the rights of a user in a directory of this user. Only root can do that.
func as(t *testing.T, user int, f func(dir string)) {
	t.Helper()
	needs.Root(t)
	dir := t.TempDir()
	for up := dir; up != filepath.Clean(os.TempDir()) && up != "/"; up = filepath.Dir(up) {
		os.Chmod(up, 0o755)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		unix.Setfsgid(user)
		unix.Setfsuid(user)
		f(dir)
	}()
	<-done
}

// Some files stay the files they are, with their owner, mode and other names. Of them only the content changes.
func TestWriteInPlace(t *testing.T) {
	const user = 65534
	everybodys := t.TempDir() // as /tmp is; the TMPDIR of this test may belong to root alone
	os.Chmod(everybodys, 0o777|os.ModeSticky)
	as(t, user, func(dir string) {
		t.Setenv("TMPDIR", everybodys)
		for _, c := range []struct {
			name        string
			owner, mode int // of the file
			dirOwner    int
			dirMode     os.FileMode
			other       bool // the file has another name
		}{
			{"another name", user, 0o640, user, 0o755, true},
			{"another name in a directory that may not be written", user, 0o640, user, 0o555, true},
			{"directory may not be written", user, 0o604, user, 0o555, false},
			{"owner cannot be given", 0, 0o666, user, 0o755, false},
			{"sticky directory of another user", 0, 0o666, 0, 0o777 | os.ModeSticky, false},
		} {
			at := filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-"))
			path, twin := filepath.Join(at, "f"), at+".twin"
			asRoot(func() {
				os.Mkdir(at, 0o777)
				os.WriteFile(path, []byte("old and longer"), 0o666)
				os.Chown(path, c.owner, c.owner)
				os.Chmod(path, os.FileMode(c.mode))
				if c.other {
					os.Link(path, twin)
				}
				os.Chown(at, c.dirOwner, c.dirOwner)
				os.Chmod(at, c.dirMode)
			})
			before, _ := os.Stat(path)
			for _, write := range []func() error{
				func() error { return Write(path, []byte("new")) },
				func() error { return NoFollow(path).Write([]byte("new")) },
			} {
				if err := write(); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			after, err := os.Stat(path)
			if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() || int(after.Sys().(*syscall.Stat_t).Uid) != c.owner {
				t.Errorf("%s: the file is another, with mode %v", c.name, after.Mode())
			}
			var h Handles
			wantText(t, h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: path}, protocol.FsReplace)), "")
			wantText(t, h.Write("h", 3, []byte("er")), "")
			if data, _ := os.ReadFile(path); string(data) != "new" {
				t.Errorf("%s: before the handle is closed the file has %q", c.name, data)
			}
			wantText(t, h.Close(t.Context(), "h"), "")
			if data, _ := os.ReadFile(path); string(data) != "\x00\x00\x00er" {
				t.Errorf("%s: the file has %q", c.name, data)
			}
			if names, _ := os.ReadDir(at); len(names) != 1 {
				t.Errorf("%s: %v is left", c.name, names)
			}
		}
	})
}

func asRoot(f func()) {
	fsuid, _ := unix.SetfsuidRetUid(0)
	fsgid, _ := unix.SetfsgidRetGid(0)
	defer unix.Setfsuid(fsuid)
	defer unix.Setfsgid(fsgid)
	f()
}

// A file that is a mount point cannot be replaced.
func TestWriteMountPoint(t *testing.T) {
	needs.Mount(t)
	dir := testroot.Tree(t, map[string]string{"a": "old", "b": "below"})
	path := filepath.Join(dir, "b")
	if err := unix.Mount(filepath.Join(dir, "a"), path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	wantText(t, Write(path, []byte("new")), "")
	wantNames(t, dir, "a=new b=new")
}

// A copy onto another name of the same file loses nothing.
func TestCopyOntoOtherName(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "old"})
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	wantText(t, Copy(t.Context(), Place{Path: filepath.Join(dir, "a")}, Place{Path: filepath.Join(dir, "b")}, false, nil), "")
	wantNames(t, dir, "a=old b=old")
}
