//go:build linux

package files

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/testroot"
	"golang.org/x/sys/unix"
)

const (
	notADirectory = "Not a directory (os error 20)"
	linkLoop      = "Symbolic link loop (os error 40)"
	containsLink  = "path contains a symbolic link"
	mustNameEntry = "path must name an entry"
)

// direct is the path of a name in dir under the rule; "/" is the root.
func direct(dir, name string) way {
	if name == "/" {
		return NoFollow("/")
	}
	return NoFollow(filepath.Join(dir, name))
}

func TestNoFollowRead(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "hello", "link@": "d/a", "dlink@": "d", "lost@": "none", "fifo|": ""})
	for _, c := range []struct{ name, data, err string }{
		{"d/a", "hello", ""},
		{"link", "", linkLoop}, {"lost", "", linkLoop},
		{"dlink/a", "", notADirectory}, {"dlink/none", "", notADirectory}, {"d/a/x", "", notADirectory},
		{"none", "", noSuchFile}, {"none/x", "", noSuchFile},
		{"d", "", "path is not a regular file"}, {"fifo", "", "path is not a regular file"},
		{"/", "", mustNameEntry},
	} {
		data, err := direct(dir, c.name).Read(100, nil)
		if wantText(t, err, c.err); string(data) != c.data {
			t.Errorf("%s has %q, want %q", c.name, data, c.data)
		}
	}
	if _, err := NoFollow("/proc/self/root"+dir+"/d/a").Read(100, nil); err == nil {
		t.Error("a magic link of /proc is followed")
	}
	_, err := direct(dir, "dlink/a").Read(100, nil)
	if advised, ok := errors.AsType[*Advised](err); !ok || advised.Advice != linkAdvice(dir+"/dlink/") {
		t.Errorf("the error of a link in the path has no advice: %#v", err)
	}
}

func TestNoFollowWrite(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "old", "out/": "", "link@": "d/a", "dlink@": "out", "lost@": "none", "fifo|": ""})
	os.Chmod(dir+"/d/a", 0o640)
	old, err := os.Open(dir + "/d/a")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for _, c := range []struct{ name, err string }{
		{"d/a", ""}, {"d/new", ""},
		{"link", linkLoop}, {"lost", linkLoop},
		{"dlink/x", notADirectory}, {"dlink/none/x", notADirectory}, {"d/a/x", notADirectory},
		{"none/x", noSuchFile},
		{"d", "Is a directory (os error 21)"},
		{"fifo", "No such device or address (os error 6)"},
		{"/", mustNameEntry},
	} {
		wantText(t, direct(dir, c.name).Write([]byte("new")), c.err)
	}
	wantNames(t, dir, "d/ d/a=new d/new=new dlink@out fifo link@d/a lost@none out/")
	if info, err := os.Stat(dir + "/d/a"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, want that of the old file, 0640", info.Mode())
	}
	was := make([]byte, 10)
	if n, _ := old.Read(was); string(was[:n]) != "old" {
		t.Errorf("a reader with the old file open reads %q: the write is not atomic", was[:n])
	}
}

func TestNoFollowCreateDirectory(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "", "out/": "", "dlink@": "out", "lost@": "none"})
	const exists = "File exists (os error 17)"
	for _, c := range []struct {
		name      string
		recursive bool
		err       string
	}{
		{"d/x/y/z", true, ""}, {"d/x/y/z", true, ""}, {"d/x/w", false, ""}, {"/", true, ""},
		{"d/x", false, exists}, {"dlink", false, exists}, {"lost", false, exists}, {"d/a", false, exists},
		{"/", false, "directory already exists"},
		{"n/x", false, noSuchFile},
		{"dlink/x", false, notADirectory}, {"dlink/x", true, notADirectory}, {"dlink/x/y", true, notADirectory}, {"dlink", true, notADirectory},
		{"lost", true, notADirectory}, {"lost/x", true, notADirectory}, {"d/a", true, notADirectory}, {"d/a/x", true, notADirectory},
	} {
		wantText(t, direct(dir, c.name).CreateDirectory(c.recursive), c.err)
	}
	wantNames(t, dir, "d/ d/a= d/x/ d/x/w/ d/x/y/ d/x/y/z/ dlink@out lost@none out/")
}

func TestNoFollowStat(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "hello", "link@": "d/a", "dlink@": "d", "lost@": "none", "fifo|": ""})
	for _, c := range []struct {
		name        string
		isDir, file bool
		err         string
	}{
		{"d/a", false, true, ""}, {"d", true, false, ""}, {"fifo", false, false, ""}, {"/", true, false, ""},
		{"link", false, false, containsLink}, {"dlink", false, false, containsLink}, {"lost", false, false, containsLink},
		{"dlink/a", false, false, notADirectory}, {"d/a/x", false, false, notADirectory},
		{"none", false, false, noSuchFile},
	} {
		m, err := direct(dir, c.name).Stat()
		if wantText(t, err, c.err); err != nil {
			continue
		}
		if m.IsDirectory != c.isDir || m.IsFile != c.file || m.IsSymlink || c.file && m.Size != 5 || m.ModifiedAtMs == 0 {
			t.Errorf("%s: %+v", c.name, m)
		}
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, direct(dir, c.name).Path, 0, unix.STATX_BTIME, &st); err != nil {
			t.Fatal(err)
		}
		if born := st.Btime.Sec*1000 + int64(st.Btime.Nsec)/1e6; m.CreatedAtMs != born {
			t.Errorf("%s: created at %d, want %d", c.name, m.CreatedAtMs, born)
		}
		if m, err := Stat(direct(dir, c.name).Path); err != nil || m.CreatedAtMs != 0 {
			t.Errorf("%s: when links are followed, created at %d, %v; want 0", c.name, m.CreatedAtMs, err)
		}
	}
}

func TestNoFollowRemove(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/a": "", "d/b": "", "empty/": "", "out/x": "", "link@": "d/a", "dlink@": "out", "lost@": "none", "fifo|": ""})
	for _, c := range []struct {
		name  string
		force bool
		err   string
	}{
		{"link", true, containsLink}, {"dlink", true, containsLink}, {"lost", true, containsLink},
		{"dlink/x", true, notADirectory}, {"dlink/none", true, notADirectory}, {"d/a/x", true, notADirectory},
		{"none", true, ""}, {"none", false, noSuchFile}, {"none/x", true, ""}, {"none/x", false, noSuchFile},
		{"d", true, "Directory not empty (os error 39)"},
		{"/", true, mustNameEntry},
		{"d/a", false, ""}, {"empty", false, ""}, {"fifo", true, ""},
	} {
		wantText(t, direct(dir, c.name).Remove(false, c.force), c.err)
	}
	for _, name := range []string{"d", "none", "dlink"} {
		wantText(t, direct(dir, name).Remove(true, true), "recursive no-follow removal is unsupported")
	}
	wantNames(t, dir, "d/ d/b= dlink@out link@d/a lost@none out/ out/x=")
}

// Without openat2(2) every call is refused, and nothing is done.
func TestNoFollowWithoutOpenat2(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "old"})
	real := openat2
	t.Cleanup(func() { openat2 = real })
	for _, errno := range []error{unix.ENOSYS, unix.EPERM} {
		openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, errno }
		p := direct(dir, "a")
		_, readErr := p.Read(100, nil)
		_, statErr := p.Stat()
		for _, err := range []error{readErr, statErr, p.Write(nil), direct(dir, "x").CreateDirectory(false), direct(dir, "x/y").CreateDirectory(true), p.Remove(false, true)} {
			if !errors.Is(err, errNoOpenat2) {
				t.Errorf("with %v: %v", errno, err)
			}
		}
		wantNames(t, dir, "a=old")
	}
}

// While a directory is swapped for a link and back, nothing passes through the link.
func TestNoFollowRaces(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/": "", "out/secret": "secret", "link@": "out"})
	outside := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/out", &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	before := outside()
	var over atomic.Bool
	var swapper sync.WaitGroup
	swaps := 0
	swapper.Go(func() {
		for ; !over.Load() || swaps%2 == 1; swaps++ {
			if swaps%32 == 0 {
				time.Sleep(50 * time.Microsecond) // a call in the directory takes longer than a refused call
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	done, refused := 0, 0
	for range 100_000 {
		if done >= 4000 && refused >= 20_000 {
			break
		}
		for name, call := range map[string]func() error{
			"write":  func() error { return direct(dir, "d/file").Write([]byte("x")) },
			"mkdir":  func() error { return direct(dir, "d/sub/sub").CreateDirectory(true) },
			"rmdir":  func() error { return direct(dir, "d/sub/sub").Remove(false, true) },
			"remove": func() error { return direct(dir, "d/secret").Remove(false, false) },
			"read":   func() error { _, err := direct(dir, "d/secret").Read(100, nil); return err },
			"stat":   func() error { _, err := direct(dir, "d/secret").Stat(); return err },
		} {
			err := call()
			inside := errors.Is(err, syscall.ENOENT) && (name == "remove" || name == "read" || name == "stat") // there is no secret
			switch {
			case inside, err == nil && name != "remove" && name != "read" && name != "stat":
				done++
			case errors.Is(err, syscall.ENOTDIR):
				refused++
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	over.Store(true)
	swapper.Wait()
	if outside() != before {
		t.Error("the directory outside has changed")
	}
	wantNames(t, dir+"/out", "secret=secret")
	if done == 0 || refused == 0 {
		t.Error("nothing was tried")
	}
	t.Logf("%d calls succeeded, %d were refused, in %d swaps", done, refused, swaps)
}
