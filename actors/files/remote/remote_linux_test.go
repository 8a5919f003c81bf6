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
func both(t testing.TB, by files.Caller) (c *Client, served chan error) {
	t.Helper()
	return bothOf(t, &server{by: by})
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

// value makes a call, and returns its value.
func value[R any](t testing.TB, by files.Caller, c files.Call) R {
	t.Helper()
	r, err := by(t.Context(), c)
	must(t, err)
	return r.Value.(R)
}

func place(path ...string) files.Place { return files.Place{Path: filepath.Join(path...)} }

// Each call does the same through the socket as in this process.
func TestEachCallThroughTheSocket(t *testing.T) {
	c, _ := both(t, files.Do)
	ctx, dir := t.Context(), t.TempDir()
	whole := files.Call{At: place(dir, "a\xff")}
	must(t, files.WriteFile(ctx, c.Do, whole, []byte("hello")))
	data, err := files.ReadFile(ctx, c.Do, whole, 100)
	if err != nil || string(data) != "hello" {
		t.Fatalf("%q %v", data, err)
	}
	if onDisk, err := os.ReadFile(filepath.Join(dir, "a\xff")); err != nil || string(onDisk) != "hello" {
		t.Fatalf("%q %v", onDisk, err)
	}
	if _, err = files.ReadFile(ctx, c.Do, whole, 4); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a file of 5 bytes with a limit of 4: %v", err)
	}
	done := func(call files.Call) { t.Helper(); value[protocol.Empty](t, c.Do, call) }
	done(files.Call{Op: files.OpCreateDirectory, At: place(dir, "d/e"), Recursive: true})
	if _, err := c.Do(ctx, files.Call{Op: files.OpCreateDirectory, At: place(dir, "d/e")}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if m := value[protocol.FsGetMetadataResult](t, c.Do, files.Call{Op: files.OpStat, At: place(dir, "d")}); !m.IsDirectory {
		t.Errorf("%+v", m)
	}
	done(files.Call{Op: files.OpSymlink, At: place(dir, "l"), Target: "a\xff"})
	if r := value[protocol.FsCanonicalizeResult](t, c.Do, files.Call{Op: files.OpCanonicalize, At: place(dir, "l")}); r.Path != protocol.FileURI(filepath.Join(dir, "a\xff")) {
		t.Errorf("%q", r.Path)
	}
	done(files.Call{Op: files.OpCopy, From: place(dir, "a\xff"), At: place(dir, "d/b")})
	if e := value[protocol.FsEntry](t, c.Do, files.Call{Op: files.OpEntry, At: place(dir, "d/b")}); e.Kind != protocol.FsFile || e.Size != 5 {
		t.Errorf("%+v", e)
	}
	mode, when := uint64(0o640), int64(1_000_000_000_000)
	done(files.Call{Op: files.OpSetMetadata, At: place(dir, "d/b"), Bits: &mode, ModifiedAtMs: &when})
	if e := value[protocol.FsEntry](t, c.Do, files.Call{Op: files.OpEntry, At: place(dir, "d/b"), Follow: true}); e.Mode != mode || e.ModifiedAtMs != when {
		t.Errorf("%+v", e)
	}
	done(files.Call{Op: files.OpRename, From: place(dir, "d/b"), At: place(dir, "d/c")})
	for name, call := range map[string]files.Call{
		"list": {Op: files.OpList, At: place(dir, "d")},
		"read": {Op: files.OpReadDirectory, At: place(dir, "d")},
		"walk": {Op: files.OpWalk, At: place(dir), Walk: &protocol.FsWalkOptions{MaxDepth: 3, MaxDirectories: 9, MaxEntries: 9}},
		"none": {Op: files.OpList, At: place(dir, "none")},
		"long": {Op: files.OpStat, At: place("/" + strings.Repeat("x/", 3000))},
		"root": {Op: files.OpRemove, At: place("/"), Recursive: true, Force: true},
		"rule": {Op: files.OpStat, At: files.Place{Path: dir + "/d/out", Root: dir + "/d", Word: rules.Read}},
		"link": {Op: files.OpStat, At: place(dir, "l"), NoLinks: true},
	} {
		must(t, unlessThere(os.Symlink("/etc", dir+"/d/out")))
		want, wantErr := files.Do(ctx, call)
		got, err := c.Do(ctx, call)
		if wantErr == nil && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if (err == nil) != (wantErr == nil) || err != nil && (files.Text(err) != files.Text(wantErr) || files.Kind(err) != files.Kind(wantErr)) {
			t.Errorf("%s: %v, want %v", name, err, wantErr)
		}
	}
	gone := files.Call{Op: files.OpRemove, At: place(dir, "d"), Recursive: true}
	done(gone)
	if _, err := c.Do(ctx, gone); !errors.Is(err, fs.ErrNotExist) {
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
	c, served := both(t, files.Do)
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("old"), 0o640))
	var h files.Handles
	must(t, h.Open(ctx, "w", nil, c.Do, files.Call{Op: files.OpOpen, At: place(path), Mode: protocol.FsReplace}))
	must(t, h.Open(ctx, "u", nil, c.Do, files.Call{Op: files.OpOpen, At: place(dir, "u"), Mode: protocol.FsUpdate}))
	must(t, h.Open(ctx, "r", nil, c.Do, files.Call{Op: files.OpOpen, At: place(path), Mode: protocol.FsRead}))
	must(t, h.Open(ctx, "lost", nil, c.Do, files.Call{Op: files.OpOpen, At: place(path), Mode: protocol.FsReplace}))
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
	c, _ := both(t, files.Do)
	dir := t.TempDir()
	const n = 300
	for i := range n {
		must(t, os.WriteFile(fmt.Sprintf("%s/%0200d", dir, i), nil, 0o600))
	}
	held := 0
	list := files.Call{Op: files.OpList, At: place(dir), Hold: func(n int) error { held += n; return nil }}
	if r := value[protocol.FsListResult](t, c.Do, list); len(r.Entries) != n || held < n*200 {
		t.Errorf("%d entries, %d bytes held", len(r.Entries), held)
	}
	full := errors.New("full")
	list.Hold = func(int) error { return full }
	if _, err := c.Do(t.Context(), list); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), files.Call{Op: files.OpStat, At: place(dir)}); err != nil {
		t.Error(err)
	}
}

// slow is a filesystem where OpStat waits, as long as the caller does if it obeys.
type slow struct {
	begun chan string
	obeys bool
	until chan struct{}
}

func (s slow) Do(ctx context.Context, c files.Call) (r files.Result, err error) {
	if c.Op != files.OpStat {
		return files.Do(ctx, c)
	}
	s.begun <- c.At.Path
	if s.obeys {
		<-ctx.Done()
		return r, ctx.Err()
	}
	<-s.until
	return r, nil
}

// A call that hangs holds up no other call, and its caller may leave.
func TestHangingCalls(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		s := slow{begun: make(chan string, 100), obeys: obeys, until: make(chan struct{})}
		c, _ := both(t, s.Do)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range Workers - 1 {
			all.Go(func() {
				if _, err := c.Do(ctx, files.Call{Op: files.OpStat, At: place("/")}); !errors.Is(err, context.Canceled) {
					t.Errorf("of a caller that leaves: %v", err)
				}
			})
		}
		for range Workers - 1 {
			<-s.begun
		}
		for range 50 {
			if _, err := c.Do(t.Context(), files.Call{Op: files.OpEntry, At: place("/")}); err != nil {
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
	c, _ := both(t, l.Do)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Do(ctx, files.Call{Op: files.OpOpen, At: place(dir, "f"), Mode: protocol.FsReplace})
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
	c, _ := both(t, files.Do)
	dir := t.TempDir()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 20 { // a Commit may be sent, or not
		o := open(t, c.Do, filepath.Join(dir, fmt.Sprint(i)), protocol.FsReplace)
		if err := o.Commit(over); !errors.Is(err, context.Canceled) {
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
	s := &server{socket: socket, by: files.Do, under: make(map[uint64]*serving), kept: make(map[uint64]files.Opened)}
	must(t, socket.raw.Control(func(fd uintptr) { // the answer must wait
		for unix.Sendmsg(int(fd), make([]byte, 1<<10), nil, nil, unix.MSG_DONTWAIT) == nil {
		}
	}))
	c := &serving{request: request{ID: 1, Op: opCall, Call: &files.Call{Op: files.OpOpen, At: place(t.TempDir(), "f"), Mode: protocol.FsReplace}}}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	made := make(chan struct{})
	go func() {
		s.make(c)
		close(made)
	}()
	o := s.forgetAny()
	for ; o == nil; o = s.forgetAny() {
		time.Sleep(time.Millisecond)
	}
	o.Discard()
	ourSocket.close()
	<-made
	socket.close()
}

// late is a filesystem where OpOpen waits.
type late struct{ begun, until chan struct{} }

func (l late) Do(_ context.Context, c files.Call) (files.Result, error) {
	close(l.begun)
	<-l.until
	return files.Do(context.Background(), c)
}

// When the jail dies, its calls fail at once, and so does every later call.
func TestDeathOfTheJail(t *testing.T) {
	s := slow{begun: make(chan string, 1), until: make(chan struct{})}
	defer close(s.until)
	ours, theirs := pair(t)
	dup, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	go (&server{by: s.Do, lock: func() error { return nil }}).serve(theirs, ready)
	c, err := NewClient(ours)
	must(t, err)
	done := make(chan error)
	go func() {
		_, err := c.Do(t.Context(), files.Call{Op: files.OpStat, At: place("/")})
		done <- err
	}()
	<-s.begun
	must(t, unix.Shutdown(dup, unix.SHUT_RDWR))
	unix.Close(dup)
	if err := <-done; !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	<-c.Ended()
	if _, err := c.Do(t.Context(), files.Call{Op: files.OpEntry, At: place("/")}); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	var h files.Handles
	if err := h.Open(t.Context(), "h", nil, c.Do, files.Call{Op: files.OpOpen, At: place("/etc/passwd")}); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

// A thread that cannot give up its rights makes no call.
func TestWithoutLockNoCall(t *testing.T) {
	ours, theirs := pair(t)
	served := make(chan error, 1)
	go func() {
		served <- (&server{by: files.Do, lock: func() error { return syscall.EPERM }}).serve(theirs, ready)
	}()
	c, err := NewClient(ours)
	must(t, err)
	dir := t.TempDir()
	if _, err := c.Do(t.Context(), files.Call{Op: files.OpCreateDirectory, At: place(dir, "d")}); !errors.Is(err, ErrEnded) {
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
		if err := (&server{by: files.Do, lock: func() error { return nil }}).serve(theirs, ready); err == nil {
			t.Errorf("%q is served", data)
		}
		ours.Close()
	}
	c, _ := both(t, files.Do)
	for _, unknown := range []request{{Op: 99}, {Op: opCall}} {
		if _, err := c.ask(t.Context(), unknown, nil); err == nil {
			t.Error("an unknown call has a result")
		}
	}
	if err := (&file{client: c, id: 7}).Commit(t.Context()); err == nil {
		t.Error("an unknown new file has a place")
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
	if err := check(files.Call{Op: files.OpRename, At: files.Place{Path: "/y"}, From: at}); err != stop || visited != "/x" {
		t.Errorf("%v, visited %q", err, visited)
	}
}

// A jail that holds files reads and writes them itself: the server gets no descriptor of a file.
func TestHeldFiles(t *testing.T) {
	c, _ := bothOf(t, &server{by: files.Do, holds: true})
	ctx, dir := t.Context(), t.TempDir()
	f := files.Call{At: place(dir, "f")}
	long := strings.Repeat("0123456789", 250_000) // more than two chunks
	must(t, files.WriteFile(ctx, c.Do, f, []byte(long)))
	if onDisk, err := os.ReadFile(dir + "/f"); err != nil || string(onDisk) != long {
		t.Errorf("%d bytes, %v", len(onDisk), err)
	}
	if data, err := files.ReadFile(ctx, c.Do, f, 3_000_000); err != nil || string(data) != long {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := files.ReadFile(ctx, c.Do, f, 1_000_000); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large file: %v", err)
	}
	o := open(t, c.Do, dir+"/f", protocol.FsUpdate)
	if o.Here() != nil {
		t.Errorf("an open file is a %T", o)
	}
	_, err := o.WriteAt([]byte("abc"), 4)
	must(t, err)
	must(t, o.Commit(ctx))
	if _, err := o.WriteAt([]byte("abc"), 4); err == nil {
		t.Error("a write after the end of a file succeeds")
	}
	o = open(t, c.Do, dir+"/f", protocol.FsRead)
	part := make([]byte, 5)
	if n, err := o.ReadAt(part, 3); n != 5 || err != nil || string(part) != "3abc7" {
		t.Errorf("%q, %d, %v", part, n, err)
	}
	if n, err := o.ReadAt(part, int64(len(long))-2); n != 2 || err != io.EOF || string(part[:n]) != "89" {
		t.Errorf("at the end: %q, %v", part[:n], err)
	}
	if n, err := o.ReadAt(part, 1<<40); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if _, err := o.WriteAt(part, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("a write to a file opened for reading: %v", err)
	}
	o.Discard()
	o = open(t, c.Do, dir+"/new", protocol.FsReplace)
	_, err = o.WriteAt([]byte("x"), 0)
	must(t, err)
	o.Discard()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("a new file that nobody wants has left %v, %v", left, err)
	}
	for range maxKept {
		open(t, c.Do, dir+"/f", protocol.FsRead)
	}
	f.Op = files.OpOpen
	if _, err = c.Do(ctx, f); err == nil || !strings.Contains(err.Error(), "which is the most") {
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
	o := open(t, c.Do, "/f", protocol.FsRead)
	into := make([]byte, 3)
	if n, err := o.ReadAt(into, 0); n != 0 || err == nil {
		t.Errorf("bytes in the packet: %d, %v", n, err)
	}
	if n, err := o.ReadAt(into, 0); n != 3 || err != nil || string(into) != "mor" {
		t.Errorf("too many bytes: %q, %d, %v", into, n, err)
	}
}
