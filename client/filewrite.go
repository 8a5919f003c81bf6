package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// cleanupTime is how long a writer whose context is done may take to remove its temporary file.
const cleanupTime = 5 * time.Second

// WriteOptions are the options of FS.Create. The zero value, or nil, is as os.Create, except for the mode.
type WriteOptions struct {
	// Mode has the permission bits of the file. Zero: an existing file keeps its mode, and a new file gets 0644.
	Mode fs.FileMode
	// ModTime is the time of the last change. Zero: the time of the write.
	ModTime time.Time
	// NoFollow replaces a link at the name, not the target of the link.
	NoFollow bool
}

// A Writer writes a file of the server. The file has its old content, or does not exist, until Close, and then all of
// the new content at once. Write keeps up to four blocks of 256 KiB under way.
//
// After a cut, the Writer goes on with the blocks that the server had not answered. To be able to, it writes a large
// file to a temporary file in the same directory, with a name .NAME.troupe-RANDOM. If the program ends without Close or
// Abort, the temporary file stays.
//
// One goroutine at a time may call the methods.
type Writer struct {
	fs     *FS
	name   string
	o      WriteOptions
	exists bool        // there was a file when the Writer was made
	link   bool        // there was a link, which the new file replaces
	mode   fs.FileMode // of the new file

	buf    []byte
	offset int64 // of buf
	err    error // of all later calls

	temp   string // the temporary file; "": none yet
	handle handle
	blocks []*blockWrite // under way, in order
}

// A blockWrite is an fs/writeBlock under way.
type blockWrite struct {
	*call
	params protocol.FsWriteBlockParams
}

// Create returns a Writer for a file. Its directory must exist.
func (f *FS) Create(name string, o *WriteOptions) (*Writer, error) {
	w := &Writer{fs: f, name: name}
	if o != nil {
		w.o = *o
	}
	info, err := f.stat("create", name, false)
	if err == nil {
		link := info.entry.Kind == protocol.FsSymlink
		w.link = link && w.o.NoFollow
		w.exists = !w.link
		if link {
			info, err = f.stat("create", name, true)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !w.exists:
		w.mode = 0o644
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EISDIR}
	default:
		w.mode = info.Mode().Perm()
	}
	if w.o.Mode != 0 {
		w.mode = w.o.Mode.Perm()
	}
	return w, nil
}

// WriteFile writes a file at once, as a Writer does.
func (f *FS) WriteFile(name string, data []byte, o *WriteOptions) error {
	w, err := f.Create(name, o)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// Write writes p to the new content. After an error the Writer is of no more use, and the old content stays.
func (w *Writer) Write(p []byte) (n int, err error) {
	for w.err == nil && len(p) > 0 {
		part := p[:min(len(p), fileBlock-len(w.buf))]
		w.buf = append(w.buf, part...)
		p, n = p[len(part):], n+len(part)
		if len(w.buf) == fileBlock {
			w.end(w.flush())
		}
	}
	return n, w.err
}

// end ends the Writer if err is not nil.
func (w *Writer) end(err error) {
	if err == nil || w.err != nil {
		return
	}
	w.discard()
	w.err = err
}

// Abort ends the Writer. The file keeps its old content, and the temporary file is removed. After Close or an error,
// Abort does nothing.
func (w *Writer) Abort() { w.end(w.closed()) }

func (w *Writer) closed() error { return &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed} }

// discard removes the temporary file.
func (w *Writer) discard() {
	w.buf, w.blocks = nil, nil
	if w.temp == "" {
		return
	}
	files := w.fs
	if files.ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(files.ctx), cleanupTime)
		defer cancel()
		files = files.WithContext(ctx)
	}
	files.close(w.handle)
	if err := files.Remove(w.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		files.c.opts.Log.Warn("a temporary file was not removed", "path", path.Join(files.root, w.temp), "err", err)
	}
}

// open opens the temporary file, also once more after a cut, and sends the blocks without an answer.
func (w *Writer) open() error {
	if w.temp == "" {
		w.temp = path.Join(path.Dir(w.name), "."+clipName(path.Base(w.name))+".troupe-"+rand.Text()[:8])
	}
	var err error
	if w.handle, err = w.fs.open("create", w.name, w.temp, protocol.FsUpdate); err != nil {
		return err
	}
	for _, b := range w.blocks {
		w.send(b)
	}
	return nil
}

// clipName shortens a name, so that the name of a temporary file is not too long for a filesystem.
func clipName(name string) string { return name[:min(len(name), 200)] }

func (w *Writer) send(b *blockWrite) {
	b.params.HandleID = w.handle.id
	b.call = w.fs.c.begin(w.handle.conn, protocol.MethodFsWriteBlock, &b.params, nil)
}

// flush sends the buffer, and waits until at most fileBlocks are under way.
func (w *Writer) flush() error {
	if err := context.Cause(w.fs.ctx); err != nil { // await may find an answer and the end of the context at once
		return pathError("write", w.name, err)
	}
	if w.temp == "" {
		if err := w.open(); err != nil {
			return err
		}
	}
	if len(w.buf) > 0 {
		b := &blockWrite{params: protocol.FsWriteBlockParams{Offset: uint64(w.offset), Chunk: w.buf}}
		w.offset += int64(len(w.buf))
		w.buf = nil
		w.blocks = append(w.blocks, b)
		w.send(b)
	}
	return w.await(fileBlocks - 1)
}

// await waits until at most n blocks are under way.
func (w *Writer) await(n int) error {
	for len(w.blocks) > n {
		switch err := w.blocks[0].wait(w.fs.ctx, w.fs.c); {
		case errors.Is(err, errOldLink):
			if err := w.open(); err != nil {
				return err
			}
		case err != nil:
			return pathError("write", w.name, err)
		default:
			w.blocks = w.blocks[1:]
		}
	}
	return nil
}

// Close puts the new content in place. After an error the old content stays. A second Close returns an error.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	small := w.temp == "" && !w.link && (w.exists || w.mode&0o044 == 0o044) // a new file that others must not read is never open to them
	commit := w.commit
	if small {
		commit = w.writeSmall
	}
	if err := commit(); err != nil {
		w.end(err)
		return err
	}
	w.buf, w.err = nil, w.closed()
	return nil
}

// writeSmall writes the file in a single call.
func (w *Writer) writeSmall() error {
	_, err := w.fs.do("write", w.name, protocol.MethodFsWriteFile, func(uri string) any {
		return protocol.FsWriteFileParams{Path: uri, Data: append([]byte{}, w.buf...)}
	}, nil)
	if err != nil || w.exists && w.o.Mode == 0 && w.o.ModTime.IsZero() {
		return err
	}
	return w.fs.setMetadata("write", w.name, w.metadata())
}

// metadata returns the mode and the time of the new file.
func (w *Writer) metadata() (p protocol.FsSetMetadataParams) {
	p.Mode = new(uint64(w.mode))
	if !w.o.ModTime.IsZero() {
		p.ModifiedAtMs = new(w.o.ModTime.UnixMilli())
	}
	return p
}

// commit puts the temporary file in place. An existing file gets the content of the temporary file: so it keeps its
// owner and its other names.
func (w *Writer) commit() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.await(0); err != nil {
		return err
	}
	if err := w.fs.close(w.handle).wait(w.fs.ctx, w.fs.c); err != nil && !errors.Is(err, errOldLink) { // a cut closes, too
		return pathError("write", w.name, err)
	}
	if err := w.fs.setMetadata("write", w.temp, w.metadata()); err != nil {
		return err
	}
	if !w.exists {
		return w.fs.Rename(w.temp, w.name)
	}
	if err := w.fs.Copy(w.temp, w.name); err != nil {
		return err
	}
	if !w.o.ModTime.IsZero() {
		if err := w.fs.Chtimes(w.name, w.o.ModTime); err != nil {
			return err
		}
	}
	return w.fs.Remove(w.temp)
}
