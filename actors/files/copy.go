package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// copyFiles copies a file with its mode, a symbolic link as a link, or a directory.
//
// The copy of a file replaces an existing file to; if to is a link, its target. The copy of a link
// replaces an existing link, and nothing else.
//
// If recursive, copyFiles copies the content of a directory into the directory to. Missing directories
// are made, with the modes of their sources; existing directories keep their modes. Anything other
// than files, directories and links is skipped.
//
// copyFiles stops at the first error, and when ctx is done. A partly copied file is then removed; the
// finished copies of a directory stay, and directories still incomplete have the mode 0700.
func copyFiles(ctx context.Context, source View, c Call) error {
	target, err := c.At.View()
	if err != nil {
		return err
	}
	defer target.Close()
	copies := copying{ctx: ctx, source: source, target: target, hold: c.Hold}
	return copies.begin(c.From.Path, c.At.Path, c.Recursive)
}

// copying is one call of copyFiles.
type copying struct {
	ctx            context.Context
	source, target View
	root           fs.FileInfo // of the directory that is copied
	hold           Hold
}

func (c *copying) begin(from, to string, recursive bool) error {
	info, err := c.source.Lstat(from)
	switch {
	case err != nil:
		return err
	case info.IsDir() && !recursive:
		return Refuse(protocol.KindParams, "fs/copy requires recursive: true when sourcePath is a directory")
	case info.IsDir():
		c.root = info
		return c.tree(from, to)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return Refuse(protocol.KindNotFile, "fs/copy only supports regular files, directories, and symlinks")
	}
	return c.entry(from, to, info.Mode())
}

func (c *copying) tree(from, to string) error {
	if err := c.outside(to); err != nil {
		return err
	}
	if to != c.target.top() {
		if err := c.target.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
	}
	return c.directory(from, to)
}

// outside refuses a target within the source: the copy would have no end. Directories are compared,
// not paths, since a bind mount has another path.
func (c *copying) outside(to string) error {
	real, err := c.target.Canonicalize(to)
	for errors.Is(err, fs.ErrNotExist) {
		to = filepath.Dir(to)
		real, err = c.target.Canonicalize(to)
	}
	for ; err == nil; real = filepath.Dir(real) {
		if info, err := os.Stat(real); err == nil && os.SameFile(info, c.root) {
			return Refuse(protocol.KindParams, "fs/copy cannot copy a directory to itself or one of its descendants")
		}
		if real == "/" {
			return nil
		}
	}
	return err
}

// directory copies what is in the directory from into the directory to.
func (c *copying) directory(from, to string) error {
	d, err := c.source.at(from).open(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	source, err := d.Stat()
	if err != nil {
		return err
	}
	made, err := c.makeTarget(to)
	if err != nil {
		return err
	}
	below, size, err := c.entries(d, from, to)
	d.Close() // a deep tree takes no descriptors
	for _, name := range below {
		if err == nil {
			err = c.directory(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	c.hold.Take(-size)
	if err == nil && made != nil { // a read-only directory must be filled before
		err = c.target.Chmod(to, made.Mode()&^fs.ModePerm|source.Mode().Perm())
	}
	return err
}

// makeTarget makes the directory to, or accepts an existing directory; then made is nil.
func (c *copying) makeTarget(to string) (made fs.FileInfo, err error) {
	err = c.target.Mkdir(to, 0o700) // others must not look into what may become private
	if err == nil {
		return c.target.Lstat(to)
	}
	info, statErr := c.target.Stat(to)
	if !errors.Is(err, fs.ErrExist) || statErr != nil || !info.IsDir() {
		return nil, err
	}
	if link, err := c.target.Lstat(to); err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil, err
	}
	return nil, c.outside(to)
}

// entries copies all entries of the directory d, except the directories in it. They are below, and
// take size bytes from the Hold.
func (c *copying) entries(d *os.File, from, to string) (below []string, size int, err error) {
	err = eachEntry(c.ctx, d, func(e fs.DirEntry) error {
		name := e.Name()
		if !e.IsDir() {
			return c.entry(filepath.Join(from, name), filepath.Join(to, name), e.Type())
		}
		if err := c.hold.Take(len(name) + entryBytes); err != nil {
			return err
		}
		below = append(below, name)
		size += len(name) + entryBytes
		return nil
	})
	return below, size, err
}

// entry copies a file or a symbolic link. Nothing happens with others.
func (c *copying) entry(from, to string, kind fs.FileMode) error {
	switch {
	case kind.IsRegular():
		return c.file(from, to)
	case kind&fs.ModeSymlink != 0:
		return c.link(from, to)
	}
	return nil
}

func (c *copying) link(from, to string) error {
	link, err := c.source.Readlink(from)
	if err != nil {
		return err
	}
	err = c.target.Symlink(link, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if old, oldErr := c.target.Lstat(to); oldErr != nil || old.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	name := filepath.Join(filepath.Dir(to), unusedName())
	if err := c.target.Symlink(link, name); err != nil {
		return err
	}
	if err := c.target.Rename(name, to); err != nil {
		c.target.Remove(name)
		return err
	}
	return nil
}

func (c *copying) file(from, to string) error {
	f, info, err := c.source.at(from).openRegular()
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := newReplacement(c.target, to)
	if err != nil {
		return err
	}
	if r.same(info) {
		r.Discard()
		return nil // from and to are the same file
	}
	for err == nil {
		if err = c.ctx.Err(); err == nil {
			_, err = io.CopyN(r.File, f, copyStep)
		}
	}
	if err == io.EOF {
		err = r.chmod(info.Mode())
	}
	if err != nil {
		r.Discard()
		return err
	}
	return r.Commit(c.ctx)
}
