//go:build unix

package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// filesOf returns the files below a new directory, through a client.
func filesOf(t *testing.T, h *host) (*client.FS, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return h.client(t, nil).FS(dir).WithContext(within(t)), dir
}

// pattern returns n bytes without a repetition that a lost block could hide.
func pattern(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// names returns all names in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFS(t *testing.T) {
	t.Parallel()
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	for name, content := range map[string][]byte{"a": []byte("hello"), "empty": nil, "d/e/f": []byte("deep"), "longer": pattern(3001)} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": "a", "d/up": "../a", "dirlink": "d"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "d/e"), 0o1750); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(f, "a", "empty", "d/e/f", "longer", "link", "d/up", "dirlink"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(mustFS(f.Sub("d")), "e/f", "up"); err != nil {
		t.Error(err)
	}
	// TestFS calls ReadAt for each byte, which takes minutes for a file of more than a block.
	large := pattern(300_001)
	if err := os.WriteFile(filepath.Join(dir, "large"), large, 0o640); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open("large")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := iotest.TestReader(struct{ io.Reader }{file}, large); err != nil {
		t.Error(err)
	}
	for _, offset := range []int64{0, 1<<18 - 100, 1<<18 - 1, 1 << 18, 299_901} {
		got := make([]byte, 100)
		if n, err := file.(io.ReaderAt).ReadAt(got, offset); n != 100 || err != nil || !bytes.Equal(got, large[offset:offset+100]) {
			t.Errorf("100 bytes at %d: %d, %v", offset, n, err)
		}
	}
	if real, err := f.RealPath("dirlink/e"); real != dir+"/d/e" || err != nil {
		t.Errorf("real path: %q, %v", real, err)
	}
	tree, err := f.Tree(".", protocol.FsWalkOptions{MaxDepth: 5, MaxDirectories: 10, MaxEntries: 100})
	if err != nil || len(tree.Entries) != 7 {
		t.Errorf("tree: %+v, %v", tree, err)
	}
}

func mustFS(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err)
	}
	return f
}

func TestFileChanges(t *testing.T) {
	t.Parallel()
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	when := time.UnixMilli(1_500_000_000_123)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(f.MkdirAll("d/e"))
	must(f.Mkdir("d/new"))
	must(f.WriteFile("d/a", []byte("hello"), nil))
	must(f.WriteFile("d/private", []byte("secret"), &client.WriteOptions{Mode: 0o600, ModTime: when}))
	must(f.WriteFile("d/run", []byte("#!"), &client.WriteOptions{Mode: 0o755, ModTime: when}))
	must(f.Symlink("a", "d/link"))
	must(f.Copy("d/a", "d/copy"))
	must(f.CopyAll("d", "tree"))
	must(f.Rename("d/copy", "d/renamed"))
	must(f.Chmod("d/a", 0o444))
	must(f.Chtimes("d/a", when))
	must(f.Remove("d/new"))
	must(f.RemoveAll("none"))
	must(f.RemoveAll("tree/e"))
	var got []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		at := ""
		if info.ModTime().Equal(when) {
			at = " then"
		}
		got = append(got, fmt.Sprintf("%s %v%s", strings.TrimPrefix(path, dir), info.Mode(), at))
		return err
	})
	must(err)
	want := []string{" drwxr-xr-x", "/d drwxr-xr-x", "/d/a -r--r--r-- then", "/d/e drwxr-xr-x", "/d/link Lrwxrwxrwx", "/d/private -rw------- then", "/d/renamed -rw-r--r--",
		"/d/run -rwxr-xr-x then", "/tree drwxr-xr-x", "/tree/a -rw-r--r--", "/tree/copy -rw-r--r--", "/tree/link Lrwxrwxrwx", "/tree/new drwxr-xr-x",
		"/tree/private -rw-------", "/tree/run -rwxr-xr-x"}
	got[0] = " drwxr-xr-x" // of the test
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "/tree/copy") })
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "/tree/copy") })
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFileErrors(t *testing.T) {
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	if err := os.MkdirAll(dir+"/d/full", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/a", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct{ err, want error }{
		"open":            {second(f.Open("none")), fs.ErrNotExist},
		"stat":            {second(f.Stat("none")), fs.ErrNotExist},
		"lstat":           {second(f.Lstat("none")), fs.ErrNotExist},
		"readdir":         {second(f.ReadDir("none")), fs.ErrNotExist},
		"readfile":        {second(f.ReadFile("none")), fs.ErrNotExist},
		"readlink":        {second(f.ReadLink("a")), fs.ErrInvalid},
		"realpath":        {second(f.RealPath("none")), fs.ErrNotExist},
		"readdir a file":  {second(f.ReadDir("a")), syscall.ENOTDIR},
		"through a file":  {second(f.Stat("a/b")), syscall.ENOTDIR},
		"mkdir":           {f.Mkdir("d"), fs.ErrExist},
		"mkdir in none":   {f.Mkdir("none/d"), fs.ErrNotExist},
		"remove":          {f.Remove("none"), fs.ErrNotExist},
		"rename":          {f.Rename("none", "b"), fs.ErrNotExist},
		"symlink":         {f.Symlink("x", "a"), fs.ErrExist},
		"chmod":           {f.Chmod("none", 0o644), fs.ErrNotExist},
		"chtimes":         {f.Chtimes("none", time.Now()), fs.ErrNotExist},
		"copy":            {f.Copy("none", "b"), fs.ErrNotExist},
		"create a dir":    {second(f.Create("d", nil)), syscall.EISDIR},
		"write in none":   {f.WriteFile("none/a", nil, nil), fs.ErrNotExist},
		"write in none 2": {f.WriteFile("none/a", nil, &client.WriteOptions{Mode: 0o600}), fs.ErrNotExist},
		"invalid":         {second(f.Open("../x")), fs.ErrInvalid},
		"invalid create":  {second(f.Create("/x", nil)), fs.ErrInvalid},
	} {
		var path *fs.PathError
		if !errors.As(test.err, &path) || !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want a PathError with %v", what, test.err, test.want)
		}
	}
	if err := f.Remove("d"); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	if err := second(f.Stat("none")); err.Error() != "stat none: No such file or directory" {
		t.Errorf("the text is %q", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("left are %q", got)
	}
}

// TestWriter: until Close a file has its old content, and a file that already existed keeps its mode, its other
// names, and the link to it.
func TestWriter(t *testing.T) {
	t.Parallel()
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	for _, size := range []int{0, 5, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3<<20 + 5} {
		content := pattern(size)
		for _, name := range []string{"old", "new", "link", "hard"} {
			os.RemoveAll(dir)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/old", []byte("before"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Symlink("old", dir+"/link"), os.Link(dir+"/old", dir+"/hard")); err != nil {
				t.Fatal(err)
			}
			w, err := f.Create(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			for rest := content; len(rest) > 0; {
				n, err := w.Write(rest[:min(len(rest), 70_000)])
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if got, err := os.ReadFile(dir + "/old"); string(got) != "before" || err != nil {
				t.Errorf("%s of %d bytes before Close: %d bytes, %v", name, size, len(got), err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("the second Close: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); !bytes.Equal(got, content) || err != nil {
				t.Errorf("%s of %d bytes: %d other bytes, %v", name, size, len(got), err)
			}
			want, mode := []string{"hard", "link", "old"}, fs.FileMode(0o750)
			if name == "new" {
				want, mode = []string{"hard", "link", "new", "old"}, 0o644
			} else if hard, err := os.ReadFile(dir + "/hard"); !bytes.Equal(hard, content) || err != nil {
				t.Errorf("%s of %d bytes by its other name: %d other bytes, %v", name, size, len(hard), err)
			}
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
				t.Errorf("%s of %d bytes has mode %v, %v; want %v", name, size, info.Mode(), err, mode)
			}
			if got := names(t, dir); !slices.Equal(got, want) {
				t.Errorf("after %s of %d bytes there are %q, want %q", name, size, got, want)
			}
		}
	}
	for _, target := range []string{"old", "none"} {
		for _, size := range []int{1, 300 << 10} {
			os.Remove(dir + "/link")
			if err := os.Symlink(target, dir+"/link"); err != nil {
				t.Fatal(err)
			}
			if err := f.WriteFile("link", pattern(size), &client.WriteOptions{NoFollow: true}); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(dir + "/link"); err != nil || !info.Mode().IsRegular() || info.Size() != int64(size) {
				t.Errorf("with NoFollow the link to %s is now %v, %v", target, info, err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"hard", "link", "new", "old"}) && !slices.Equal(got, []string{"hard", "link", "old"}) {
				t.Errorf("left are %q", got)
			}
		}
	}
}

// A Writer that ends without Close leaves nothing, also when its context has ended.
func TestWriterAborts(t *testing.T) {
	t.Parallel()
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	if err := os.WriteFile(dir+"/old", []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "new"} {
		for _, how := range []string{"abort", "context", "context in Write"} {
			ctx, cancel := context.WithCancel(t.Context())
			w, err := f.WithContext(ctx).Create(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(pattern(600 << 10)); err != nil {
				t.Fatal(err)
			}
			if got := names(t, dir); len(got) != 2 { // the temporary file
				t.Errorf("meanwhile there are %q", got)
			}
			switch how {
			case "context":
				cancel()
				w.Abort()
			case "context in Write":
				cancel()
				if _, err := w.Write(pattern(3 << 20)); !errors.Is(err, context.Canceled) {
					t.Errorf("Write: %v", err)
				}
			default:
				w.Abort()
			}
			cancel()
			if err := w.Close(); err == nil {
				t.Error("Close after the end is not an error")
			}
			if got := names(t, dir); !slices.Equal(got, []string{"old"}) {
				t.Errorf("after %s of %s there are %q", how, name, got)
			}
			if got, _ := os.ReadFile(dir + "/old"); string(got) != "before" {
				t.Errorf("after %s: %d other bytes", how, len(got))
			}
		}
	}
}

// A Writer ends with its context, although the server answers in time.
func TestWriterEndsWithItsContext(t *testing.T) {
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := f.WithContext(ctx).Create("new", nil)
	if err != nil {
		t.Fatal(err)
	}
	block := pattern(256 << 10)
	if _, err := w.Write(block); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Write(block); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
}

// TestFilesOverCuts: a large file goes to the server and back over many cuts, in any place, and is the same.
func TestFilesOverCuts(t *testing.T) { synctest.Test(t, testFilesOverCuts) }

func testFilesOverCuts(t *testing.T) {
	t.Cleanup(func() { time.Sleep(time.Second) }) // the system's throttle goroutine after the last dead letter
	h := newHost(t, actors.Config{})
	f, dir := filesOf(t, h)
	content := pattern(12 << 20)
	cuts, random := 0, rand.New(rand.NewPCG(1, 2))
	h.mu.Lock()
	h.onMessage = func(_ int, method string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !strings.HasPrefix(method, "fs/") || random.IntN(6) != 0 {
			return false
		}
		cuts++
		return true
	}
	h.loseAnswer = func() bool { // the server has done what the client will ask for again
		h.mu.Lock()
		defer h.mu.Unlock()
		lose := random.IntN(12) == 0
		if lose {
			cuts++
		}
		return lose
	}
	h.mu.Unlock()
	if err := f.WriteFile("a", content, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dir + "/a"); sha256.Sum256(got) != sha256.Sum256(content) || err != nil {
		t.Errorf("the server has %d other bytes, %v", len(got), err)
	}
	file, err := f.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	back := sha256.New()
	if n, err := io.Copy(back, file); n != int64(len(content)) || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if want := sha256.Sum256(content); !bytes.Equal(back.Sum(nil), want[:]) {
		t.Error("what came back differs")
	}
	part := make([]byte, 2<<20)
	if n, err := file.(io.ReaderAt).ReadAt(part, 5<<20); n != len(part) || err != nil || !bytes.Equal(part, content[5<<20:7<<20]) {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("left are %q", got)
	}
	// Requests that were done before the cut are no errors the second time.
	for i := range 20 {
		name := fmt.Sprint("d", i)
		for _, err := range []error{f.Mkdir(name), f.Symlink("x", name+"/l"), f.Rename(name+"/l", name+"/m"), f.Remove(name + "/m"), f.Remove(name)} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onMessage, h.loseAnswer = nil, nil
	if cuts < 20 {
		t.Errorf("only %d cuts", cuts)
	}
	t.Logf("%d cuts", cuts)
}

// A file that changed during a cut is an error, and not a mixture. Another size or another time shows the change.
func TestFileChangesDuringCut(t *testing.T) {
	t.Parallel()
	for _, change := range []struct {
		size int
		time time.Duration
	}{{1, 0}, {0, time.Second}} {
		testFileChangesDuringCut(t, change.size, change.time)
	}
}

func testFileChangesDuringCut(t *testing.T, larger int, later time.Duration) {
	h := newHost(t, actors.Config{})
	f, dir := filesOf(t, h)
	at := time.Unix(1e9, 0)
	write := func(name string, size int, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(dir+name, pattern(size), 0o644), os.Chtimes(dir+name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("/a", 4<<20, at)
	file, err := f.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.CopyN(io.Discard, file, 1000); err != nil {
		t.Fatal(err)
	}
	write("/b", 4<<20+larger, at.Add(later))
	if err := os.Rename(dir+"/b", dir+"/a"); err != nil {
		t.Fatal(err)
	}
	h.cut()
	if _, err := io.Copy(io.Discard, file); !errors.Is(err, client.ErrFileChanged) {
		t.Errorf("after the change: %v, want ErrFileChanged", err)
	}
}

func TestSeek(t *testing.T) {
	t.Parallel()
	f, dir := filesOf(t, newHost(t, actors.Config{}))
	content := pattern(1 << 20)
	if err := os.WriteFile(dir+"/a", content, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := file.(io.ReadSeeker)
	buf := make([]byte, 100)
	for _, c := range []struct {
		offset int64
		whence int
		want   int64
	}{{700_000, io.SeekStart, 700_000}, {-100, io.SeekCurrent, 700_000}, {-50, io.SeekEnd, 1<<20 - 50}, {0, io.SeekStart, 0}, {10, io.SeekEnd, 1<<20 + 10}} {
		at, err := s.Seek(c.offset, c.whence)
		if at != c.want || err != nil {
			t.Fatalf("seek %+v: %d, %v", c, at, err)
		}
		n, err := io.ReadFull(s, buf)
		if want := content[min(at, 1<<20):min(at+100, 1<<20)]; !bytes.Equal(buf[:n], want) {
			t.Errorf("%d bytes at %d, %v; want %d", n, at, err, len(want))
		}
	}
	if _, err := s.Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("seek before the beginning: %v", err)
	}
	if n, err := file.(io.ReaderAt).ReadAt(buf, 1<<20-10); n != 10 || err != io.EOF {
		t.Errorf("ReadAt beyond the end: %d, %v", n, err)
	}
}

// Await hears of files that come and go, also after a cut.
func TestAwait(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{})
	f, dir := filesOf(t, h)
	if err := f.Await(nil, []string{"none"}); err != nil { // it is so already
		t.Fatal(err)
	}
	for _, cut := range []bool{false, true} {
		os.Remove(dir + "/a")
		before := h.count(protocol.MethodFsWatchMissing)
		result := make(chan error, 1)
		go func() { result <- f.Await([]string{"b", "a"}, nil) }()
		count := func() int { return h.count(protocol.MethodFsWatchMissing) - before }
		eventually(t, "the watch", func() bool { return count() == 1 })
		if cut {
			h.cut()
			eventually(t, "the watch after the cut", func() bool { return count() == 2 })
		}
		select {
		case err := <-result:
			t.Fatalf("Await returned early: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if err := os.WriteFile(dir+"/a", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.WithContext(ctx).Await([]string{"never"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// A cut before the server answers a request for a watch: the client makes one watch on the next connection, and not two.
func TestAwaitCutBeforeTheAnswer(t *testing.T) {
	h := newHost(t, actors.Config{})
	f, dir := filesOf(t, h)
	watches := func() int { return h.count(protocol.MethodFsWatchMissing) }
	h.mu.Lock()
	h.onMessage = func(_ int, method string) bool { return method == protocol.MethodFsWatchMissing && watches() == 1 }
	h.mu.Unlock()
	result := make(chan error, 1)
	go func() { result <- f.Await([]string{"a"}, nil) }()
	eventually(t, "the watch after the cut", func() bool { return watches() > 1 })
	if err := os.WriteFile(dir+"/a", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if n := watches(); n != 2 {
		t.Errorf("%d requests for a watch, want 2", n)
	}
}
