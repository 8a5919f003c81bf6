package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dirBatch is how many entries of a directory are read at a time. Tests set less.
var dirBatch = 1000

// Copy copies a file with its mode, a symbolic link as a link, or a directory.
//
// The copy of a file replaces an existing file to; if to is a link, its target. The copy of a link
// replaces an existing link, and nothing else.
//
// If recursive, Copy copies the content of a directory into the directory to. Missing directories
// are made, with the modes of their sources; existing directories keep their modes. Anything other
// than files, directories and links is skipped.
//
// Copy stops at the first error, and when ctx is done. A partly copied file is then removed; the
// finished copies of a directory stay, and directories still incomplete have the mode 0700.
func Copy(ctx context.Context, from, to string, recursive bool, hold Hold) error {
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return err
	case info.IsDir() && !recursive:
		return refuse("fs/copy requires recursive: true when sourcePath is a directory")
	case info.IsDir():
		t := treeCopy{ctx: ctx, root: info, hold: hold}
		return t.begin(from, to)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return refuse("fs/copy only supports regular files, directories, and symlinks")
	}
	return copyEntry(ctx, from, to, info.Mode())
}

// treeCopy is one Copy of a directory.
type treeCopy struct {
	ctx  context.Context
	root fs.FileInfo // of the directory that is copied
	hold Hold
}

func (t *treeCopy) begin(from, to string) error {
	if err := t.outside(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return t.directory(from, to)
}

// outside refuses a target within the source: the copy would have no end. Directories are compared,
// not paths, since a bind mount has another path.
func (t *treeCopy) outside(to string) error {
	real, err := Canonicalize(to)
	for errors.Is(err, fs.ErrNotExist) {
		to = filepath.Dir(to)
		real, err = Canonicalize(to)
	}
	for ; err == nil; real = filepath.Dir(real) {
		if info, err := os.Stat(real); err == nil && os.SameFile(info, t.root) {
			return refuse("fs/copy cannot copy a directory to itself or one of its descendants")
		}
		if real == "/" {
			return nil
		}
	}
	return err
}

// directory copies what is in the directory from into the directory to.
func (t *treeCopy) directory(from, to string) error {
	d, err := openFile(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	source, err := d.Stat()
	if err != nil {
		return err
	}
	made, err := t.target(to)
	if err != nil {
		return err
	}
	below, size, err := t.entries(d, from, to)
	d.Close() // a deep tree takes no descriptors
	for _, name := range below {
		if err == nil {
			err = t.directory(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	t.hold.Take(-size)
	if err == nil && made != nil { // a read-only directory must be filled before
		err = os.Chmod(to, made.Mode()&^fs.ModePerm|source.Mode().Perm())
	}
	return err
}

// target makes the directory to, or accepts an existing directory; then made is nil.
func (t *treeCopy) target(to string) (made fs.FileInfo, err error) {
	err = os.Mkdir(to, 0o700) // others must not look into what may become private
	if err == nil {
		return os.Lstat(to)
	}
	info, statErr := os.Stat(to)
	if !errors.Is(err, fs.ErrExist) || statErr != nil || !info.IsDir() {
		return nil, err
	}
	if link, err := os.Lstat(to); err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil, err
	}
	return nil, t.outside(to)
}

// entries copies all entries of the directory d, except the directories in it. They are below, and
// take size bytes from the Hold.
func (t *treeCopy) entries(d *os.File, from, to string) (below []string, size int, err error) {
	for {
		some, err := d.ReadDir(dirBatch)
		if err == io.EOF || err == nil && len(some) == 0 {
			return below, size, nil
		}
		if err != nil {
			return nil, size, err
		}
		for _, e := range some {
			name := e.Name()
			switch err = t.ctx.Err(); {
			case err != nil:
			case e.IsDir():
				if err = t.hold.Take(len(name) + entryBytes); err == nil {
					below = append(below, name)
					size += len(name) + entryBytes
				}
			default:
				err = copyEntry(t.ctx, filepath.Join(from, name), filepath.Join(to, name), e.Type())
			}
			if err != nil {
				return nil, size, err
			}
		}
	}
}

// copyEntry copies a file or a symbolic link. Nothing happens with others.
func copyEntry(ctx context.Context, from, to string, kind fs.FileMode) error {
	switch {
	case kind.IsRegular():
		return copyFile(ctx, from, to)
	case kind&fs.ModeSymlink != 0:
		return copyLink(from, to)
	}
	return nil
}

func copyLink(from, to string) error {
	link, err := os.Readlink(from)
	if err != nil {
		return err
	}
	err = os.Symlink(link, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if old, oldErr := os.Lstat(to); oldErr != nil || old.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	name := filepath.Join(filepath.Dir(to), unusedName())
	if err := os.Symlink(link, name); err != nil {
		return err
	}
	if err := os.Rename(name, to); err != nil {
		os.Remove(name)
		return err
	}
	return nil
}

func copyFile(ctx context.Context, from, to string) error {
	f, info, err := openRegular(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := newReplacement(to)
	if err != nil {
		return err
	}
	if r.same(info) {
		r.abort()
		return nil // from and to are the same file
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(r.file, f, copyStep)
		}
	}
	if err == io.EOF {
		err = r.chmod(info.Mode())
	}
	if err != nil {
		r.abort()
		return err
	}
	return r.commit()
}
