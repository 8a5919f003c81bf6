package files

import (
	"context"
	"io"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Calls makes the calls about files of a client: Local in this process, package remote in a sandbox. A call may take as
// long as its disk does. A call whose context is done may return early with an error; a call that waits for a disk may also
// finish. Any goroutine may call the methods.
type Calls interface {
	Looks
	CreateDirectory(ctx context.Context, at At, recursive bool) error
	Remove(ctx context.Context, at At, recursive, force bool) error
	Copy(ctx context.Context, from, to Place, recursive bool, hold Hold) error
	Rename(ctx context.Context, from, to Place) error
	Symlink(ctx context.Context, at Place, target string) error
	SetMetadata(ctx context.Context, at Place, mode *uint64, modifiedAtMs *int64) error
}

// Looks are the calls that change nothing, but for Open with another mode than FsRead.
type Looks interface {
	// Open opens a regular file. The mode "" means FsRead.
	Open(ctx context.Context, at At, mode protocol.FsMode) (Opened, error)
	Stat(ctx context.Context, at At) (protocol.FsGetMetadataResult, error)
	Canonicalize(ctx context.Context, at Place) (string, error)
	ReadDirectory(ctx context.Context, at Place, hold Hold) (protocol.FsReadDirectoryResult, error)
	Walk(ctx context.Context, at Place, o protocol.FsWalkOptions, hold Hold) (protocol.FsWalkResult, error)
	Entry(ctx context.Context, at Place, follow bool) (protocol.FsEntry, error)
	List(ctx context.Context, at Place, hold Hold) (protocol.FsListResult, error)
}

// At is a place. With NoLinks, no component of its path may be a link: see NoFollow.
type At struct {
	Place
	NoLinks bool
}

// path returns the path under its rule about links.
func (at At) path() (Path, error) {
	if at.NoLinks {
		return at.NoFollow()
	}
	return at.Place, nil
}

// Content is an open file: an *os.File, or an Elsewhere.
type Content interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
}

// Elsewhere is a Content that another process holds open. The method HeldElsewhere does nothing.
type Elsewhere interface {
	Content
	HeldElsewhere()
}

// Opened is an open file. Its owner closes File, or ends Replaces, which closes File as well.
type Opened struct {
	File Content
	Size int64 // of a file opened for reading, in bytes, when it was opened; 0 of many files of /proc
	// Replaces puts the file in the place of another file. Nil: the file was not opened with FsReplace.
	Replaces Replacing
}

// Replacing is a new file that has no place yet. Its owner calls one of the methods, once.
type Replacing interface {
	// Commit puts the new file in the place of the old. If Commit fails, no trace of the new file remains. If ctx ends first, the
	// new file may have its place, or get it later.
	Commit(ctx context.Context) error
	// Abort removes every trace of the new file.
	Abort()
}

// Discard closes the file without a trace.
func (o Opened) Discard() {
	switch {
	case o.Replaces != nil:
		o.Replaces.Abort()
	case o.File != nil:
		o.File.Close()
	}
}

// ReadFile returns the content of a regular file. A file of more than max bytes is refused.
func ReadFile(ctx context.Context, on Looks, at At, max int, hold Hold) ([]byte, error) {
	o, err := on.Open(ctx, at, protocol.FsRead)
	if err != nil {
		return nil, err
	}
	defer o.Discard()
	return readAll(o.File, o.Size, at.Path, max, hold)
}

// WriteFile replaces the content of a file by data. Readers see either the old content or the new content. If WriteFile
// fails, the old content stays. If ctx ends first, the new content may be there, or come later.
func WriteFile(ctx context.Context, on Calls, at At, data []byte) error {
	o, err := on.Open(ctx, at, protocol.FsReplace)
	if err != nil {
		return err
	}
	if _, err := o.File.Write(data); err != nil {
		o.Discard()
		return err
	}
	return o.Replaces.Commit(ctx)
}

// Local makes the calls in this process.
type Local struct{}

// Open makes the call in this process.
func (Local) Open(_ context.Context, at At, mode protocol.FsMode) (Opened, error) {
	path, err := at.path()
	if err != nil {
		return Opened{}, err
	}
	return path.open(mode)
}

// CreateDirectory makes the call in this process.
func (Local) CreateDirectory(_ context.Context, at At, recursive bool) error {
	path, err := at.path()
	if err != nil {
		return err
	}
	return path.CreateDirectory(recursive)
}

// Stat makes the call in this process.
func (Local) Stat(_ context.Context, at At) (m protocol.FsGetMetadataResult, err error) {
	path, err := at.path()
	if err != nil {
		return m, err
	}
	return path.Stat()
}

// Canonicalize makes the call in this process.
func (Local) Canonicalize(_ context.Context, at Place) (string, error) { return at.Canonicalize() }

// ReadDirectory makes the call in this process.
func (Local) ReadDirectory(ctx context.Context, at Place, hold Hold) (protocol.FsReadDirectoryResult, error) {
	return at.ReadDirectory(ctx, hold)
}

// Walk makes the call in this process.
func (Local) Walk(ctx context.Context, at Place, o protocol.FsWalkOptions, hold Hold) (protocol.FsWalkResult, error) {
	return at.Walk(ctx, o, hold)
}

// Remove makes the call in this process.
func (Local) Remove(_ context.Context, at At, recursive, force bool) error {
	path, err := at.path()
	if err != nil {
		return err
	}
	return path.Remove(recursive, force)
}

// Copy makes the call in this process.
func (Local) Copy(ctx context.Context, from, to Place, recursive bool, hold Hold) error {
	return Copy(ctx, from, to, recursive, hold)
}

// Entry makes the call in this process.
func (Local) Entry(_ context.Context, at Place, follow bool) (protocol.FsEntry, error) {
	return at.Entry(follow)
}

// List makes the call in this process.
func (Local) List(ctx context.Context, at Place, hold Hold) (protocol.FsListResult, error) {
	return at.List(ctx, hold)
}

// Rename makes the call in this process.
func (Local) Rename(_ context.Context, from, to Place) error { return Rename(from, to) }

// Symlink makes the call in this process.
func (Local) Symlink(_ context.Context, at Place, target string) error { return at.Symlink(target) }

// SetMetadata makes the call in this process.
func (Local) SetMetadata(_ context.Context, at Place, mode *uint64, modifiedAtMs *int64) error {
	return at.SetMetadata(mode, modifiedAtMs)
}
