package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A table names filesystems of other programs and machines by their first mount points. The filesystem of the root has no name.
func TestParse(t *testing.T) {
	table, err := parse([]byte("20 1 0:19 / / rw - 9p root rw\n21 20 0:19 /x /again rw - 9p root rw\n22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n" +
		"23 28 8:1 / /x rw - ext4 /dev/sda1 rw\n24 28 0:22 / /srv/a\\040b\\134c/net rw,relatime - nfs4 server:/ rw\n25 28 0:22 /d /d rw,relatime - nfs4 server:/ rw\n"))
	must(t, err)
	if want := (Mount{`/srv/a b\c/net`, "nfs4", 22}); !slices.Contains(table.All, want) {
		t.Errorf("no %v in %v", want, table.All)
	}
	for dir, want := range map[string]string{"/": "", "/again": "", "/sys": "", "/x": "", "/d": `/srv/a b\c/net`, `/srv/a b\c/net`: `/srv/a b\c/net`} {
		if name, ok := table.at[dir]; name != want || !ok {
			t.Errorf("%s: %q, %v", dir, name, ok)
		}
	}
	for _, text := range []string{"x", "22 28 0:21 / /sys rw\n", "22 28 0.21 / /sys rw - sysfs x rw\n"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// tree mounts a filesystem, and makes a directory with links to the filesystem.
func tree(t testing.TB) (dir string, fs *hangfs.FS) {
	fs = hangfs.Mount(t, map[string]string{"file": "", "dir/": ""})
	dir = t.TempDir()
	for target, name := range map[string]string{
		fs.Dir: "fs", "fs/.": "again", "d/../fs/file": "dots", "none": "dangling", "loop": "loop", "/": "root", fs.Dir + "/../x": "over", "file": "link",
		"/dev/shm/../..": "up", "/proc/self/root": "magic",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, os.Mkdir(dir+"/d", 0o700), os.WriteFile(dir+"/file", nil, 0o600))
	return dir, fs
}

// Find sends no request to a filesystem of another program, so Find does not hang.
func TestFind(t *testing.T) {
	dir, fs := tree(t)
	for _, op := range []int{hangfs.Lookup, hangfs.Open, 3, 27} {
		fs.Hang(op)
	}
	for _, at := range []struct {
		path   string
		follow bool
		there  bool
	}{
		{fs.Dir, true, true}, {fs.Dir, false, true}, {fs.Path("dir/x"), false, true},
		{dir + "/fs", true, true}, {dir + "/fs", false, false}, {dir + "/fs/x", false, true}, {dir + "/again", true, true}, {dir + "/dots", true, true},
		{dir + "/up" + dir + "/fs", true, true}, {dir + "/up" + dir + "/fs", false, false},
		{dir + "/over", true, true}, {dir + "/root" + fs.Dir, true, true}, {dir + "/up" + fs.Dir, true, true}, {dir + "/magic" + fs.Dir, true, true},
		{dir, true, false}, {dir + "/link", true, false}, {dir + "/file/x", true, false}, {dir + "/none/fs", true, false}, {dir + "/dangling", true, false}, {dir + "/loop", true, false},
		{"/", true, false}, {"/proc/self/stat", true, false}, {"/dev/shm", true, false}, {dir + "/d/../file", true, false},
	} {
		want := ""
		if at.there {
			want = fs.Dir
		}
		if got := Find(at.path, at.follow); got != want {
			t.Errorf("%s, follow %v: %q, want %q", at.path, at.follow, got, want)
		}
	}
	if n := fs.Hanging(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A mount and an unmount count at once, also of a part of a filesystem at another place.
func TestChanges(t *testing.T) {
	fs := hangfs.Mount(t, nil)
	needs.Root(t)
	dir := t.TempDir()
	if got := Find(dir, true); got != "" {
		t.Error(got)
	}
	must(t, unix.Mount(fs.Dir, dir, "", unix.MS_BIND, ""))
	got := Find(dir, true)
	must(t, unix.Unmount(dir, 0))
	if got != fs.Dir {
		t.Errorf("a bind mount: %q", got)
	}
	if got := Find(dir, true); got != "" {
		t.Error(got)
	}
}

func TestOf(t *testing.T) {
	fs := hangfs.Mount(t, map[string]string{"file": ""})
	for path, want := range map[string]string{fs.Path("file"): fs.Dir, "/proc/self/stat": ""} {
		f, err := os.Open(path)
		must(t, err)
		fs.Hang(3) // getattr
		if got := Of(int(f.Fd())); got != want {
			t.Errorf("%s: %q", path, got)
		}
		f.Close()
	}
}

// BenchmarkFind measures the price of a path beside the price of the smallest call.
func BenchmarkFind(b *testing.B) {
	file := filepath.Join(b.TempDir(), "file")
	must(b, os.WriteFile(file, nil, 0o600))
	run := func(name, path string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Find(path, true)
			}
		})
	}
	b.Run("os.ReadFile", func(b *testing.B) {
		for b.Loop() {
			os.ReadFile(file)
		}
	})
	run("none foreign", file)
	hangfs.Mount(b, nil)
	run("in the root", file)
	run("in another mount", "/dev/shm/none")
}
