package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

const planted = "planted in a file outside"

// yard is a directory with a root, and a directory outside of the root.
type yard struct {
	t                  testing.TB
	dir, root, outside string
}

func newYard(t testing.TB) *yard {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t, dir, dir + "/root", dir + "/outside"}
	for _, d := range []string{"root/d/e", "root/other", "outside/d/e", "outside/x"} {
		y.must(os.MkdirAll(dir+"/"+d, 0o755))
	}
	y.must(os.WriteFile(y.root+"/d/file", []byte("inside"), 0o644))
	for _, name := range []string{"file", "d/file", "d/e/file"} {
		y.must(os.WriteFile(y.outside+"/"+name, []byte(planted), 0o644))
	}
	return y
}

func (y *yard) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) link(target, name string) { y.must(os.Symlink(target, y.root+"/"+name)) }

// place returns a path below the root.
func (y *yard) place(name string) Place {
	return Place{Path: y.root + "/" + name, Root: y.root, Word: "read"}
}

// unharmed fails the test if something outside has changed.
func (y *yard) unharmed() {
	y.t.Helper()
	var all []string
	y.must(filepath.WalkDir(y.outside, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		text := ""
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			y.must(err)
			text = string(data)
		}
		all = append(all, fmt.Sprint(strings.TrimPrefix(path, y.outside), " ", info.Mode(), " ", text))
		return err
	}))
	const want = " drwxr-xr-x |/d drwxr-xr-x |/d/e drwxr-xr-x |/d/e/file -rw-r--r-- " + planted + "|/d/file -rw-r--r-- " + planted +
		"|/file -rw-r--r-- " + planted + "|/x drwxr-xr-x "
	if got := strings.Join(all, "|"); got != want {
		y.t.Fatalf("outside there is now\n%s\nwant\n%s", got, want)
	}
}

// allCalls are all calls with a place. The result is all they tell.
var allCalls = map[string]func(*yard, Place) (string, error){
	"read": func(_ *yard, p Place) (string, error) {
		data, err := p.Read(1000, nil)
		return string(data), err
	},
	"write":  func(_ *yard, p Place) (string, error) { return "", p.Write([]byte("new")) },
	"create": func(_ *yard, p Place) (string, error) { return "", p.CreateDirectory(false) },
	"create all": func(_ *yard, p Place) (string, error) {
		p.Path += "/new/new"
		return "", p.CreateDirectory(true)
	},
	"stat": func(_ *yard, p Place) (string, error) {
		m, err := p.Stat()
		m.ModifiedAtMs = 0
		return fmt.Sprint(m), err
	},
	"remove":     func(_ *yard, p Place) (string, error) { p.Path += "/file"; return "", p.Remove(false, true) },
	"remove all": func(_ *yard, p Place) (string, error) { p.Path += "/d"; return "", p.Remove(true, true) },
	"list": func(_ *yard, p Place) (string, error) {
		r, err := p.ReadDirectory(context.Background(), nil)
		return fmt.Sprint(r), err
	},
	"walk": func(_ *yard, p Place) (string, error) {
		r, err := p.Walk(context.Background(), protocol.FsWalkOptions{MaxDepth: 5, MaxDirectories: 100, MaxEntries: 100, FollowDirectorySymlinks: true}, nil)
		return fmt.Sprint(r), err
	},
	"real": func(_ *yard, p Place) (string, error) { return p.Canonicalize() },
	"copy file from": func(y *yard, p Place) (string, error) {
		p.Path += "/file"
		return y.copied(Copy(context.Background(), p, y.place("copy"), false, nil))
	},
	"copy from": func(y *yard, p Place) (string, error) {
		p.Path += "/."
		return y.copied(Copy(context.Background(), p, y.place("copy"), true, nil))
	},
	"copy to": func(y *yard, p Place) (string, error) {
		return "", Copy(context.Background(), y.place("other"), p, true, nil)
	},
	"copy file to": func(y *yard, p Place) (string, error) {
		return "", Copy(context.Background(), y.place("otherfile"), p, false, nil)
	},
	"copy link to": func(y *yard, p Place) (string, error) {
		p.Path += "/copied"
		return "", Copy(context.Background(), y.place("otherlink"), p, false, nil)
	},
	"open": func(_ *yard, p Place) (string, error) {
		var h Handles
		defer h.CloseAll()
		if err := h.Open(context.Background(), "h", nil, Do, toOpen(p, protocol.FsRead)); err != nil {
			return "", err
		}
		data, _, err := h.Read("h", 0, 1000)
		return string(data), err
	},
	"replace": func(_ *yard, p Place) (string, error) {
		var h Handles
		defer h.CloseAll()
		if err := h.Open(context.Background(), "h", nil, Do, toOpen(p, protocol.FsReplace)); err != nil {
			return "", err
		}
		return "", errors.Join(h.Write("h", 0, []byte("new")), h.Close(context.Background(), "h"))
	},
}

// copied returns the texts of the files copied to the root, and removes them.
func (y *yard) copied(err error) (string, error) {
	var text bytes.Buffer
	filepath.WalkDir(y.root+"/copy", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			text.Write(data)
		}
		return nil
	})
	y.must(os.RemoveAll(y.root + "/copy"))
	return text.String(), err
}

func (y *yard) others() {
	y.must(os.MkdirAll(y.root+"/other/d", 0o755))
	y.must(os.WriteFile(y.root+"/other/file", []byte("new"), 0o644))
	y.must(os.WriteFile(y.root+"/otherfile", []byte("new"), 0o644))
	y.link("nowhere", "otherlink")
}

// TestConfinedRefuses: no link leads out of the root, and the answer does not tell whether there is something.
func TestConfinedRefuses(t *testing.T) {
	y := newYard(t)
	y.others()
	links := map[string]string{
		"up": "../outside", "dot": "d/../../outside", "abs": y.outside, "back": y.root + "/d", "magic": "/proc/self/root" + y.outside, "cwd": "/proc/self/cwd",
		"none": "../none", "absnone": "/none", "upfile": "../outside/file", "absfile": y.outside + "/file", "upnone": "../outside/none", "over": "up", "self": "../root/d",
	}
	for name, target := range links {
		y.link(target, name)
	}
	answers := make(map[string]string)
	for link := range links {
		for _, rest := range []string{"", "/d", "/none", "/file"} {
			for call, do := range allCalls {
				said, err := do(y, y.place(link+rest))
				if err != nil {
					said = "" // clients get the error alone
				}
				y.unharmed()
				if strings.Contains(said, planted) {
					t.Fatalf("%s of %s%s tells what is outside: %s", call, link, rest, said)
				}
				// These are about the link itself, wherever it leads.
				if rest == "" && (call == "create" || call == "remove") {
					continue
				}
				if rest == "" && (call == "copy to" || call == "copy link to" || call == "copy file to") {
					continue
				}
				if !errors.Is(err, rules.ErrRefused) {
					t.Errorf("%s of %s%s: %q, %v, want a refusal", call, link, rest, said, err)
				}
				answer := strings.ReplaceAll(fmt.Sprint(said, err), link+rest, "X")
				if first := answers[call]; first == "" {
					answers[call] = answer
				} else if answer != first {
					t.Errorf("%s of %s%s answers %s, and of another link %s", call, link, rest, answer, first)
				}
			}
		}
	}
	for _, path := range []string{"/etc/passwd", y.root + "2", y.dir, y.outside + "/file", y.root + "/../outside/file", y.root + "/d/../../outside/file"} {
		for call, do := range allCalls {
			if _, err := do(y, Place{Path: path, Root: y.root}); err == nil {
				t.Errorf("%s of %s succeeds", call, path)
			}
			y.unharmed()
		}
	}
}

// TestConfinedAllows: below a root everything works that works elsewhere, with relative links that stay there, and
// if the path of the root has links.
func TestConfinedAllows(t *testing.T) {
	y := newYard(t)
	y.link("d", "in")
	y.link("../d/file", "d/infile")
	y.must(os.Symlink("root", y.dir+"/link"))
	for _, root := range []string{y.root, y.dir + "/link"} {
		place := func(name string) Place { return Place{Path: filepath.Join(root, name), Root: root} }
		wantRead := func(name, want string) {
			t.Helper()
			if data, err := place(name).Read(100, nil); string(data) != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", name, data, err, want)
			}
		}
		y.must(os.WriteFile(y.root+"/d/file", []byte("inside"), 0o644))
		wantRead("in/file", "inside")
		wantRead("d/infile", "inside")
		wantRead("in/e/../infile", "inside")
		y.must(place("in/infile").Write([]byte("by a link")))
		wantRead("d/file", "by a link")
		if info, err := os.Lstat(y.root + "/d/infile"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Error("a link was replaced", err)
		}
		y.must(place("in/new").Write([]byte("new")))
		wantRead("d/new", "new")
		y.must(place("in/a/b").CreateDirectory(true))
		y.must(place("").CreateDirectory(true))
		if m, err := place("in").Stat(); err != nil || !m.IsDirectory || !m.IsSymlink {
			t.Error(m, err)
		}
		if m, err := place("").Stat(); err != nil || !m.IsDirectory {
			t.Error(m, err)
		}
		if r, err := place("").ReadDirectory(context.Background(), nil); err != nil || len(r.Entries) < 3 {
			t.Error(r, err)
		}
		if r, err := place("").Walk(context.Background(), protocol.FsWalkOptions{MaxDepth: 5, MaxDirectories: 100, MaxEntries: 100, FollowDirectorySymlinks: true}, nil); err != nil || len(r.Entries) < 6 || len(r.Errors) > 0 {
			t.Error(r, err)
		}
		if real, err := place("in/infile").Canonicalize(); real != y.root+"/d/file" || err != nil {
			t.Error(real, err)
		}
		y.must(Copy(context.Background(), place("in/file"), place("in/copy"), false, nil))
		wantRead("d/copy", "by a link")
		y.must(Copy(context.Background(), place("d"), place("x/y"), true, nil))
		wantRead("x/y/file", "by a link")
		y.must(os.RemoveAll(y.root + "/x"))
		y.must(Copy(context.Background(), place("d"), place(""), true, nil))
		wantRead("copy", "by a link")
		if err := Copy(context.Background(), place(""), place("d/deep"), true, nil); err == nil || !strings.Contains(err.Error(), "to itself or one of its descendants") {
			t.Error(err)
		}
		y.must(place("in/a").Remove(true, false))
		y.must(place("copy").Remove(false, false))
		wantText(t, place("copy").Remove(false, false), "No such file or directory (os error 2)")
		if err := place("").Remove(true, true); err == nil || !strings.Contains(err.Error(), "is not removed") {
			t.Error(err)
		}
		wantText(t, place("none/x").Write(nil), "No such file or directory (os error 2)")
		wantText(t, place("none").CreateDirectory(false), "")
		wantText(t, place("none").CreateDirectory(false), "File exists (os error 17)")
		y.must(place("none").Remove(true, false))
	}
	y.unharmed()
}

// TestConfinedAgainstSwaps: a link and a directory take each other's place all the time, and no call gets out.
func TestConfinedAgainstSwaps(t *testing.T) {
	for _, swap := range []struct{ name, target string }{{"relative", "../outside"}, {"absolute", ""}} {
		t.Run(swap.name, func(t *testing.T) {
			y := newYard(t)
			y.others()
			target := swap.target
			if target == "" {
				target = y.outside
			}
			y.link(target, "sw")
			y.must(os.MkdirAll(y.root+"/away/d/e", 0o755))
			y.must(os.WriteFile(y.root+"/away/file", []byte("inside"), 0o644))
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						unix.Renameat2(unix.AT_FDCWD, y.root+"/sw", unix.AT_FDCWD, y.root+"/away", unix.RENAME_EXCHANGE)
					}
				}
			})
			defer wg.Wait()
			defer close(stop)
			met := map[bool]int{}
			for i := range 100 {
				for call, do := range allCalls {
					for _, rest := range []string{"sw", "sw/d", "sw/file"} {
						said, err := do(y, y.place(rest))
						if strings.Contains(said, planted) || strings.Contains(said, y.outside) {
							t.Fatalf("%s of %s got out: %s", call, rest, said)
						}
						met[errors.Is(err, rules.ErrRefused)]++
					}
				}
				if i%10 == 0 {
					y.unharmed()
				}
			}
			y.unharmed()
			if met[true] == 0 || met[false] == 0 {
				t.Errorf("%d calls refused, %d not: the swaps did not meet the calls", met[true], met[false])
			}
		})
	}
}

// TestConfinedNoFollow: without links nothing gets out, and nothing makes or removes the root itself.
func TestConfinedNoFollow(t *testing.T) {
	y := newYard(t)
	y.link("../outside", "up")
	calls := map[string]func(way) error{
		"read":   func(p way) error { _, err := p.Read(100, nil); return err },
		"write":  func(p way) error { return p.Write([]byte("new")) },
		"stat":   func(p way) error { _, err := p.Stat(); return err },
		"create": func(p way) error { return p.CreateDirectory(false) },
		"make":   func(p way) error { return p.CreateDirectory(true) },
		"remove": func(p way) error { return p.Remove(false, false) },
	}
	for name, call := range calls {
		for _, path := range []string{"up/file", "up/new", "up/x"} {
			if err := call(y.place(path).NoFollow()); err == nil {
				t.Errorf("%s of %s succeeds", name, path)
			}
			y.unharmed()
		}
	}
	if p := y.place("d/file").NoFollow(); calls["read"](p) != nil || calls["write"](p) != nil {
		t.Error("a file below the root")
	}
	y.must(os.Mkdir(y.dir+"/empty", 0o755))
	if (Place{Path: y.dir + "/empty", Root: y.dir + "/empty"}).NoFollow().Remove(false, false) == nil {
		t.Fatal("the root was removed")
	}
	for root, exists := range map[string]bool{y.dir + "/empty": true, y.dir + "/missing": false} {
		for name, call := range calls {
			for _, path := range []string{root, root + "/a/b"} {
				err := call(Place{Path: path, Root: root}.NoFollow())
				if err == nil && path == root && name != "stat" && name != "make" {
					t.Errorf("%s of %s succeeds", name, path)
				}
				if info, err := os.Lstat(root); (err == nil && info.IsDir()) != exists {
					t.Fatalf("after %s of %s the root is %v, %v", name, path, info, err)
				}
			}
		}
	}
}

// TestConfinedView: every method of a View refuses a way out by itself, as others may change the way between
// two calls.
func TestConfinedView(t *testing.T) {
	y := newYard(t)
	y.link("../outside", "up")
	y.must(os.Symlink("planted", y.outside+"/link"))
	v, err := y.place("d").View()
	y.must(err)
	defer v.Close()
	first := func(_ any, err error) error { return err }
	for name, call := range map[string]func(path string) error{
		"Lstat": func(p string) error { return first(v.Lstat(p)) }, "Stat": func(p string) error { return first(v.Stat(p)) },
		"Readlink": func(p string) error { return first(v.Readlink(p)) }, "Mkdir": func(p string) error { return v.Mkdir(p+"new", 0o777) },
		"MkdirAll": func(p string) error { return v.MkdirAll(p+"new", 0o777) }, "Remove": v.Remove, "RemoveAll": v.RemoveAll,
		"Symlink": func(p string) error { return v.Symlink("x", p+"new") }, "Rename": func(p string) error { return v.Rename(y.root+"/d/file", p) },
		"Rename from": func(p string) error { return v.Rename(p, y.root+"/d/new") }, "Chmod": func(p string) error { return v.Chmod(p, 0) },
		"Canonicalize": func(p string) error { return first(v.Canonicalize(p)) }, "isDirectory": v.isDirectory,
		"Pin":  func(p string) error { return v.Pin(p, func(string) error { t.Error("Pin got out"); return nil }) },
		"open": func(p string) error { return first(v.at(p).open(0, 0)) }, "stat": func(p string) error { _, _, err := v.at(p).stat(); return err },
		"Follow": func(p string) error { return first(Follow(v, p, func(_, _ string) error { return nil })) },
	} {
		for _, path := range []string{"/up/link", "/../outside/link", "/../outside/d/file", "/up/d"} {
			if err := call(y.root + path); !errors.Is(err, rules.ErrRefused) {
				t.Errorf("%s of %s: %v, want a refusal", name, path, err)
			}
		}
		if link, err := os.Readlink(y.outside + "/link"); link != "planted" {
			t.Fatal(name, err)
		}
	}
	y.must(os.Remove(y.outside + "/link"))
	y.unharmed()
}
