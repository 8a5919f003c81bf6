package client

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	fileBlock   = 256 << 10 // bytes of a block of a file
	fileBlocks  = 4         // blocks of a file under way at once
	handleBytes = 16        // random bytes of the id of a handle, of at most protocol.FsMaxHandleID
)

// A File is a regular file of the server, open for reading. Read keeps up to four blocks of 256 KiB under way.
//
// An open file of the server ends with its connection. After a cut, Read opens the file again, and goes on where it
// was if the file has its old size and time. Otherwise Read returns ErrFileChanged.
//
// A File is an io.ReaderAt and an io.Seeker. One goroutine at a time may call Read and Seek; any may call ReadAt.
type File struct {
	fs   *FS
	name string
	info *fileInfo

	// Owned by Read and Seek.
	pos   int64        // of the next Read
	ahead []*blockRead // the blocks from pos on, in order
	rest  []byte       // of the first block that has come
	err   error        // of all later Reads

	mu     sync.Mutex // guards the fields below, while a handle is opened, too
	handle handle
	closed bool
}

// A handle is an open file of the server. A handle ends with its connection. The zero handle is none.
type handle struct {
	id   string
	conn uint64
}

// open opens a file for the caller of the method op about name.
func (f *FS) open(op, name, file string, mode protocol.FsMode) (handle, error) {
	at, err := f.at(op, file)
	if err != nil {
		return handle{}, err
	}
	id := rand.Text()[:handleBytes]
	k := f.c.begin(0, protocol.MethodFsOpen, protocol.FsOpenParams{HandleID: id, Path: protocol.FileURI(at), Mode: mode}, nil)
	if err := k.wait(f.ctx, f.c); err != nil {
		return handle{}, pathError(op, name, err)
	}
	return handle{id, k.on}, nil
}

// close begins to close a handle.
func (f *FS) close(h handle) *call {
	return f.c.begin(h.conn, protocol.MethodFsClose, protocol.FsCloseParams{HandleID: h.id}, nil)
}

// A blockRead is an fs/readBlock under way.
type blockRead struct {
	*call
	result protocol.FsReadBlockResult
}

// Open opens a file for reading, or a directory for listing. The file is a *File, or an fs.ReadDirFile.
func (f *FS) Open(name string) (fs.File, error) {
	info, err := f.stat("open", name, true)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &directory{fs: f, name: name, info: info}, nil
	}
	file := &File{fs: f, name: name, info: info}
	if _, err := file.open(0); err != nil {
		return nil, err
	}
	return file, nil
}

// open returns the handle. If the handle is of the connection lost, or if there is none, open opens
// the file. Whoever opens the file again after a cut must find the file of the first time.
func (f *File) open(lost uint64) (handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return handle{}, f.error("read", fs.ErrClosed)
	}
	first := f.handle == handle{}
	if !first && f.handle.conn != lost {
		return f.handle, nil
	}
	h, err := f.fs.open("open", f.name, f.name, "")
	if err != nil {
		return handle{}, err
	}
	if !first {
		now, err := f.fs.stat("read", f.name, true)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && (now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())):
			return handle{}, f.error("read", ErrFileChanged)
		case err != nil:
			return handle{}, err
		}
	}
	f.handle = h
	return h, nil
}

func (f *File) error(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// begin asks for a block.
func (f *File) begin(h handle, offset int64, n int) *blockRead {
	b := new(blockRead)
	b.call = f.fs.c.begin(h.conn, protocol.MethodFsReadBlock, protocol.FsReadBlockParams{HandleID: h.id, Offset: uint64(offset), Len: uint64(n)}, &b.result)
	return b
}

// Stat describes the file as it was when it was opened.
func (f *File) Stat() (fs.FileInfo, error) { return f.info, nil }

// Read reads the next bytes.
func (f *File) Read(p []byte) (int, error) {
	if f.err == nil && len(p) > 0 && len(f.rest) == 0 {
		f.fill()
	}
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	switch {
	case closed:
		return 0, f.error("read", fs.ErrClosed)
	case len(p) == 0:
		return 0, nil
	case len(f.rest) == 0:
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest, f.pos = f.rest[n:], f.pos+int64(n)
	return n, nil
}

// fill gets the block at pos, and asks for blocks after it. Without a block, fill sets err.
func (f *File) fill() {
	for lost := uint64(0); len(f.rest) == 0 && f.err == nil; {
		h, err := f.open(lost)
		if err != nil {
			f.err = err
			return
		}
		for len(f.ahead) < fileBlocks {
			f.ahead = append(f.ahead, f.begin(h, f.pos+int64(len(f.ahead))*fileBlock, fileBlock))
		}
		b := f.ahead[0]
		f.ahead = f.ahead[1:]
		switch err := b.wait(f.fs.ctx, f.fs.c); {
		case errors.Is(err, errOldLink):
			f.ahead, lost = nil, b.bound
		case err != nil:
			f.err = pathError("read", f.name, err)
		default:
			f.rest = b.result.Chunk
			if b.result.EOF {
				f.ahead = nil // they begin after the end
				if len(f.rest) == 0 {
					f.err = io.EOF
				}
			}
		}
	}
}

// Seek sets the position of the next Read.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.info.Size()
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, f.error("seek", fs.ErrInvalid)
	}
	if offset != f.pos {
		f.pos, f.ahead, f.rest = offset, nil, nil
	}
	if f.err == io.EOF {
		f.err = nil
	}
	return offset, nil
}

// ReadAt reads from an offset. The position of Read does not change.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, f.error("readat", fs.ErrInvalid)
	}
	for lost := uint64(0); n < len(p); {
		h, err := f.open(lost)
		if err != nil {
			return n, err
		}
		b := f.begin(h, offset+int64(n), min(len(p)-n, protocol.FsMaxBlock))
		switch err := b.wait(f.fs.ctx, f.fs.c); {
		case errors.Is(err, errOldLink):
			lost = b.bound
		case err != nil:
			return n, pathError("read", f.name, err)
		default:
			n += copy(p[n:], b.result.Chunk)
			if b.result.EOF && n < len(p) {
				return n, io.EOF
			}
		}
	}
	return n, nil
}

// Close closes the file, and does not wait for the server.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return f.error("close", fs.ErrClosed)
	}
	f.closed = true
	if f.handle != (handle{}) {
		f.fs.close(f.handle)
	}
	return nil
}

// A directory is open for listing. The first ReadDir lists it.
type directory struct {
	fs      *FS
	name    string
	info    *fileInfo
	listed  bool
	entries []fs.DirEntry // not returned yet
}

func (d *directory) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *directory) Close() error               { return nil }

func (d *directory) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

func (d *directory) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.listed {
		entries, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.listed, d.entries = true, entries
	}
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	some := d.entries[:n:n]
	d.entries = d.entries[n:]
	return some, nil
}
