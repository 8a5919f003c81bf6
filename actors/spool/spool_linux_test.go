package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
	"golang.org/x/sys/unix"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 30s: ", what)
		}
	}
}

func open(t *testing.T, d *Disk, max int64) *File {
	t.Helper()
	f := d.New(max)
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	return f
}

// put reserves and writes n bytes of value b.
func put(t *testing.T, f *File, b byte, n int) *Extent {
	t.Helper()
	if got := f.Reserve(int64(n)); got != int64(n) {
		t.Fatalf("%d bytes may be written, want %d", got, n)
	}
	at, err := f.Write(bytes.Repeat([]byte{b}, n))
	if err != nil {
		t.Fatal(err)
	}
	return f.Extent(at, n)
}

func wantBytes(t *testing.T, e *Extent, b byte, n int) {
	t.Helper()
	got, err := e.Read(nil)
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{b}, n)) {
		t.Errorf("%d bytes %.10q (%v), want %d of %q", len(got), got, err, n, b)
	}
}

func blocks(t *testing.T, f *File) (n int64) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestBounds(t *testing.T) {
	d := NewDisk(t.TempDir(), 100, nil)
	told := make(chan int, 10)
	a, b := open(t, d, 60), open(t, d, 60)
	a.Notify(func() { told <- 1 })
	b.Notify(func() { told <- 2 })
	if n := a.Reserve(1000); n != 60 {
		t.Errorf("%d reserved, want the 60 of the file", n)
	}
	if n := b.Reserve(1000); n != 40 {
		t.Errorf("%d reserved, want the 40 that the disk has left", n)
	}
	if n := b.Reserve(1); n != 0 {
		t.Errorf("%d reserved of nothing", n)
	}
	a.Return(60)
	if first, second := <-told, <-told; first+second != 3 {
		t.Error("one of the two files was not told that there is room")
	}
	if n := b.Reserve(1000); n != 20 {
		t.Errorf("%d reserved, want the 20 that the file has left", n)
	}
	b.Return(60)
	if d.Used() != 0 || b.Held() != 0 {
		t.Errorf("the disk holds %d, the file %d, want 0", d.Used(), b.Held())
	}
}

// Released bytes leave the disk, and no byte leaves the disk before.
func TestRelease(t *testing.T) {
	const n = 1 << 20
	dir := t.TempDir()
	d := NewDisk(dir, 10*n, nil)
	f := open(t, d, 10*n)
	one, two := put(t, f, '1', n), put(t, f, '2', n)
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("there is a file named %s", names[0].Name())
	}
	one.Hold()
	one.Release()
	wantBytes(t, one, '1', n) // still held once
	one.Release()
	eventually(t, "the first is gone from the disk", func() bool { return d.Used() == n && blocks(t, f) <= n+n/4 })
	wantBytes(t, two, '2', n)
	f.Close()
	wantBytes(t, two, '2', n)
	two.Release()
	eventually(t, "the file is closed", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.file == nil })
	if d.Used() != 0 {
		t.Errorf("the disk holds %d, want 0", d.Used())
	}
	var none *Extent
	none.Hold()
	none.Release()
	if none.Len() != 0 {
		t.Error("none has a length")
	}
}

func TestGrow(t *testing.T) {
	f := open(t, NewDisk(t.TempDir(), 100, nil), 100)
	e := put(t, f, 'x', 10)
	f.Reserve(20)
	at, _ := f.Write(bytes.Repeat([]byte("x"), 10))
	if !e.Grow(at, 10) {
		t.Fatal("it does not grow by what was written behind it")
	}
	if at, _ = f.Write([]byte("yyyyyyyyyy")); e.Grow(at+1, 9) {
		t.Error("it grew over a hole")
	}
	wantBytes(t, e, 'x', 20)
	e.Release()
	eventually(t, "all 20 bytes are given back", func() bool { return f.Held() == 10 })
}

// Who loses an extent leaks nothing.
func TestLostExtent(t *testing.T) {
	d := NewDisk(t.TempDir(), 1000, nil)
	f := open(t, d, 1000)
	for range 10 {
		put(t, f, 'x', 100).Hold() // held twice, released never
	}
	eventually(t, "what nobody can reach was freed", func() bool { runtime.GC(); return d.Used() == 0 })
	put(t, f, 'y', 1000).Release()
}

// A Write that fails gives its reservation back, and no Write follows.
func TestFailedWriteHoldsNothing(t *testing.T) {
	d := NewDisk(t.TempDir(), 1000, nil)
	f := open(t, d, 1000)
	f.Reserve(100)
	f.file.Close() // the next Write fails
	if _, err := f.Write(make([]byte, 100)); !errors.Is(err, os.ErrClosed) || f.Err() == nil {
		t.Errorf("%v, and later %v, want that the file is closed", err, f.Err())
	}
	if n := f.Reserve(1); n != 0 || d.Used() != 0 || f.Held() != 0 {
		t.Errorf("%d reserved; the disk holds %d, the file %d, want 0", n, d.Used(), f.Held())
	}
}

// Programs of the server's user watch the directory, which may be /tmp. Whoever opens the file by a name reads and changes
// the output of others.
func TestFileNeverHasAName(t *testing.T) {
	dir := t.TempDir()
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	f := open(t, NewDisk(dir, 1<<20, nil), 1<<20)
	defer put(t, f, 'x', 100).Release()
	events := make([]byte, 4<<10)
	if n, err := unix.Read(watch, events); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("the directory had a name for the file: %q, %v", events[:max(n, 0)], err)
	}
}

func TestNoSuchDirectory(t *testing.T) {
	f := NewDisk(filepath.Join(t.TempDir(), "none"), 1000, nil).New(1000)
	if err := f.Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that there is no such directory", err)
	}
	if n := f.Reserve(10); n != 0 {
		t.Errorf("without a file %d bytes may be written", n)
	}
	f.Close()
}

// Pieces of any size take no more of the disk than is held, and a block at each end.
func TestOddPieces(t *testing.T) {
	const max = 1 << 20
	f := open(t, NewDisk(t.TempDir(), max, nil), max)
	var queue []*Extent
	for i := range 4000 {
		n := 1 + i*7919%20_000
		for f.Held()+int64(n) > max {
			queue[0].Release()
			queue = queue[1:]
		}
		queue = append(queue, put(t, f, byte(i), n))
	}
	eventually(t, "the disk has only what is held", func() bool { return blocks(t, f) <= f.Held()+2*block })
	for _, e := range queue {
		e.Release()
	}
	f.Close()
	eventually(t, "the file is closed", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.file == nil })
}

// A closed file keeps no writer alive: the collector frees the memory of the process, and with the memory the
// extents.
func TestClosedFileHoldsNobody(t *testing.T) {
	d := NewDisk(t.TempDir(), 1000, nil)
	func() {
		f := open(t, d, 1000)
		owner := &struct{ log []*Extent }{}
		f.Notify(func() { owner.log = owner.log[:len(owner.log):len(owner.log)] })
		owner.log = append(owner.log, put(t, f, 'x', 100))
		f.Close()
	}()
	eventually(t, "what the owner held was freed", func() bool { runtime.GC(); return d.Used() == 0 })
}

// TestFullDisk writes to a file system of 1 MiB.
func TestFullDisk(t *testing.T) {
	needs.Mount(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	f := open(t, NewDisk(dir, 10<<20, nil), 10<<20)
	first := put(t, f, '1', 1<<19)
	f.Reserve(1 << 20)
	if _, err := f.Write(make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want ENOSPC", err)
	}
	wantBytes(t, first, '1', 1<<19)
	first.Release()
	f.Close()
}

// Many write, read, pass on and release at once: each finds its own bytes.
func TestConcurrent(t *testing.T) {
	d := NewDisk(t.TempDir(), 1<<20, nil)
	f := open(t, d, 1<<20)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for round := range 200 {
				n := 1 + (worker*7919+round*104729)%20000
				for got := int64(0); got < int64(n); {
					if got = f.Reserve(int64(n)); got < int64(n) {
						f.Return(got)
						runtime.Gosched()
					}
				}
				b := byte('a' + worker)
				at, err := f.Write(bytes.Repeat([]byte{b}, n))
				if err != nil {
					t.Error(err)
					return
				}
				e := f.Extent(at, n)
				e.Hold()
				all.Go(func() { wantBytes(t, e, b, n); e.Release() })
				wantBytes(t, e, b, n)
				e.Release()
			}
		})
	}
	all.Wait()
	eventually(t, "all is given back", func() bool { return d.Used() == 0 && f.Held() == 0 })
	f.Close()
}

// A share of a disk takes no more than its part, and never more than the whole has left.
func TestShares(t *testing.T) {
	whole := NewDisk(t.TempDir(), 100, nil)
	alice, bob := whole.Share(70, nil), whole.Share(70, nil)
	told := make(chan int, 10)
	a, b := open(t, alice, 1000), open(t, bob, 1000)
	a.Notify(func() { told <- 1 })
	b.Notify(func() { told <- 2 })
	if n := a.Reserve(1000); n != 70 {
		t.Errorf("%d reserved, want the 70 of the share", n)
	}
	if n, more := b.Reserve(1000), b.Reserve(1); n != 30 || more != 0 {
		t.Fatalf("%d and %d reserved, want the 30 that the whole has left", n, more)
	}
	a.Return(20)
	for n := 0; n != 2; n = <-told { // b waited for the whole
	}
	if n := b.Reserve(1000); n != 20 || alice.Used() != 50 || bob.Used() != 50 || whole.Used() != 100 {
		t.Errorf("%d reserved; used %d, %d, in all %d", n, alice.Used(), bob.Used(), whole.Used())
	}
	b.Reserve(1)
	b.Return(50)
	a.Return(50)
	b.Close()
	if alice.Used()+bob.Used()+whole.Used() != 0 {
		t.Error("used for nobody")
	}
}
