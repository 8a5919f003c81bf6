package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

func pair(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	ours, theirs, err := Sockets()
	must(t, err)
	return ours, theirs
}

func ready(error) bool { return true }

// both returns a Client with its server in this process. served gets the result of serve.
func both(t testing.TB, calls files.Calls) (c *Client, served chan error) {
	t.Helper()
	return bothOf(t, &server{calls: calls})
}

// bothOf is both for a server without a lock.
func bothOf(t testing.TB, s *server) (c *Client, served chan error) {
	t.Helper()
	ours, theirs := pair(t)
	s.lock = func() error { return nil }
	served = make(chan error, 1)
	go func() { served <- s.serve(theirs, ready) }()
	c, err := NewClient(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-c.Ended()
	})
	return c, served
}

func at(path ...string) files.At { return files.At{Place: place(path...)} }

func place(path ...string) files.Place { return files.Place{Path: filepath.Join(path...)} }

// Each call does the same through the socket as in this process.
func TestEachCallThroughTheSocket(t *testing.T) {
	c, _ := both(t, files.Local{})
	ctx, dir := t.Context(), t.TempDir()
	must(t, files.WriteFile(ctx, c, at(dir, "a\xff"), []byte("hello")))
	data, err := files.ReadFile(ctx, c, at(dir, "a\xff"), 100, nil)
	if err != nil || string(data) != "hello" {
		t.Fatalf("%q %v", data, err)
	}
	if onDisk, err := os.ReadFile(filepath.Join(dir, "a\xff")); err != nil || string(onDisk) != "hello" {
		t.Fatalf("%q %v", onDisk, err)
	}
	if _, err = files.ReadFile(ctx, c, at(dir, "a\xff"), 4, nil); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a file of 5 bytes with a limit of 4: %v", err)
	}
	must(t, c.CreateDirectory(ctx, at(dir, "d/e"), true))
	if err := c.CreateDirectory(ctx, at(dir, "d/e"), false); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if m, err := c.Stat(ctx, at(dir, "d")); err != nil || !m.IsDirectory {
		t.Errorf("%+v %v", m, err)
	}
	must(t, c.Symlink(ctx, place(dir, "l"), "a\xff"))
	if path, err := c.Canonicalize(ctx, place(dir, "l")); err != nil || path != filepath.Join(dir, "a\xff") {
		t.Errorf("%q %v", path, err)
	}
	must(t, c.Copy(ctx, place(dir, "a\xff"), place(dir, "d/b"), false, nil))
	if e, err := c.Entry(ctx, place(dir, "d/b"), false); err != nil || e.Kind != protocol.FsFile || e.Size != 5 {
		t.Errorf("%+v %v", e, err)
	}
	mode, when := uint64(0o640), int64(1_000_000_000_000)
	must(t, c.SetMetadata(ctx, place(dir, "d/b"), &mode, &when))
	if e, err := c.Entry(ctx, place(dir, "d/b"), true); err != nil || e.Mode != mode || e.ModifiedAtMs != when {
		t.Errorf("%+v %v", e, err)
	}
	must(t, c.Rename(ctx, place(dir, "d/b"), place(dir, "d/c")))
	for name, call := range map[string]func(files.Calls) (any, error){
		"list": func(on files.Calls) (any, error) { return on.List(ctx, place(dir, "d"), nil) },
		"read": func(on files.Calls) (any, error) { return on.ReadDirectory(ctx, place(dir, "d"), nil) },
		"walk": func(on files.Calls) (any, error) {
			return on.Walk(ctx, place(dir), protocol.FsWalkOptions{MaxDepth: 3, MaxDirectories: 9, MaxEntries: 9}, nil)
		},
		"none": func(on files.Calls) (any, error) { return on.List(ctx, place(dir, "none"), nil) },
		"long": func(on files.Calls) (any, error) { return on.Stat(ctx, at("/"+strings.Repeat("x/", 3000))) },
		"root": func(on files.Calls) (any, error) { return nil, on.Remove(ctx, at("/"), true, true) },
		"rule": func(on files.Calls) (any, error) {
			return on.Stat(ctx, files.At{Place: files.Place{Path: dir + "/d/out", Root: dir + "/d", Word: rules.Read}})
		},
		"link": func(on files.Calls) (any, error) {
			return on.Stat(ctx, files.At{Place: place(dir, "l"), NoLinks: true})
		},
	} {
		must(t, unlessThere(os.Symlink("/etc", dir+"/d/out")))
		want, wantErr := call(files.Local{})
		got, err := call(c)
		if wantErr == nil && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if (err == nil) != (wantErr == nil) || err != nil && (files.Text(err) != files.Text(wantErr) || files.Kind(err) != files.Kind(wantErr)) {
			t.Errorf("%s: %v, want %v", name, err, wantErr)
		}
	}
	must(t, c.Remove(ctx, at(dir, "d"), true, false))
	if err := c.Remove(ctx, at(dir, "d"), true, false); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func unlessThere(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Files of a handle are written by the server, and get their place in the jail.
func TestHandlesThroughTheSocket(t *testing.T) {
	c, served := both(t, files.Local{})
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("old"), 0o640))
	var h files.Handles
	must(t, h.Open(ctx, "w", c, place(path), protocol.FsReplace))
	must(t, h.Open(ctx, "u", c, place(dir, "u"), protocol.FsUpdate))
	must(t, h.Open(ctx, "r", c, place(path), protocol.FsRead))
	must(t, h.Open(ctx, "lost", c, place(path), protocol.FsReplace))
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	must(t, h.Write("w", 0, big))
	must(t, h.Write("u", 3, []byte("x")))
	if old, _, err := h.Read("r", 0, 10); err != nil || string(old) != "old" {
		t.Fatalf("%q %v", old, err)
	}
	must(t, h.Close(ctx, "w"))
	must(t, h.Close(ctx, "u"))
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, big) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	h.CloseAll()
	c.Close()
	must(t, <-served)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left in the directory: %v %v", left, err)
	}
}

// A large result comes whole, and its memory is held before.
func TestLargeResult(t *testing.T) {
	c, _ := both(t, files.Local{})
	dir := t.TempDir()
	const n = 300
	for i := range n {
		must(t, os.WriteFile(fmt.Sprintf("%s/%0200d", dir, i), nil, 0o600))
	}
	held := 0
	r, err := c.List(t.Context(), place(dir), func(n int) error { held += n; return nil })
	if err != nil || len(r.Entries) != n || held < n*200 {
		t.Errorf("%d entries, %d bytes held, %v", len(r.Entries), held, err)
	}
	full := errors.New("full")
	if _, err = c.List(t.Context(), place(dir), func(int) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := c.Stat(t.Context(), at(dir)); err != nil {
		t.Error(err)
	}
}

// slow is a filesystem whose Stat waits, as long as the caller does if it obeys.
type slow struct {
	files.Local
	begun chan string
	obeys bool
	until chan struct{}
}

func (s slow) Stat(ctx context.Context, at files.At) (m protocol.FsGetMetadataResult, err error) {
	s.begun <- at.Path
	if s.obeys {
		<-ctx.Done()
		return m, ctx.Err()
	}
	<-s.until
	return m, nil
}

// A call that hangs holds up no other call, and its caller may leave.
func TestHangingCalls(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		s := slow{begun: make(chan string, 100), obeys: obeys, until: make(chan struct{})}
		c, _ := both(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range Workers - 1 {
			all.Go(func() {
				if _, err := c.Stat(ctx, at("/")); !errors.Is(err, context.Canceled) {
					t.Errorf("of a caller that leaves: %v", err)
				}
			})
		}
		for range Workers - 1 {
			<-s.begun
		}
		for range 50 {
			if _, err := c.Entry(t.Context(), place("/"), false); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		all.Wait()
		if obeys {
			for range Workers {
				c.slots <- struct{}{} // every place is free again
			}
		} else {
			c.slots <- struct{}{}
			select {
			case c.slots <- struct{}{}:
				t.Error("the place of a call is free, and the jail has not answered")
			default:
			}
			close(s.until)
			for range Workers - 1 {
				c.slots <- struct{}{}
			}
		}
	}
}

// A descriptor that comes too late is closed, and its new file leaves no trace.
func TestLateAnswer(t *testing.T) {
	dir := t.TempDir()
	held := make(chan struct{})
	l := late{begun: make(chan struct{}), until: held}
	c, _ := both(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Open(ctx, at(dir, "f"), protocol.FsReplace)
		done <- err
	}()
	<-l.begun
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(held)
	for range Workers { // also the place of the abort
		c.slots <- struct{}{}
	}
	for range Workers {
		<-c.slots
	}
	for openUnder(t, dir) > 0 { // the abort may come after the places are free
		time.Sleep(time.Millisecond)
	}
}

// openUnder returns how many descriptors of files below dir this program has, also of files without a name.
func openUnder(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// A Commit whose context ends leaves no new file in the jail, also if the Commit was never sent.
func TestCommitWithoutTime(t *testing.T) {
	c, _ := both(t, files.Local{})
	dir := t.TempDir()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 20 { // a Commit may be sent, or not
		o, err := c.Open(t.Context(), at(dir, fmt.Sprint(i)), protocol.FsReplace)
		must(t, err)
		if err := o.Replaces.Commit(over); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for openUnder(t, dir) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// A late answer that comes just before the end of the jail is dropped, too.
func TestLateAnswerBeforeTheEnd(t *testing.T) {
	c := &Client{ended: make(chan struct{})}
	close(c.ended)
	for range 20 { // either may count first
		f, err := os.Open(os.DevNull)
		must(t, err)
		answered := make(chan reply, 1)
		answered <- reply{file: f}
		c.drop(answered)
		if err := f.Close(); err == nil {
			t.Fatal("the file is open")
		}
	}
}

// A worker that cannot send a new file to the server finds it aborted by another worker.
func TestEndOfNewFile(t *testing.T) {
	ours, theirs := pair(t)
	ourSocket, err := newSocket(ours)
	must(t, err)
	socket, err := newSocket(theirs)
	must(t, err)
	s := &server{socket: socket, calls: files.Local{}, under: make(map[uint64]*serving), kept: make(map[uint64]files.Opened)}
	must(t, socket.raw.Control(func(fd uintptr) { // the answer must wait
		for unix.Sendmsg(int(fd), make([]byte, 1<<10), nil, nil, unix.MSG_DONTWAIT) == nil {
		}
	}))
	c := &serving{request: request{ID: 1, Op: opOpen, At: packPlace(place(t.TempDir(), "f")), Mode: protocol.FsReplace}}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	made := make(chan struct{})
	go func() {
		s.make(c)
		close(made)
	}()
	o, ok := s.forgetAny()
	for ; !ok; o, ok = s.forgetAny() {
		time.Sleep(time.Millisecond)
	}
	o.Discard()
	ourSocket.close()
	<-made
	socket.close()
}

type late struct {
	files.Local
	begun, until chan struct{}
}

func (l late) Open(ctx context.Context, at files.At, mode protocol.FsMode) (files.Opened, error) {
	close(l.begun)
	<-l.until
	return l.Local.Open(context.Background(), at, mode)
}

// When the jail dies, its calls fail at once, and so does every later call.
func TestDeathOfTheJail(t *testing.T) {
	s := slow{begun: make(chan string, 1), until: make(chan struct{})}
	defer close(s.until)
	ours, theirs := pair(t)
	dup, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	go (&server{calls: s, lock: func() error { return nil }}).serve(theirs, ready)
	c, err := NewClient(ours)
	must(t, err)
	done := make(chan error)
	go func() {
		_, err := c.Stat(t.Context(), at("/"))
		done <- err
	}()
	<-s.begun
	must(t, unix.Shutdown(dup, unix.SHUT_RDWR))
	unix.Close(dup)
	if err := <-done; !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	<-c.Ended()
	if _, err := c.Entry(t.Context(), place("/"), false); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	var h files.Handles
	if err := h.Open(t.Context(), "h", c, place("/etc/passwd"), protocol.FsRead); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

// A thread that cannot give up its rights makes no call.
func TestWithoutLockNoCall(t *testing.T) {
	ours, theirs := pair(t)
	served := make(chan error, 1)
	go func() {
		served <- (&server{calls: files.Local{}, lock: func() error { return syscall.EPERM }}).serve(theirs, ready)
	}()
	c, err := NewClient(ours)
	must(t, err)
	dir := t.TempDir()
	if err := c.CreateDirectory(t.Context(), at(dir, "d"), false); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/d"); err == nil {
		t.Error("the call was made")
	}
}

// What is no packet of the other end ends the connection, and takes no memory.
func TestWrongPackets(t *testing.T) {
	for _, data := range []string{"x", `{"id":1,"op":`, `[]`} {
		ours, theirs := pair(t)
		c, err := NewClient(ours)
		must(t, err)
		if _, err := unix.Write(int(theirs.Fd()), []byte(data)); err != nil {
			t.Fatal(err)
		}
		<-c.Ended()
		theirs.Close()

		ours, theirs = pair(t)
		if _, err := unix.Write(int(ours.Fd()), []byte(data)); err != nil {
			t.Fatal(err)
		}
		if err := (&server{calls: files.Local{}, lock: func() error { return nil }}).serve(theirs, ready); err == nil {
			t.Errorf("%q is served", data)
		}
		ours.Close()
	}
	c, _ := both(t, files.Local{})
	if _, err := c.do(t.Context(), request{Op: 99}, nil, nil); err == nil {
		t.Error("an unknown call has a result")
	}
	if err := (&replacing{client: c, id: 7}).client.only(t.Context(), request{Op: opCommit, Kept: 7}); err == nil {
		t.Error("an unknown new file has a place")
	}
}

func BenchmarkStatThroughTheSocket(b *testing.B) {
	c, _ := both(b, files.Local{})
	for b.Loop() {
		if _, err := c.Stat(b.Context(), at("/etc")); err != nil {
			b.Fatal(err)
		}
	}
}

// TestVisitBeforeJail: a place is visited in the server before its jail hears of the path.
func TestVisitBeforeJail(t *testing.T) {
	stop := errors.New("stop")
	visited := ""
	at := files.Place{Path: "/x", Visit: func(path string, _ bool) error {
		visited = path
		return stop
	}}
	r := request{Op: opRename, At: packPlace(files.Place{Path: "/y"}), From: packPlace(at)}
	if err := r.check(); err != stop || visited != "/x" {
		t.Errorf("%v, visited %q", err, visited)
	}
}

// A jail that holds files reads and writes them itself: the server gets no descriptor of a file.
func TestHeldFiles(t *testing.T) {
	c, _ := bothOf(t, &server{calls: files.Local{}, holds: true})
	ctx, dir := t.Context(), t.TempDir()
	long := strings.Repeat("0123456789", 250_000) // more than two chunks
	must(t, files.WriteFile(ctx, c, at(dir, "f"), []byte(long)))
	if onDisk, err := os.ReadFile(dir + "/f"); err != nil || string(onDisk) != long {
		t.Errorf("%d bytes, %v", len(onDisk), err)
	}
	if data, err := files.ReadFile(ctx, c, at(dir, "f"), 3_000_000, nil); err != nil || string(data) != long {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := files.ReadFile(ctx, c, at(dir, "f"), 1_000_000, nil); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large file: %v", err)
	}
	o, err := c.Open(ctx, at(dir, "f"), protocol.FsUpdate)
	must(t, err)
	if _, ok := o.File.(files.Elsewhere); !ok {
		t.Errorf("an open file is a %T", o.File)
	}
	_, err = o.File.WriteAt([]byte("abc"), 4)
	must(t, err)
	must(t, o.File.Close())
	if _, err := o.File.WriteAt([]byte("abc"), 4); err == nil {
		t.Error("a write after the end of a file succeeds")
	}
	o, err = c.Open(ctx, at(dir, "f"), protocol.FsRead)
	must(t, err)
	part := make([]byte, 5)
	if n, err := o.File.ReadAt(part, 3); n != 5 || err != nil || string(part) != "3abc7" {
		t.Errorf("%q, %d, %v", part, n, err)
	}
	if n, err := o.File.ReadAt(part, int64(len(long))-2); n != 2 || err != io.EOF || string(part[:n]) != "89" {
		t.Errorf("at the end: %q, %v", part[:n], err)
	}
	if n, err := o.File.ReadAt(part, 1<<40); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if _, err := o.File.WriteAt(part, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("a write to a file opened for reading: %v", err)
	}
	o.Discard()
	o, err = c.Open(ctx, at(dir, "new"), protocol.FsReplace)
	must(t, err)
	_, err = o.File.WriteAt([]byte("x"), 0)
	must(t, err)
	o.Discard()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("a new file that nobody wants has left %v, %v", left, err)
	}
	for range maxKept {
		_, err = c.Open(ctx, at(dir, "f"), protocol.FsRead)
		must(t, err)
	}
	if _, err = c.Open(ctx, at(dir, "f"), protocol.FsRead); err == nil || !strings.Contains(err.Error(), "which is the most") {
		t.Errorf("one more open file: %v", err)
	}
}

// The answer to a read never has more bytes than were asked for, and has them in a file.
func TestWrongAnswerToRead(t *testing.T) {
	ours, theirs := pair(t)
	jail, err := newSocket(theirs)
	must(t, err)
	c, err := NewClient(ours)
	must(t, err)
	defer c.Close()
	many, err := inMemory([]byte("more than three"))
	must(t, err)
	defer many.Close()
	go func() {
		buf := make([]byte, maxPacket)
		for n := 0; ; n++ {
			data, _, err := jail.receive(buf)
			var r request
			if err != nil || json.Unmarshal(data, &r) != nil {
				return
			}
			a, with := answer{ID: r.ID, Held: true, Kept: 1}, (*os.File)(nil)
			switch n {
			case 1:
				a = answer{ID: r.ID, Result: json.RawMessage(`"bW9yZSB0aGFuIHRocmVl"`)}
			case 2:
				a, with = answer{ID: r.ID, InFile: true}, many
			}
			data, err = encode(a)
			if err != nil || jail.send(data, with) != nil {
				return
			}
		}
	}()
	o, err := c.Open(t.Context(), at("/f"), protocol.FsRead)
	must(t, err)
	into := make([]byte, 3)
	if n, err := o.File.ReadAt(into, 0); n != 0 || err == nil {
		t.Errorf("bytes in the packet: %d, %v", n, err)
	}
	if n, err := o.File.ReadAt(into, 0); n != 3 || err != nil || string(into) != "mor" {
		t.Errorf("too many bytes: %q, %d, %v", into, n, err)
	}
}
