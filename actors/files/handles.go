package files

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxOpen is how many files one connection may have open. (exec-server.)
const maxOpen = 128

// fdReserve is how many file descriptors handles leave to the rest of the program. A handle lives
// long, so clients could take all descriptors.
const fdReserve = 64

// Handles are the open files of a connection, under names chosen by the client. At most one call at
// a time may use the same name; otherwise any goroutine may call.
type Handles struct {
	mu   sync.Mutex
	open map[string]*handle
	over bool // CloseAll was called
}

type handle struct {
	Opened            // nil until Open has finished
	about  About      // fixed when Open has finished
	failed error      // the first error of writing a block; Close then discards the file
	mu     sync.Mutex // held while file is used; CloseAll waits for mu
}

// About is what is fixed about an open file.
type About struct {
	Filesystem string // as mounts.Of; "": another process holds the file
	Elsewhere  bool   // another process holds the file
	Target     string // the path of the file that the handle changes; "": it was opened for reading
	Note       any    // of the caller of Open
}

// Open opens a regular file by a call c with OpOpen. With FsReplace, Open creates a new file for writing; Close lets the new file
// replace the file at the place. Find returns note.
func (h *Handles) Open(ctx context.Context, id string, note any, by Caller, c Call) error {
	hd := &handle{about: About{Note: note}}
	if c.Mode.Writes() {
		hd.about.Target = c.At.Path
	}
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if err := h.add(id, hd); err != nil {
		return err
	}
	r, err := by(ctx, c)
	if hd.Opened = r.File; err == nil && scarce(hd.Here()) {
		hd.Discard()
		err = &fs.PathError{Op: "open", Path: c.At.Path, Err: unix.EMFILE}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		delete(h.open, id)
		return err
	}
	f := hd.Here()
	control(f, func(fd uintptr) { hd.about.Filesystem = mounts.Of(int(fd)) })
	hd.about.Elsewhere = f == nil
	return nil
}

// control calls do with the descriptor of a file; nil: not at all.
func control(f *os.File, do func(fd uintptr)) {
	if conn, err := f.SyscallConn(); err == nil { // Fd would change the mode of the file
		conn.Control(do)
	}
}

func (h *Handles) add(id string, hd *handle) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
		return fs.ErrClosed
	case h.open[id] != nil:
		return Refuse(protocol.KindExists, "file handle `%s` already exists", id)
	case len(h.open) >= maxOpen:
		return Refuse(protocol.KindLimit, "at most %d file handles may be open per connection", maxOpen)
	}
	if h.open == nil {
		h.open = make(map[string]*handle)
	}
	h.open[id] = hd
	return nil
}

// get returns the handle, locked.
func (h *Handles) get(id string) (*handle, error) {
	h.mu.Lock()
	hd := h.open[id]
	h.mu.Unlock()
	if hd == nil {
		return nil, &failure{protocol.KindUnknownHandle, fmt.Sprintf("unknown file handle `%s`", id), fs.ErrNotExist}
	}
	hd.mu.Lock()
	return hd, nil
}

// Read returns up to n bytes from offset on. eof reports whether chunk is shorter than n. n is at
// most math.MaxInt32. If Read fails, the handle is closed, as by Close: also one for writing, which cannot be read.
func (h *Handles) Read(id string, offset uint64, n int) (chunk []byte, eof bool, err error) {
	hd, err := h.get(id)
	if err != nil {
		return nil, false, err
	}
	defer hd.mu.Unlock()
	if chunk, eof, err = block(hd, offset, n); err != nil {
		h.close(context.Background(), id, hd)
	}
	return chunk, eof, err
}

// Write writes a block. Bytes never written before offset read as zeros.
func (h *Handles) Write(id string, offset uint64, data []byte) error {
	if offset > math.MaxInt64-uint64(len(data)) {
		return Refuse(protocol.KindParams, "file write range exceeds the signed 64-bit file offset limit")
	}
	hd, err := h.get(id)
	if err != nil {
		return err
	}
	defer hd.mu.Unlock()
	_, err = hd.WriteAt(data, int64(offset))
	if hd.failed == nil {
		hd.failed = err
	}
	return err
}

// Close closes a file. A file opened with FsReplace replaces its target now. But if the system could
// not write a block, Close discards the new file and returns the error of that block again, for clients
// that did not wait for the answer to the block. Close may be repeated.
func (h *Handles) Close(ctx context.Context, id string) error {
	hd, err := h.get(id)
	if err != nil {
		return nil
	}
	defer hd.mu.Unlock()
	return h.close(ctx, id, hd)
}

// close closes a file whose mu the caller holds.
func (h *Handles) close(ctx context.Context, id string, hd *handle) error {
	h.mu.Lock()
	delete(h.open, id)
	h.mu.Unlock()
	if hd.failed != nil && hd.about.Target != "" {
		hd.Discard()
		return hd.failed
	}
	return hd.Commit(ctx)
}

// Find returns what is fixed about the file of a handle. False: there is no such handle.
func (h *Handles) Find(id string) (about About, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hd := h.open[id]
	if hd == nil {
		return About{}, false
	}
	return hd.about, true
}

// CloseAll closes all open files. New files opened with FsReplace are discarded without a trace. CloseAll
// waits for running calls; later calls fail.
func (h *Handles) CloseAll() {
	h.mu.Lock()
	h.over = true
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, hd := range open {
		hd.mu.Lock()
		if hd.Opened != nil {
			hd.Discard()
		}
		hd.mu.Unlock()
	}
}

// scarce reports whether f has one of the last fdReserve file descriptors of this process.
func scarce(f *os.File) (last bool) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		control(f, func(fd uintptr) { last = uint64(fd)+fdReserve >= uint64(limit.Cur) })
	}
	return last
}
