//go:build linux

package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// names lists all paths below dir, with their content.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			name += "@" + to
		case d.Type().IsRegular():
			content, _ := os.ReadFile(path)
			name += "=" + string(content)
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func wantNames(t *testing.T, dir, want string) {
	t.Helper()
	if got := names(t, dir); got != want {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// wantText wants an error with this text for the wire; "" means no error.
func wantText(t *testing.T, err error, want string) {
	t.Helper()
	text := ""
	if err != nil {
		text = Text(err)
	}
	if text != want {
		t.Errorf("error %q, want %q", text, want)
	}
}

const noSuchFile = "No such file or directory (os error 2)"

// errs are the errors of a call that follows links, and of one that refuses them; "" is no error. DIR stands for the directory of the test.
type errs struct{ follows, refuses string }

func same(err string) errs { return errs{err, err} }

// bothWays runs a test in a tree with calls that follow links, and in another tree with calls that refuse them. at is a call at a name in
// the tree, or at the root, "/". want is the error of this way.
func bothWays(t *testing.T, tree map[string]string, test func(t *testing.T, dir string, at func(name string) way, want func(errs) string)) {
	for _, noLinks := range []bool{false, true} {
		t.Run(fmt.Sprintf("noLinks=%v", noLinks), func(t *testing.T) {
			dir := testroot.Tree(t, tree)
			at := func(name string) way {
				if name != "/" {
					name = filepath.Join(dir, name)
				}
				return way{Place{Path: name}, noLinks}
			}
			test(t, dir, at, func(e errs) string {
				if noLinks {
					return e.refuses
				}
				return strings.ReplaceAll(e.follows, "DIR", dir)
			})
		})
	}
}

func TestRead(t *testing.T) {
	tree := map[string]string{"a": "hello", "empty": "", "d/a": "hello", "link@": "a", "dlink@": "d", "loop@": "loop", "lost@": "none", "fifo|": ""}
	bothWays(t, tree, func(t *testing.T, dir string, at func(string) way, want func(errs) string) {
		for _, c := range []struct {
			name, data string
			err        errs
		}{
			{"a", "hello", same("")}, {"d/a", "hello", same("")}, {"empty", "", same("")},
			{"link", "hello", errs{"", linkLoop}}, {"dlink/a", "hello", errs{"", notADirectory}},
			{"lost", "", errs{noSuchFile, linkLoop}}, {"dlink/none", "", errs{noSuchFile, notADirectory}},
			{"none", "", same(noSuchFile)}, {"none/x", "", same(noSuchFile)}, {"a/b", "", same(notADirectory)}, {"loop", "", same(linkLoop)},
			{"d", "", errs{"path `DIR/d` is not a file", "path is not a regular file"}},
			{"fifo", "", errs{"path `DIR/fifo` is not a file", "path is not a regular file"}},
			{"/", "", errs{"path `/` is not a file", mustNameEntry}},
		} {
			data, err := at(c.name).Read(100, nil)
			if wantText(t, err, want(c.err)); err == nil && string(data) != c.data {
				t.Errorf("%s has %q, want %q", c.name, data, c.data)
			}
		}
	})
	dir := testroot.Tree(t, tree)
	if _, err := NoFollow("/proc/self/root"+dir+"/d/a").Read(100, nil); err == nil {
		t.Error("a magic link of /proc is followed")
	}
	_, err := direct(dir, "dlink/a").Read(100, nil)
	if advised, ok := errors.AsType[*Advised](err); !ok || advised.Advice != linkAdvice(dir+"/dlink/") {
		t.Errorf("the error of a link in the path has no advice: %#v", err)
	}
	if _, err := Read("/dev/zero", 100, nil); !errors.As(err, new(*Refusal)) {
		t.Errorf("read of a device: %v", err)
	}
	for size, ok := range map[int]bool{99: true, 100: true, 101: false} {
		path := filepath.Join(dir, fmt.Sprint(size))
		os.WriteFile(path, make([]byte, size), 0o666)
		if data, err := Read(path, 100, nil); ok != (err == nil) || ok && len(data) != size {
			t.Errorf("%d bytes, where 100 are allowed: %d, %v", size, len(data), err)
		} else if advised, says := errors.AsType[*Advised](err); !ok && (!says || !strings.Contains(advised.Advice, "fs/open")) {
			t.Errorf("%v: want advice about fs/open", err)
		} else if !ok {
			wantText(t, err, "file is too large to read: limit is 100 bytes")
		}
	}
	// These files have a size of 0.
	if data, err := Read("/proc/self/status", 1<<20, nil); err != nil || !bytes.HasPrefix(data, []byte("Name:")) {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read("/proc/self/status", 20, nil); !errors.As(err, new(*Refusal)) {
		t.Errorf("more than is allowed, of a file that says it is empty: %v", err)
	}
}

// A written file replaces the old file, even if path is a link, and keeps its mode. Readers with
// the old file open keep the old content.
func TestWrite(t *testing.T) {
	bothWays(t, map[string]string{
		"a": "old", "sub/b": "old", "sub/up@": "../a", "link@": "sub/up", "dangling@": "sub/new",
		"dir/": "", "dirlink@": "dir", "fifo|": "", "far@": "sub/../sub/b",
		"else/where/": "", "deep@": "else/where", "via@": "deep/../x",
	}, func(t *testing.T, dir string, at func(string) way, want func(errs) string) {
		for _, name := range []string{"/a", "/sub/b"} {
			if err := os.Chmod(dir+name, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		old, err := os.Open(dir + "/sub/b")
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		for _, c := range []struct {
			name string
			err  errs
		}{
			{"sub/b", same("")}, {"fresh", same("")},
			{"link", errs{"", linkLoop}}, {"dangling", errs{"", linkLoop}}, {"far", errs{"", linkLoop}}, {"via", errs{"", linkLoop}},
			{"dirlink/in", errs{"", notADirectory}}, {"dirlink/none/x", errs{noSuchFile, notADirectory}},
			{"no/file", same(noSuchFile)}, {"a/file", same(notADirectory)},
			{"dir", same("Is a directory (os error 21)")}, {"dirlink", errs{"Is a directory (os error 21)", linkLoop}},
			{"fifo", same("No such device or address (os error 6)")},
			{"/", errs{"Is a directory (os error 21)", mustNameEntry}},
		} {
			t.Run(c.name, func(t *testing.T) { wantText(t, at(c.name).Write([]byte(c.name)), want(c.err)) })
		}
		wantNames(t, dir, want(errs{
			"a=link dangling@sub/new deep@else/where dir/ dir/in=dirlink/in dirlink@dir else/ else/where/ else/x=via far@sub/../sub/b fifo fresh=fresh link@sub/up sub/ sub/b=far sub/new=dangling sub/up@../a via@deep/../x",
			"a=old dangling@sub/new deep@else/where dir/ dirlink@dir else/ else/where/ far@sub/../sub/b fifo fresh=fresh link@sub/up sub/ sub/b=sub/b sub/up@../a via@deep/../x",
		}))
		wantModes(t, dir, map[string]fs.FileMode{"a": 0o640, "sub/b": 0o640, "fresh": 0o666 &^ umask(t)})
		was := make([]byte, 10)
		if n, _ := old.Read(was); string(was[:n]) != "old" {
			t.Errorf("who had the old file open reads %q", was[:n])
		}
	})
	if err := Write("/dev/null", nil); !errors.As(err, new(*Refusal)) {
		t.Errorf("write to a device: %v", err)
	}
}

// small is a filesystem of 64 KiB.
func small(t *testing.T) string {
	t.Helper()
	needs.Mount(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// On a full disk the old file stays, and nothing of the new file remains.
func TestFullDisk(t *testing.T) {
	dir := small(t)
	path := filepath.Join(dir, "a")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	const full = "No space left on device (os error 28)"
	wantText(t, Write(path, make([]byte, 1<<20)), full)
	var h Handles
	if err := h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: path}, protocol.FsReplace)); err != nil {
		t.Fatal(err)
	}
	wantText(t, h.Write("h", 0, make([]byte, 1<<20)), full)
	wantText(t, h.Write("h", 0, []byte("new")), "")
	wantText(t, h.Close(t.Context(), "h"), full) // a client that closes without waiting for answers does not get half a file
	wantText(t, h.Close(t.Context(), "h"), "")
	from := filepath.Join(t.TempDir(), "large")
	os.WriteFile(from, make([]byte, 1<<20), 0o666)
	wantText(t, Copy(context.Background(), Place{Path: from}, Place{Path: path}, false, nil), full)
	wantNames(t, dir, "a=old")
}

// In read-only places nothing is written, and existing files stay. Only a file that may be written in a read-only directory gets new content.
func TestReadOnly(t *testing.T) {
	for name, c := range map[string]struct {
		begin      func(t *testing.T, dir string) error
		file, text string // the errors about the file, and about others in the directory
	}{
		"directory": {func(t *testing.T, dir string) error { testroot.ObeyModes(t); return os.Chmod(dir, 0o555) }, "", "Permission denied (os error 13)"},
		"file":      {func(t *testing.T, dir string) error { testroot.ObeyModes(t); return os.Chmod(dir+"/a", 0o444) }, "Permission denied (os error 13)", ""},
		"filesystem": {func(t *testing.T, dir string) error {
			return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		}, "Read-only file system (os error 30)", "Read-only file system (os error 30)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name == "filesystem" {
				dir = small(t)
			}
			t.Cleanup(func() { os.Chmod(dir, 0o777) })
			from := filepath.Join(t.TempDir(), "from")
			for _, path := range []string{dir + "/a", from} {
				if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.begin(t, dir); err != nil {
				t.Fatal(err)
			}
			var h Handles
			defer h.CloseAll()
			wantText(t, Write(dir+"/a", []byte("new")), c.file)
			wantText(t, h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: dir + "/a"}, protocol.FsReplace)), c.file)
			wantText(t, Copy(context.Background(), Place{Path: from}, Place{Path: dir + "/a"}, false, nil), c.file)
			wantNames(t, dir, "a=old")
			wantText(t, Write(dir+"/b", nil), c.text)
			wantText(t, CreateDirectory(dir+"/d/e", true), c.text)
			wantText(t, Remove(dir+"/a", true, true), c.text)
			if c.text != "" {
				wantNames(t, dir, "a=old")
			}
		})
	}
}

// If a file grows and shrinks while it is read, the result is the content at some moment.
func TestReadWhatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	var h Handles
	defer h.CloseAll()
	wantText(t, h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: path}, protocol.FsRead)), "")
	var over atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		for i := 0; !over.Load(); i++ {
			os.Truncate(path, int64(i*7919%most))
		}
	})
	for range 300 {
		if data, err := Read(path, most, nil); err != nil || len(bytes.Trim(data, "\x00")) > 0 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		if chunk, eof, err := h.Read("h", most/2, most/4); err != nil || !eof && len(chunk) < most/4 {
			t.Fatalf("%d bytes, eof %v, %v", len(chunk), eof, err)
		}
	}
	over.Store(true)
	other.Wait()
}

// On a filesystem without unnamed files, the new file has a temporary name beside the old file.
func TestNamedReplacement(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "old"})
	for _, commit := range []bool{false, true} {
		r, err := newReplacement(View{}, filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		r.File.Close()
		if err := r.openNamed(); err != nil {
			t.Fatal(err)
		}
		r.File.WriteString("new")
		if !commit {
			r.Discard()
			wantNames(t, dir, "a=old")
			continue
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		wantNames(t, dir, "a=new")
	}
}

func TestHandles(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello", "dir/": "", "fifo|": ""})
	at := func(name string) string { return filepath.Join(dir, name) }
	var h Handles
	wantText(t, h.Open(t.Context(), "r", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsRead)), "")
	wantText(t, h.Open(t.Context(), "r", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsRead)), "file handle `r` already exists")
	wantText(t, h.Open(t.Context(), "n", nil, Do, toOpen(Place{Path: at("none")}, protocol.FsRead)), noSuchFile)
	wantText(t, h.Open(t.Context(), "n", nil, Do, toOpen(Place{Path: at("dir")}, protocol.FsRead)), "path `"+dir+"/dir` is not a file")
	wantText(t, h.Open(t.Context(), "n", nil, Do, toOpen(Place{Path: at("fifo")}, protocol.FsReplace)), "No such device or address (os error 6)")
	for _, c := range []struct {
		offset uint64
		n      int
		chunk  string
		eof    bool
	}{
		{0, 3, "hel", false}, {3, 2, "lo", false}, {3, 3, "lo", true}, {0, 5, "hello", false}, {0, 100, "hello", true},
		{5, 1, "", true}, {1 << 40, 1, "", true}, {1<<63 - 1, 1, "", true}, {1<<64 - 1, 1, "", true},
	} {
		if chunk, eof, err := h.Read("r", c.offset, c.n); string(chunk) != c.chunk || eof != c.eof || err != nil {
			t.Errorf("%d bytes at %d: %q, %v, %v; want %q, %v", c.n, c.offset, chunk, eof, err, c.chunk, c.eof)
		}
	}
	wantText(t, h.Write("r", 0, []byte("x")), "Bad file descriptor (os error 9)")

	wantText(t, h.Open(t.Context(), "w", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsReplace)), "")
	wantText(t, h.Write("w", 0, []byte("hello")), "")
	wantText(t, h.Write("w", 8, []byte("world")), "")
	wantNames(t, dir, "a=hello dir/ fifo") // a is replaced only by Close
	const beyond = "file write range exceeds the signed 64-bit file offset limit"
	for _, c := range []struct {
		offset uint64
		data   string
		err    string
	}{{1 << 63, "x", beyond}, {1<<64 - 1, "x", beyond}, {1<<63 - 1, "x", beyond}, {1<<63 - 2, "xx", beyond}, {1<<63 - 1, "", ""}} {
		wantText(t, h.Write("w", c.offset, []byte(c.data)), c.err) // and the file is as good as before
		wantText(t, h.Write("none", c.offset, []byte(c.data)), cmp.Or(c.err, "unknown file handle `none`"))
	}
	wantText(t, h.Close(t.Context(), "w"), "")
	wantNames(t, dir, "a=hello\x00\x00\x00world dir/ fifo")
	wantText(t, h.Close(t.Context(), "w"), "") // Close may be repeated
	if chunk, _, err := h.Read("r", 0, 100); string(chunk) != "hello" || err != nil {
		t.Errorf("who had the old file open reads %q, %v", chunk, err)
	}
	wantText(t, h.Open(t.Context(), "f", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsReplace)), "")
	wantText(t, h.Write("f", 0, []byte("hello")), "")
	_, _, err := h.Read("f", 0, 5)
	wantText(t, err, "Bad file descriptor (os error 9)")
	wantText(t, h.Write("f", 0, nil), "unknown file handle `f`") // a failed Read closes
	if about, known := h.Find("f"); known || about != (About{}) {
		t.Errorf("of a closed handle there is %+v", about)
	}
	wantNames(t, dir, "a=hello dir/ fifo")
	wantText(t, h.Open(t.Context(), "s", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsRead)), "")
	os.Truncate(at("a"), 1)
	for _, c := range []struct {
		offset uint64
		chunk  string
	}{{0, "h"}, {1, ""}, {8, ""}} {
		if chunk, eof, err := h.Read("s", c.offset, 100); string(chunk) != c.chunk || !eof || err != nil {
			t.Errorf("a file that has shrunk, at %d: %q, %v, %v", c.offset, chunk, eof, err)
		}
	}

	wantText(t, h.Open(t.Context(), "lost", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsReplace)), "")
	wantText(t, h.Write("lost", 0, []byte("half")), "")
	h.CloseAll()
	wantNames(t, dir, "a=h dir/ fifo")
	for _, id := range []string{"r", "lost", "never"} {
		_, _, err := h.Read(id, 0, 1)
		wantText(t, err, "unknown file handle `"+id+"`")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
	}
	if err := h.Open(t.Context(), "late", nil, Do, toOpen(Place{Path: at("a")}, protocol.FsRead)); err == nil {
		t.Error("a file was opened after the end")
	}
}

func TestManyHandles(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello"})
	var h Handles
	defer h.CloseAll()
	for i := range maxOpen {
		wantText(t, h.Open(t.Context(), fmt.Sprint(i), nil, Do, toOpen(Place{Path: dir + "/a"}, []protocol.FsMode{protocol.FsReplace, protocol.FsRead}[i%2])), "")
	}
	wantText(t, h.Open(t.Context(), "0", nil, Do, toOpen(Place{Path: dir + "/a"}, protocol.FsRead)), "file handle `0` already exists")
	for _, path := range []string{"/a", "/none"} {
		err := h.Open(t.Context(), "more", nil, Do, toOpen(Place{Path: dir + path}, protocol.FsReplace))
		wantText(t, err, "at most 128 file handles may be open per connection")
		if !errors.As(err, new(*Refusal)) {
			t.Errorf("one more than is allowed: %v", err)
		}
	}
	wantNames(t, dir, "a=hello")
	h.Close(t.Context(), "0")
	wantText(t, h.Open(t.Context(), "more", nil, Do, toOpen(Place{Path: dir + "/a"}, protocol.FsRead)), "")
}

// Handles leave descriptors to the rest of the program.
func TestHandlesLeaveDescriptors(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello"})
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var h Handles
	defer h.CloseAll()
	wantText(t, h.Open(t.Context(), "first", nil, Do, toOpen(Place{Path: dir + "/a"}, protocol.FsRead)), "")
	fewer := before
	fewer.Cur = fdReserve
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &fewer); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []protocol.FsMode{protocol.FsRead, protocol.FsReplace, protocol.FsUpdate} {
		open := len(entries(t, "/proc/self/fd"))
		wantText(t, h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: dir + "/a"}, mode)), "Too many open files (os error 24)")
		if now := len(entries(t, "/proc/self/fd")); now != open {
			t.Errorf("%d files are open, %d before", now, open)
		}
		wantText(t, h.Close(t.Context(), "h"), "")
	}
	if chunk, _, err := h.Read("first", 0, 100); string(chunk) != "hello" || err != nil {
		t.Errorf("an open file: %q, %v", chunk, err)
	}
	wantNames(t, dir, "a=hello")
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCreateDirectory(t *testing.T) {
	const exists = "File exists (os error 17)"
	bothWays(t, map[string]string{"a": "", "d/a": "", "out/": "", "dlink@": "out", "loop@": "loop", "lost@": "none"}, func(t *testing.T, dir string, at func(string) way, want func(errs) string) {
		for _, c := range []struct {
			path      string
			recursive bool
			err       errs
		}{
			{"x/y", true, same("")}, {"x/y", true, same("")}, {"x/z", false, same("")}, {"d", true, same("")}, {"/", true, same("")},
			{"d", false, same(exists)}, {"dlink", false, same(exists)}, {"lost", false, same(exists)}, {"d/a", false, same(exists)},
			{"/", false, errs{exists, "directory already exists"}}, {"n/y", false, same(noSuchFile)},
			{"a", true, errs{exists, notADirectory}}, {"a/y", true, same(notADirectory)}, {"loop/y", true, errs{linkLoop, notADirectory}},
			{"lost", true, errs{exists, notADirectory}}, {"lost/y", true, errs{exists, notADirectory}},
			{"dlink", true, errs{"", notADirectory}}, {"dlink/x", false, errs{"", notADirectory}}, {"dlink/x", true, errs{"", notADirectory}}, {"dlink/x/y", true, errs{"", notADirectory}},
		} {
			wantText(t, at(c.path).CreateDirectory(c.recursive), want(c.err))
		}
		wantNames(t, dir, want(errs{"a= d/ d/a= dlink@out loop@loop lost@none out/ out/x/ out/x/y/ x/ x/y/ x/z/", "a= d/ d/a= dlink@out loop@loop lost@none out/ x/ x/y/ x/z/"}))
	})
}

func TestStat(t *testing.T) {
	tree := map[string]string{"a": "hello", "d/": "", "link@": "a", "dlink@": "d", "lost@": "none", "fifo|": ""}
	bothWays(t, tree, func(t *testing.T, dir string, at func(string) way, want func(errs) string) {
		for _, c := range []struct {
			name               string
			isDir, file, alink bool
			err                errs
		}{
			{"a", false, true, false, same("")}, {"d", true, false, false, same("")}, {"fifo", false, false, false, same("")}, {"/", true, false, false, same("")},
			{"link", false, true, true, errs{"", containsLink}}, {"dlink", true, false, true, errs{"", containsLink}}, {"lost", false, false, true, errs{noSuchFile, containsLink}},
			{"none", false, false, false, same(noSuchFile)}, {"dlink/none", false, false, false, errs{noSuchFile, notADirectory}}, {"a/x", false, false, false, same(notADirectory)},
		} {
			w := at(c.name)
			m, err := w.Stat()
			if wantText(t, err, want(c.err)); err != nil {
				continue
			}
			if m.IsDirectory != c.isDir || m.IsFile != c.file || m.IsSymlink != c.alink || c.file && m.Size != 5 || m.ModifiedAtMs == 0 {
				t.Errorf("%s: %+v", c.name, m)
			}
			var st unix.Statx_t
			if err := unix.Statx(unix.AT_FDCWD, w.Path, 0, unix.STATX_BTIME, &st); err != nil {
				t.Fatal(err)
			}
			born := int64(0) // as for the peer
			if w.noLinks {
				born = st.Btime.Sec*1000 + int64(st.Btime.Nsec)/1e6
			}
			if m.CreatedAtMs != born {
				t.Errorf("%s: created at %d, want %d", c.name, m.CreatedAtMs, born)
			}
		}
	})
	dir := testroot.Tree(t, tree)
	r, err := ReadDirectory(t.Context(), dir, nil)
	wantText(t, err, "")
	slices.SortFunc(r.Entries, func(a, b protocol.FsDirectoryEntry) int { return strings.Compare(a.FileName, b.FileName) })
	if got, want := fmt.Sprint(r.Entries), "[{a false true} {d true false} {dlink true false} {fifo false false} {link false true}]"; got != want {
		t.Errorf("entries %s, want %s", got, want)
	}
	_, err = ReadDirectory(t.Context(), dir+"/a", nil)
	wantText(t, err, "Not a directory (os error 20)")
	for name, want := range map[string]string{"dlink/../link": "/a", "dlink": "/d", ".": ""} {
		if real, err := Canonicalize(dir + "/" + name); real != dir+want || err != nil {
			t.Errorf("%s is %s, %v; want %s", name, real, err, dir+want)
		}
	}
	_, err = Canonicalize(dir + "/lost")
	wantText(t, err, noSuchFile)
}

// The queue of answers counts a block by its length, so its capacity must not be much larger.
func TestBlockIsNoLargerThanItLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var h Handles
	defer h.CloseAll()
	if err := h.Open(t.Context(), "h", nil, Do, toOpen(Place{Path: path}, protocol.FsRead)); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []uint64{0, 1, 1 << 40} {
		if chunk, eof, err := h.Read("h", offset, protocol.FsMaxBlock); err != nil || !eof || cap(chunk) > 64 {
			t.Errorf("at %d: %d bytes that hold %d, eof %v, %v", offset, len(chunk), cap(chunk), eof, err)
		}
	}
}

// If a read of a file waits forever, the call fails after a while.
func TestReadWhatWaits(t *testing.T) {
	if _, err := Read(needs.KernelLog(t), 32<<20, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// smaller divides a limit for the duration of a test.
func smaller(t *testing.T, limit *int, by int) {
	whole := *limit
	t.Cleanup(func() { *limit = whole })
	*limit /= by
}

// fs/readDirectory of a directory with too many entries fails.
func TestReadDirectoryOfTooMany(t *testing.T) {
	smaller(t, &maxListed, 200)
	dir := manyLinks(t, maxListed) // they dangle until their target exists
	r, err := ReadDirectory(t.Context(), dir, nil)
	wantText(t, err, "")
	if len(r.Entries) != 0 {
		t.Errorf("%d dangling links are listed", len(r.Entries))
	}
	if err := errors.Join(os.WriteFile(dir+"/x", nil, 0o600), os.Remove(dir+"/0")); err != nil {
		t.Fatal(err)
	}
	r, err = ReadDirectory(t.Context(), dir, nil)
	wantText(t, err, "")
	if len(r.Entries) != maxListed {
		t.Errorf("%d entries, want %d", len(r.Entries), maxListed)
	}
	for _, name := range []string{"/one", "/two"} {
		if err := os.WriteFile(dir+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err = ReadDirectory(t.Context(), dir, nil)
	if len(r.Entries) > maxListed {
		t.Errorf("%d entries were kept, the limit is %d", len(r.Entries), maxListed)
	}
	wantText(t, err, fmt.Sprintf("fs/readDirectory returned %d entries; limit is %d", maxListed+2, maxListed))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err = ReadDirectory(over, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("for a connection that has ended: %d entries, %v", len(r.Entries), err)
	}
}

// The size of an answer is bounded in bytes as sent, whatever the number of entries, even if names
// are long and their encoding is longer.
func TestListsAreBoundedInBytes(t *testing.T) {
	smaller(t, &maxWalkBytes, 8)
	smaller(t, &maxListBytes, 8)
	const files, kept = 11_000 / 8, 10_000 / 8
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%05d", i)+strings.Repeat("\x01", 250)) }
	for i := range files {
		if err := os.WriteFile(name(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encoded := func(result any) int {
		frame, err := protocol.JSON.AppendResponse(nil, protocol.IntID(1), result)
		if err != nil {
			t.Fatal(err)
		}
		return len(frame)
	}
	walked, err := Walk(t.Context(), dir, protocol.FsWalkOptions{MaxDepth: 64, MaxDirectories: 1, MaxEntries: mostWalkEntries}, nil)
	if n := encoded(walked); err != nil || !walked.Truncated || n > maxWalkBytes || n < maxWalkBytes*9/10 {
		t.Errorf("a walk: %d entries in %d bytes, truncated %v, %v", len(walked.Entries), n, walked.Truncated, err)
	}
	_, err = ReadDirectory(t.Context(), dir, nil)
	wantText(t, err, fmt.Sprintf("directory `%s` has entries of more than %d bytes: fs/walk returns a part", dir, maxListBytes))
	if _, refused := errors.AsType[*Refusal](err); refused {
		t.Error("that is -32600, at the peer -32603")
	}
	for i := kept; i < files; i++ {
		os.Remove(name(i))
	}
	listed, err := ReadDirectory(t.Context(), dir, nil)
	if n := encoded(listed); err != nil || len(listed.Entries) != kept || n > maxListBytes+1000 {
		t.Errorf("a directory: %d entries in %d bytes, %v", len(listed.Entries), n, err)
	}
}

func TestRemove(t *testing.T) {
	bothWays(t, map[string]string{"d/a": "", "d/b": "", "empty/": "", "out/x": "", "link@": "d/a", "dlink@": "out", "lost@": "none", "fifo|": ""}, func(t *testing.T, dir string, at func(string) way, want func(errs) string) {
		for _, c := range []struct {
			name  string
			force bool
			err   errs
		}{
			{"dlink/x", true, errs{"", notADirectory}}, {"dlink/none", true, errs{"", notADirectory}}, {"d/a/x", true, same(notADirectory)},
			{"link", true, errs{"", containsLink}}, {"dlink", true, errs{"", containsLink}}, {"lost", true, errs{"", containsLink}},
			{"none", true, same("")}, {"none", false, same(noSuchFile)}, {"none/x", true, same("")}, {"none/x", false, same(noSuchFile)},
			{"d", true, same("Directory not empty (os error 39)")},
			{"/", true, errs{"path `/` is not removed", mustNameEntry}}, // not recursive: if the code is wrong, this test does no harm
			{"d/a", false, same("")}, {"empty", false, same("")}, {"fifo", true, same("")},
		} {
			wantText(t, at(c.name).Remove(false, c.force), want(c.err))
		}
		wantNames(t, dir, want(errs{"d/ d/b= out/", "d/ d/b= dlink@out link@d/a lost@none out/ out/x="}))
	})
	dir := testroot.Tree(t, map[string]string{"d/e/f": "", "link@": "d", "keep": ""})
	for _, c := range []struct {
		name, err string
		force     bool
	}{
		{"none", noSuchFile, false}, {"none", "", true}, {"keep/none", notADirectory, true},
		{"link", "", true}, // the link goes, its target stays
	} {
		wantText(t, Remove(filepath.Join(dir, c.name), true, c.force), c.err)
	}
	wantNames(t, dir, "d/ d/e/ d/e/f= keep=")
	for _, name := range []string{"d", "none"} {
		wantText(t, direct(dir, name).Remove(true, true), "recursive no-follow removal is unsupported")
	}
	wantText(t, Remove(filepath.Join(dir, "d"), true, false), "")
	wantNames(t, dir, "keep=")
}
