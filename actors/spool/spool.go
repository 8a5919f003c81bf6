// Package spool keeps on disk what a process has written and nobody has had yet, so
// that it need not wait. A File has no name in its directory: whatever becomes of the
// server, nothing of it is left there.
package spool

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Disk is what all files of a server have in common. Any goroutine may use it.
type Disk struct {
	dir string
	max int64

	mu      sync.Mutex
	used    int64
	waiting map[*File]struct{} // found it used up since the last give
}

// NewDisk returns a Disk for at most max bytes in files of dir; an empty dir is that
// of temporary files (os.TempDir). It writes nothing yet.
func NewDisk(dir string, max int64) *Disk {
	return &Disk{dir: dir, max: max, waiting: make(map[*File]struct{})}
}

// Used is how many bytes are reserved or written now.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// take reserves up to want bytes for f, or remembers that it waits for some.
func (d *Disk) take(want int64, f *File) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(want, d.max-d.used)
	if n <= 0 {
		d.waiting[f] = struct{}{}
		return 0
	}
	d.used += n
	return n
}

func (d *Disk) give(n int64) {
	d.mu.Lock()
	d.used -= n
	var wake []*File
	for f := range d.waiting {
		wake = append(wake, f)
	}
	clear(d.waiting)
	d.mu.Unlock()
	for _, f := range wake {
		f.tell()
	}
}

// File is the spool of one process. Any goroutine may call any method.
type File struct {
	disk *Disk
	max  int64

	mu      sync.Mutex
	room    func()   // there is room again
	file    *os.File // nil before the first Write and after the last byte was freed
	end     int64    // where the next Write goes
	held    int64    // bytes reserved, or written and not freed
	written int64    // bytes written and not freed
	failed  error    // of a Write: there is no other
	closed  bool     // no Write follows
	freed   []span   // to be punched out
	freeing bool     // a goroutine does that
}

type span struct{ at, n int64 }

// New returns a spool that holds at most max bytes at a time. It opens a file when
// there is something to write.
func (d *Disk) New(max int64) *File { return &File{disk: d, max: max, room: func() {}} }

// Notify has room called, from any goroutine, when there may be room again after
// Reserve found none. It must not block.
func (f *File) Notify(room func()) {
	f.mu.Lock()
	f.room = room
	f.mu.Unlock()
}

func (f *File) tell() {
	f.mu.Lock()
	room := f.room
	f.mu.Unlock()
	room()
}

// Reserve returns how many bytes may be written, at most want: 0 when the file or the
// disk holds all that it may, or a Write has failed. Each is to be written, or given
// back with Return.
func (f *File) Reserve(want int64) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil || f.closed {
		return 0
	}
	if n = min(want, f.max-f.held); n <= 0 {
		return 0
	}
	n = f.disk.take(n, f)
	f.held += n
	return n
}

// Return gives back n reserved bytes.
func (f *File) Return(n int64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	f.held -= n
	f.mu.Unlock()
	f.disk.give(n)
	f.tell()
}

// Write writes data, which was reserved, and returns where. After an error, such as
// that of a full disk, nothing more is reserved, and data is not; it is the caller's to keep.
func (f *File) Write(data []byte) (at int64, err error) {
	f.mu.Lock()
	if f.file == nil {
		f.file, err = anonymous(f.disk.dir)
	}
	file := f.file
	at = f.end
	f.end += int64(len(data)) // it is ours, also while another writes behind it
	f.written += int64(len(data))
	f.mu.Unlock()
	if err == nil {
		_, err = file.WriteAt(data, at)
	}
	if err == nil {
		return at, nil
	}
	err = fmt.Errorf("spool: %w", err)
	f.mu.Lock()
	f.failed = err
	f.mu.Unlock()
	f.free(at, int64(len(data)))
	return 0, err
}

// anonymous returns a file that has no name any more.
func anonymous(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "troupe-spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Err is why a Write has failed; nil if none has.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Held is how many bytes are reserved, or written and not freed.
func (f *File) Held() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// Close says that nothing more will be written. What was can be read until the last
// who holds it has released it.
func (f *File) Close() {
	f.mu.Lock()
	f.closed = true
	f.closeLocked()
	f.mu.Unlock()
}

func (f *File) closeLocked() {
	if f.closed && f.written == 0 && !f.freeing && f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// free gives the disk back what was written at a place. It does not block: a goroutine
// does it, as long as there is some to give.
func (f *File) free(at, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freed = append(f.freed, span{at, n})
	if !f.freeing {
		f.freeing = true
		go f.punchAll()
	}
}

// punchAll is that goroutine. Where a file system cannot punch holes the blocks stay
// until all that was written is free: then the file may take more than its max.
func (f *File) punchAll() {
	for {
		f.mu.Lock()
		freed, file := f.freed, f.file
		f.freed = nil
		if f.freeing = len(freed) > 0; !f.freeing {
			f.closeLocked()
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		var sum int64
		for _, s := range freed {
			if file != nil {
				punch(file, s.at, s.n)
			}
			sum += s.n
		}
		f.mu.Lock()
		f.held -= sum
		f.written -= sum
		if f.held == 0 && f.file != nil {
			f.file.Truncate(0) // nobody reads or writes it
			f.end = 0
		}
		f.mu.Unlock()
		f.disk.give(sum)
		f.tell()
	}
}

// Extent is a piece of a File that several hold: its place on the disk is free when
// the last has released it. A nil *Extent is none: to hold and release it does
// nothing. What nobody can reach any more is freed with the next collection: who loses
// one leaks nothing.
//
// Grow is for its first holder; any goroutine may call the other methods.
type Extent struct {
	*extent
}

type extent struct {
	f  *File
	at int64

	mu      sync.Mutex
	n       int64
	holders int // 0: it was freed
}

// Extent returns the extent of n bytes that Write put at a place, held once.
func (f *File) Extent(at int64, n int) *Extent {
	e := &Extent{&extent{f: f, at: at, n: int64(n), holders: 1}}
	runtime.AddCleanup(e, func(e *extent) { e.release(true) }, e.extent)
	return e
}

// Len is in bytes.
func (e *Extent) Len() int {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.n)
}

// Grow adds the n bytes that Write put at a place, if that is right behind e, and
// reports whether.
func (e *Extent) Grow(at int64, n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at != e.at+e.n {
		return false
	}
	e.n += int64(n)
	return true
}

// Read appends the bytes to buf. Its caller holds e.
func (e *Extent) Read(buf []byte) ([]byte, error) {
	e.f.mu.Lock()
	file := e.f.file
	e.f.mu.Unlock()
	n := e.Len()
	start := len(buf)
	buf = append(buf, make([]byte, n)...)
	if _, err := file.ReadAt(buf[start:], e.at); err != nil {
		return buf[:start], fmt.Errorf("spool: %w", err)
	}
	return buf, nil
}

// Hold adds a holder. The caller holds e, or knows of one who does meanwhile.
func (e *Extent) Hold() {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.holders++
	e.mu.Unlock()
}

// Release takes a holder away.
func (e *Extent) Release() {
	if e != nil {
		e.release(false)
	}
}

func (e *extent) release(all bool) {
	e.mu.Lock()
	free := e.holders > 0 && (all || e.holders == 1)
	if e.holders--; free {
		e.holders = 0
	}
	e.mu.Unlock()
	if free {
		e.f.free(e.at, e.n)
	}
}
