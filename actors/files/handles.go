package files

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
)

// maxOpen is how many files one connection may have open.
const maxOpen = 64

// Handles are the files that a connection has open, under names that it chose. Calls
// about one name come one at a time; else any goroutine may call.
type Handles struct {
	mu   sync.Mutex
	open map[string]*handle
	over bool // CloseAll was called
}

type handle struct {
	file     *os.File     // nil: it is being opened
	replaces *replacement // nil: it is read
	failed   error        // a block that could not be written; the file is then not to be had
	mu       sync.Mutex   // held while file is used, for CloseAll
}

type unknownHandle struct{ id string }

func (u unknownHandle) Error() string        { return fmt.Sprintf("unknown file handle `%s`", u.id) }
func (u unknownHandle) Is(target error) bool { return target == fs.ErrNotExist }

// Open opens a regular file to be read, or one that takes its place once it is closed.
func (h *Handles) Open(id, path string, replace bool) error {
	hd := &handle{}
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if err := h.add(id, hd); err != nil {
		return err
	}
	var err error
	if replace {
		if hd.replaces, err = newReplacement(path); err == nil {
			hd.file = hd.replaces.file
		}
	} else {
		hd.file, _, err = openRegular(path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		delete(h.open, id)
	}
	return err
}

func (h *Handles) add(id string, hd *handle) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
		return fs.ErrClosed
	case h.open[id] != nil:
		return refuse("file handle `%s` already exists", id)
	case len(h.open) >= maxOpen:
		return refuse("%d files are open on this connection, which is the most: fs/close one", maxOpen)
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
		return nil, unknownHandle{id}
	}
	hd.mu.Lock()
	return hd, nil
}

// Read returns up to n bytes from offset on, and whether nothing follows them now. n is at
// most math.MaxInt32.
func (h *Handles) Read(id string, offset uint64, n int) (chunk []byte, eof bool, err error) {
	hd, err := h.get(id)
	if err != nil {
		return nil, false, err
	}
	defer hd.mu.Unlock()
	return block(hd.file, offset, n)
}

// Write writes a block. What was never written before it reads as zeros.
func (h *Handles) Write(id string, offset uint64, data []byte) error {
	hd, err := h.get(id)
	if err != nil {
		return err
	}
	defer hd.mu.Unlock()
	if offset > math.MaxInt64-uint64(len(data)) {
		err = refuse("offset %d is beyond what a file may have", offset)
	} else {
		_, err = hd.file.WriteAt(data, int64(offset))
	}
	if hd.failed == nil {
		hd.failed = err
	}
	return err
}

// Close closes a file; one that was written takes its place now, unless a block of it could not be:
// then the error is that again, for who has not waited for it. It may be repeated.
func (h *Handles) Close(id string) error {
	hd, err := h.get(id)
	if err != nil {
		return nil
	}
	defer hd.mu.Unlock()
	h.mu.Lock()
	delete(h.open, id)
	h.mu.Unlock()
	switch {
	case hd.replaces == nil:
		return hd.file.Close()
	case hd.failed != nil:
		hd.replaces.abort()
		return hd.failed
	}
	return hd.replaces.commit()
}

// CloseAll closes what is open. What was written is dropped, and leaves no trace. It waits for
// the calls that are under way; later ones fail.
func (h *Handles) CloseAll() {
	h.mu.Lock()
	h.over = true
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, hd := range open {
		hd.mu.Lock()
		switch {
		case hd.replaces != nil:
			hd.replaces.abort()
		case hd.file != nil:
			hd.file.Close()
		}
		hd.mu.Unlock()
	}
}
