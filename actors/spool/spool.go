// Package spool keeps output on disk until its readers have taken the output, so that the program need not wait.
// A File has no name in its directory. So nothing is left there, even if the server is killed.
//
// A File only grows. The pump of a stream writes bytes to a reserved place, the log keeps the place and frees it later, and
// whoever delivers output reads an Extent. Freed blocks go back to the disk. Offsets and lengths count stored bytes, which are the bytes of the output.
//
// # Where to look
//
//   - spool.go: Disk, the budget of all files; File; Extent
//   - nameless_*.go, punch_*.go: files without a name, and holes in them
package spool

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/b6f6fdd7/troupe/internal/budget"
)

// block is the unit, in bytes, in which a file gives space back to the disk: when no byte of the block is needed
// any more. A file system cannot take back less than a page.
const block = 64 << 10

// Disk has the files of a server, or of a share, and bounds their bytes: reserved, or written and not freed. Any
// goroutine may use a Disk.
type Disk struct {
	*budget.Output
	dir string
}

// NewDisk returns a Disk for at most max bytes in files of dir. An empty dir means os.TempDir. short is as for
// budget.NewOutput.
func NewDisk(dir string, max int64, short func()) *Disk {
	return &Disk{budget.NewOutput(max, short), dir}
}

// Share returns a Disk for at most max bytes within d.
func (d *Disk) Share(max int64, short func()) *Disk {
	return &Disk{d.Output.Share(max, short), d.dir}
}

// File is the spool of a process. Any goroutine may call any method. Only Open, Write and the reads of an Extent
// wait for the disk. No other method waits for them.
type File struct {
	disk *Disk
	max  int64

	opening sync.Mutex           // held while Open does
	opened  func(*os.File) error // Open calls it with the new file; nil: nobody wants to know

	mu      sync.Mutex
	room    func()   // there is room again
	file    *os.File // nil before Open, and after Close when all was freed
	end     int64    // where the next Write goes
	held    *int64   // bytes reserved, or written and not given back: apart from f, which the collector may free first
	written int64    // bytes written and not given back
	failed  error    // of a Write: there is no other
	closed  bool     // no Write follows

	// blocks has, by number, each block with freed bytes or with an Extent. Such blocks are few, because the log frees its oldest
	// output first.
	blocks   map[int64]part
	freed    []int64 // blocks to be punched out, with Opened once Punch is called
	dead     []int64 // blocks that the goroutine punches out
	punching bool    // a goroutine punches dead out
}

// A part says how much of a block the log has freed, in bytes, and how many Extents still need the block.
type part struct {
	freed   int64 // the log needs these bytes no more
	due     int64 // of freed: not given back, because somebody may read the block
	readers int   // how many Extents have bytes of the block
}

// New returns a spool for at most max bytes at a time. On the disk each end of a range of bytes may take a block
// more.
func (d *Disk) New(max int64) *File {
	f := &File{disk: d, max: max, room: func() {}, held: new(int64), blocks: make(map[int64]part)}
	runtime.AddCleanup(f, func(held *int64) { budget.Wake(d.Give(*held)) }, f.held) // of a log that was lost
	return f
}

// Restore has a new spool go on with the file of an earlier process. pieces has the bytes in it that a log needs: all other bytes of the file are
// freed. Nobody else uses the spool yet.
func (f *File) Restore(file *os.File, pieces []Piece) error {
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f.file, f.end = file, st.Size()
	pieces = append(slices.Clone(pieces), Piece{f.end, 0})
	slices.SortFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.At, b.At) })
	at := int64(0)
	for _, p := range pieces {
		if p.At < at || p.N < 0 || p.At+p.N > f.end {
			return fmt.Errorf("spool: %d bytes at %d, where others are, or beyond the %d bytes of the file", p.N, p.At, f.end)
		}
		f.written += p.N
		f.change(at, p.At-at, func(p part, n int64) part { return part{p.freed + n, p.due, p.readers} })
		at = p.At + p.N
	}
	*f.held = f.written
	f.disk.Charge(f.written)
	return nil
}

// A Piece is N bytes in a file, from At on.
type Piece struct{ At, N int64 }

// Opened has Open call keep with the file that it has made, because somebody else keeps the file, too. An error of keep is Open's. From now on freed
// blocks go back to the disk only with Punch. Opened is called before the first Open.
func (f *File) Opened(keep func(*os.File) error) { f.opened = keep }

// Punch gives freed blocks back to the disk, if Opened was called: whoever else keeps the file needs them no more. A nil File has none.
func (f *File) Punch() {
	if f == nil || f.opened == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.punchLocked()
}

// punchLocked has a goroutine punch the freed blocks out.
func (f *File) punchLocked() {
	f.dead, f.freed = append(f.dead, f.freed...), nil
	if len(f.dead) > 0 && !f.punching {
		f.punching = true
		go f.punch()
	}
}

// Notify sets room, which any goroutine may call. After a Reserve that found no room, room is called when there
// may be room again. A call of room must not block.
func (f *File) Notify(room func()) {
	f.mu.Lock()
	f.room = room
	f.mu.Unlock()
}

// Wake calls room.
func (f *File) Wake() {
	f.mu.Lock()
	room := f.room
	f.mu.Unlock()
	room()
}

// Open makes the file, before the first Write. Open may be called again.
func (f *File) Open() error {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.mu.Lock()
	done := f.file != nil || f.closed
	f.mu.Unlock()
	if done {
		return nil
	}
	file, err := nameless(cmp.Or(f.disk.dir, os.TempDir()))
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if f.opened != nil {
		if err := f.opened(file); err != nil {
			file.Close()
			return fmt.Errorf("spool: %w", err)
		}
	}
	f.mu.Lock()
	f.file = file
	f.closeLocked()
	f.mu.Unlock()
	return nil
}

// removed makes a file in dir, and removes its name.
func removed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "troupe-spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Reserve returns how many bytes may be written, at most want. Reserve returns 0 if the file or the disk is
// full, or if a Write has failed. The caller writes each reserved byte, or gives the byte back with Return.
func (f *File) Reserve(want int64) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil || f.closed || f.file == nil {
		return 0
	}
	if n = min(want, f.max-*f.held); n <= 0 {
		return 0
	}
	n = f.disk.Take(1, n, f)
	*f.held += n
	return n
}

// Return gives back n reserved bytes.
func (f *File) Return(n int64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	*f.held -= n
	f.mu.Unlock()
	budget.Wake(f.disk.Give(n))
	f.Wake()
}

// Write writes data, for which room was reserved, and returns the place in the file. After an error, such as a
// full disk, the reservation has ended and the caller keeps data.
func (f *File) Write(data []byte) (at int64, err error) {
	n := int64(len(data))
	f.mu.Lock()
	file := f.file
	at = f.end
	f.end += n // the range is ours, also while another writer uses the next range
	f.written += n
	f.mu.Unlock()
	if _, err = file.WriteAt(data, at); err == nil {
		return at, nil
	}
	err = fmt.Errorf("spool: %w", err)
	f.mu.Lock()
	f.failed = err
	f.mu.Unlock()
	f.Free(at, n)
	return 0, err
}

// Short reports whether the disk is short.
func (f *File) Short() bool { return f.disk.Short() }

// Err is why a Write has failed; nil if none has.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Full reports whether the file has as many bytes as it may.
func (f *File) Full() bool { return f.Held() >= f.max }

// Held is how many bytes are reserved, or written and not given back.
func (f *File) Held() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.held
}

// Close says that no Write follows. Written bytes can be read until the log has freed them and their Extents are released.
func (f *File) Close() {
	f.mu.Lock()
	f.closed = true
	f.room = func() {} // the old room keeps the writer, and all its memory, alive
	f.closeLocked()
	f.mu.Unlock()
	budget.Wake(f.disk.Forget(f))
}

func (f *File) closeLocked() {
	if f.closed && f.written == 0 && !f.punching && f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// Free says that the log needs n bytes at a place no more. The bytes are given back once nobody reads their blocks.
func (f *File) Free(at, n int64) {
	if n == 0 {
		return
	}
	f.change(at, n, func(p part, n int64) part { return part{p.freed + n, p.due + n, p.readers} })
}

// change applies do to each block of a range, with the bytes of the range in the block, and gives back what nobody needs.
func (f *File) change(at, n int64, do func(p part, n int64) part) {
	back := int64(0)
	f.mu.Lock()
	for end := at + n; at < end; {
		i := at / block
		n := min((i+1)*block, end) - at
		p := do(f.blocks[i], n)
		if p.readers == 0 {
			back += p.due
			p.due = 0
		}
		switch {
		case p.readers > 0 || p.freed > 0 && p.freed < block:
			f.blocks[i] = p
		case p.freed == block:
			f.freed = append(f.freed, i)
			fallthrough
		default:
			delete(f.blocks, i)
		}
		at += n
	}
	*f.held -= back
	f.written -= back
	if f.opened == nil {
		f.punchLocked()
	}
	f.closeLocked()
	f.mu.Unlock()
	if back > 0 {
		budget.Wake(f.disk.Give(back))
		f.Wake()
	}
}

// punch is the goroutine that gives dead blocks back to the file system. If the file system cannot take blocks back,
// the blocks stay until the file is closed.
func (f *File) punch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.dead) > 0 && !(f.closed && f.written == 0) {
		dead, file := f.dead, f.file
		f.dead = nil
		f.mu.Unlock()
		for _, i := range dead {
			punch(file, i*block, block)
		}
		f.mu.Lock()
	}
	f.punching = false
	f.closeLocked()
}

// Extent is a piece of a File for a reader: until its Release, its blocks stay on the disk, also if the log frees them. A nil
// *Extent is no piece: Release does nothing. The collector releases an Extent that nobody can reach, so a lost Extent leaks nothing.
// Any goroutine may call any method.
type Extent struct {
	*extent
}

type extent struct {
	f     *File
	at, n int64
	held  bool // guarded by f.mu
}

// Extent returns the n bytes that Write put at a place, which the log has not freed yet.
func (f *File) Extent(at int64, n int) *Extent {
	e := &Extent{&extent{f, at, int64(n), true}}
	f.change(at, e.n, func(p part, _ int64) part { return part{p.freed, p.due, p.readers + 1} })
	runtime.AddCleanup(e, (*extent).release, e.extent)
	return e
}

// Len is in bytes.
func (e *Extent) Len() int {
	if e == nil {
		return 0
	}
	return int(e.n)
}

// Read appends the bytes to buf, before the Release.
func (e *Extent) Read(buf []byte) ([]byte, error) {
	defer runtime.KeepAlive(e) // or the collector could release e meanwhile
	e.f.mu.Lock()
	file := e.f.file
	e.f.mu.Unlock()
	start := len(buf)
	buf = append(buf, make([]byte, e.n)...)
	if _, err := file.ReadAt(buf[start:], e.at); err != nil {
		return buf[:start], fmt.Errorf("spool: %w", err)
	}
	return buf, nil
}

// Release says that nobody reads e any more. A second call does nothing.
func (e *Extent) Release() {
	if e != nil {
		e.release()
	}
}

func (e *extent) release() {
	e.f.mu.Lock()
	held := e.held
	e.held = false
	e.f.mu.Unlock()
	if held {
		e.f.change(e.at, e.n, func(p part, _ int64) part { return part{p.freed, p.due, p.readers - 1} })
	}
}
