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

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
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

// piece is output on disk that the log has not freed.
type piece struct {
	*Extent
	free func()
}

// put reserves and writes n bytes of value b.
func put(t *testing.T, f *File, b byte, n int) piece {
	t.Helper()
	if got := f.Reserve(int64(n)); got != int64(n) {
		t.Fatalf("%d bytes may be written, want %d", got, n)
	}
	at, err := f.Write(bytes.Repeat([]byte{b}, n))
	if err != nil {
		t.Fatal(err)
	}
	return piece{f.Extent(at, n), func() { f.Free(at, int64(n)) }}
}

// drop frees and releases p.
func (p piece) drop() {
	p.free()
	p.Release()
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

// Bytes leave the disk when they are freed and released, and no byte leaves the disk before.
func TestRelease(t *testing.T) {
	const n = 1 << 20
	dir := t.TempDir()
	d := NewDisk(dir, 10*n, nil)
	f := open(t, d, 10*n)
	one, two := put(t, f, '1', n), put(t, f, '2', n)
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("there is a file named %s", names[0].Name())
	}
	one.free()
	if d.Used() != 2*n {
		t.Errorf("the disk holds %d while somebody may read, want %d", d.Used(), 2*n)
	}
	wantBytes(t, one.Extent, '1', n)
	one.Release()
	one.Release() // does nothing
	eventually(t, "the first is gone from the disk", func() bool { return d.Used() == n && blocks(t, f) <= n+n/4 })
	wantBytes(t, two.Extent, '2', n)
	f.Close()
	two.free()
	wantBytes(t, two.Extent, '2', n)
	two.Release()
	eventually(t, "the file is closed", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.file == nil })
	if d.Used() != 0 {
		t.Errorf("the disk holds %d, want 0", d.Used())
	}
	var none *Extent
	none.Release()
	if none.Len() != 0 {
		t.Error("none has a length")
	}
}

// Who loses an extent leaks nothing.
func TestLostExtent(t *testing.T) {
	d := NewDisk(t.TempDir(), 1000, nil)
	f := open(t, d, 1000)
	for range 10 {
		put(t, f, 'x', 100).free() // and never released
	}
	eventually(t, "what nobody can reach was given back", func() bool { runtime.GC(); return d.Used() == 0 })
	put(t, f, 'y', 1000).drop()
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
	defer put(t, f, 'x', 100).drop()
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
	var queue []piece
	for i := range 4000 {
		n := 1 + i*7919%20_000
		for f.Held()+int64(n) > max {
			queue[0].drop()
			queue = queue[1:]
		}
		queue = append(queue, put(t, f, byte(i), n))
	}
	eventually(t, "the disk has only what is held", func() bool { return blocks(t, f) <= f.Held()+2*block })
	for _, p := range queue {
		p.drop()
	}
	f.Close()
	eventually(t, "the file is closed", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.file == nil })
}

// A closed file keeps no writer alive: the collector frees the memory of the process, and with it what the log has on the disk.
func TestClosedFileHoldsNobody(t *testing.T) {
	d := NewDisk(t.TempDir(), 1000, nil)
	func() {
		f := open(t, d, 1000)
		owner := &struct{ log []piece }{}
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
	wantBytes(t, first.Extent, '1', 1<<19)
	first.drop()
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
				one, two := f.Extent(at, n), f.Extent(at, n)
				f.Free(at, int64(n))
				all.Go(func() { wantBytes(t, one, b, n); one.Release() })
				wantBytes(t, two, b, n)
				two.Release()
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

// In any order of writes, frees, reads and releases, a reader finds the bytes that were written, and the file counts all that the log
// or a reader needs, and beside it at most the blocks that somebody reads.
func TestPiecesInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	type piece struct {
		at      int64
		n       int
		value   byte
		freed   bool
		readers []*Extent
	}
	rapid.Check(t, func(t *rapid.T) {
		d := NewDisk(dir, 1<<30, nil)
		f := d.New(1 << 30)
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		var all []*piece
		some := func() *piece {
			if len(all) == 0 {
				t.Skip("nothing is written")
			}
			return rapid.SampledFrom(all).Draw(t, "piece")
		}
		free := func(p *piece) {
			if !p.freed {
				p.freed = true
				f.Free(p.at, int64(p.n))
			}
		}
		release := func(p *piece) {
			if len(p.readers) > 0 {
				p.readers[0].Release()
				p.readers[0].Release() // does nothing
				p.readers = p.readers[1:]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{1, 1000, block - 1000, block, 2*block + 1}).Draw(t, "bytes")
				p := &piece{n: n, value: byte(len(all))}
				f.Reserve(int64(n))
				var err error
				if p.at, err = f.Write(bytes.Repeat([]byte{p.value}, n)); err != nil {
					t.Fatal(err)
				}
				all = append(all, p)
			},
			"read": func(*rapid.T) {
				if p := some(); !p.freed {
					p.readers = append(p.readers, f.Extent(p.at, p.n))
				}
			},
			"free":    func(*rapid.T) { free(some()) },
			"release": func(*rapid.T) { release(some()) },
			"": func(t *rapid.T) {
				needed, read := int64(0), map[int64]bool{}
				for _, p := range all {
					if !p.freed || len(p.readers) > 0 {
						needed += int64(p.n)
					}
					for _, e := range p.readers {
						if got, err := e.Read(nil); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{p.value}, p.n)) {
							t.Fatalf("%d bytes %.10q (%v), want %d of %q", len(got), got, err, p.n, p.value)
						}
						for i := p.at / block; i*block < p.at+int64(p.n); i++ {
							read[i] = true
						}
					}
				}
				if held := f.Held(); held < needed || held > needed+int64(len(read))*block || held != d.Used() {
					t.Fatalf("the file holds %d and the disk %d, needed are %d and %d blocks that are read", held, d.Used(), needed, len(read))
				}
			},
		})
		f.Close()
		for _, p := range all {
			for free(p); len(p.readers) > 0; {
				release(p)
			}
		}
		if f.Held() != 0 || f.written != 0 || len(f.blocks) > 1 {
			t.Fatalf("in the end %d bytes are held, and parts of %d blocks", f.Held(), len(f.blocks))
		}
	})
}

// A spool goes on with the file of an earlier process: what the log needs stays, the rest goes back to the disk, and nothing is written where
// something is.
func TestRestoreFile(t *testing.T) {
	old := open(t, NewDisk(t.TempDir(), 0, nil), 1<<20)
	var pieces []Piece
	for i, size := range []int{3 * block, 1000, 2 * block, 500} {
		put(t, old, byte('a'+i), size)
		pieces = append(pieces, Piece{old.end - int64(size), int64(size)})
	}
	last := pieces[3] // its place was never stored
	pieces = []Piece{pieces[2], pieces[1]}

	d := NewDisk("", 1<<20, nil)
	f := d.New(1 << 20)
	if err := f.Restore(old.file, pieces); err != nil {
		t.Fatal(err)
	}
	const held = 2*block + 1000
	if f.Held() != held || d.Used() != held {
		t.Errorf("%d bytes are held, and %d of the disk, want %d", f.Held(), d.Used(), held)
	}
	wantBytes(t, f.Extent(pieces[0].At, 2*block), 'c', 2*block)
	wantBytes(t, f.Extent(pieces[1].At, 1000), 'b', 1000)
	eventually(t, "the blocks before are free", func() bool { return blocks(t, f) < 5*block })
	more := put(t, f, 'e', 100)
	if at := more.extent.at; at != last.At+last.N {
		t.Errorf("the next output is at %d, want %d", at, last.At+last.N)
	}
	more.drop()
	for _, p := range pieces {
		f.Free(p.At, p.N)
	}
	runtime.GC() // the extents
	eventually(t, "nothing is held", func() bool { runtime.GC(); return f.Held() == 0 && d.Used() == 0 })

	for _, wrong := range [][]Piece{{{0, 10}, {5, 10}}, {{0, -1}}, {{last.At, 501 + 100}}} {
		if err := d.New(1).Restore(old.file, wrong); err == nil {
			t.Errorf("the pieces %v are accepted", wrong)
		}
	}
}

// Who wants to know of the file hears of it before its first byte, and may refuse it.
func TestOpened(t *testing.T) {
	d, refusal := NewDisk(t.TempDir(), 0, nil), errors.New("no")
	for _, want := range []error{refusal, nil} {
		f, told := d.New(100), 0
		f.Opened(func(file *os.File) error {
			if st, err := file.Stat(); err != nil || st.Size() != 0 {
				t.Error(st, err)
			}
			told++
			return want
		})
		if err := errors.Join(f.Open(), f.Open()); !errors.Is(err, want) || want == nil && told != 1 {
			t.Errorf("told %d times, %v, want %v", told, err, want)
		}
		if n := f.Reserve(10); (n > 0) != (want == nil) {
			t.Errorf("%d bytes may be written", n)
		}
	}

	f := d.New(1 << 20)
	f.Opened(func(*os.File) error { return nil })
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	put(t, f, 'a', 3*block).drop()
	put(t, f, 'b', 1)
	f.mu.Lock()
	if len(f.freed) != 3 || len(f.dead) > 0 || f.punching {
		t.Errorf("freed %v, dead %v: blocks go back to the disk before Punch", f.freed, f.dead)
	}
	f.mu.Unlock()
	f.Punch()
	eventually(t, "the blocks are free", func() bool { return blocks(t, f) <= block })
}
