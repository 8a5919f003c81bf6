package files

import (
	"context"
	"io/fs"
	"os"
	"time"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Place is an absolute, clean path whose links are followed. If Root is set, no link leads the methods out of
// Root: they fail, and tell nothing about the files there, not even whether there are any. Others may put links
// into the path meanwhile.
//
// Below a Root a link is followed only if it is relative. Absolute links, also to places below Root, and the
// magic links of /proc lead out. Names below a Root work only on Linux.
type Place struct {
	Path string
	Root string // "" and "/": the whole filesystem; else the beginning of Path
	Word string // the word of a policy that would allow more, for errors
	// Visit is called before a call looks at a path. If follow, a link at its end is followed. An error of Visit ends the look.
	// Visit may wait. Nil: nobody asks.
	Visit func(path string, follow bool) error
}

// refused is the error for a path that leads out of the root.
func (p Place) refused() error { return &rules.Refusal{What: "path", Name: p.Path, Word: p.Word} }

// A View is the filesystem, or the part of it below a root. Its methods are those of package os; below a root
// they refuse paths that lead out, and links in the root itself are followed.
type View interface {
	Lstat(path string) (fs.FileInfo, error)
	Stat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	Mkdir(path string, perm fs.FileMode) error
	MkdirAll(path string, perm fs.FileMode) error
	Remove(path string) error
	RemoveAll(path string) error
	Symlink(target, path string) error
	Rename(from, to string) error
	Chmod(path string, mode fs.FileMode) error
	Chtimes(path string, accessed, modified time.Time) error

	// Canonicalize returns a path without links.
	Canonicalize(path string) (string, error)
	// OpenDirectory opens a directory for calls that take names in it.
	OpenDirectory(path string) (fd int, err error)
	// Top is the directory where Follow begins.
	Top() string
	// Outside is the error for paths that lead out; nil: no path does.
	Outside() error
	// Pin calls use with a path of a directory for calls that take no descriptor. The path leads to the directory
	// also if a link comes into its way meanwhile.
	Pin(directory string, use func(path string)) error
	Close()

	// at returns the location of a path. The location is good until Close, and is not closed itself.
	at(path string) location
}

// View returns the View of the place, which the caller closes.
func (p Place) View() (v View, err error) {
	if p.Root == "" || p.Root == "/" {
		v = whole{}
	} else if err = p.visit(p.Root, true); err == nil {
		v, err = openConfined(p)
	}
	if err == nil && p.Visit != nil {
		v = visiting{v, p.Visit}
	}
	return v, err
}

// visit calls Visit, if there is one.
func (p Place) visit(path string, follow bool) error {
	if p.Visit == nil {
		return nil
	}
	return p.Visit(path, follow)
}

// whole is the View of the whole filesystem.
type whole struct{}

func (whole) Lstat(path string) (fs.FileInfo, error)        { return os.Lstat(path) }
func (whole) Stat(path string) (fs.FileInfo, error)         { return os.Stat(path) }
func (whole) Readlink(path string) (string, error)          { return os.Readlink(path) }
func (whole) Mkdir(path string, perm fs.FileMode) error     { return os.Mkdir(path, perm) }
func (whole) MkdirAll(path string, perm fs.FileMode) error  { return os.MkdirAll(path, perm) }
func (whole) Remove(path string) error                      { return os.Remove(path) }
func (whole) RemoveAll(path string) error                   { return os.RemoveAll(path) }
func (whole) Symlink(target, path string) error             { return os.Symlink(target, path) }
func (whole) Rename(from, to string) error                  { return os.Rename(from, to) }
func (whole) Chmod(path string, mode fs.FileMode) error     { return os.Chmod(path, mode) }
func (whole) Chtimes(path string, a, m time.Time) error     { return os.Chtimes(path, a, m) }
func (whole) Canonicalize(path string) (string, error)      { return Canonicalize(path) }
func (whole) OpenDirectory(path string) (fd int, err error) { return openDirectory(path) }
func (whole) Top() string                                   { return "/" }
func (whole) Outside() error                                { return nil }
func (whole) Pin(path string, use func(string)) error       { use(path); return nil }
func (whole) Close()                                        {}
func (whole) at(path string) location                       { return anywhere(path) }

// NoFollow returns the path with the rule that no component is a link. Such a path is where it says, so a path that
// begins with a root is below the root. A missing root is an error: no method makes it.
func (p Place) NoFollow() (Path, error) {
	if p.Path == p.Root && p.Root != "/" {
		return p, nil // links in a root belong to the operator
	}
	v, err := p.View()
	if err != nil {
		return nil, err
	}
	v.Close()
	return NoFollow(p.Path), p.visit(p.Path, false)
}

// in calls do with the View of the place.
func (p Place) in(do func(View) error) error {
	v, err := p.View()
	if err != nil {
		return err
	}
	defer v.Close()
	return do(v)
}

// Read returns the content of a regular file. A file of more than max bytes is refused.
func (p Place) Read(max int, hold Hold) (data []byte, err error) {
	err = p.in(func(v View) error {
		data, err = v.at(p.Path).read(max, hold)
		return err
	})
	return data, err
}

// Write replaces the content of a file by data. Readers see either the old content or the new
// content. If Write fails, the old content stays.
func (p Place) Write(data []byte) error {
	return p.in(func(v View) error {
		at, err := behind(v, p.Path)
		if err != nil {
			return err
		}
		return at.write(data)
	})
}

func (p Place) open(mode protocol.FsMode) (o Opened, err error) {
	err = p.in(func(v View) error {
		at := v.at(p.Path)
		if mode == protocol.FsReplace {
			if at, err = behind(v, p.Path); err != nil {
				return err
			}
		}
		o, err = at.opened(mode)
		return err
	})
	return o, err
}

// CreateDirectory makes a directory. If recursive, CreateDirectory also makes missing parents, and
// accepts an existing directory.
func (p Place) CreateDirectory(recursive bool) error {
	return p.in(func(v View) error { return createDirectory(v, p.Path, recursive) })
}

// Stat returns the metadata of the path, without CreatedAtMs, as exec-server. For a symbolic link, the target's
// metadata are returned, with IsSymlink set; a dangling link is an error.
func (p Place) Stat() (m protocol.FsGetMetadataResult, err error) {
	err = p.in(func(v View) error {
		m, err = stat(v, p.Path)
		return err
	})
	return m, err
}

// Remove removes a file, a symbolic link or a directory. If recursive, a directory is removed with
// all its content. If force, a missing path is no error. A root is not removed.
func (p Place) Remove(recursive, force bool) error {
	if p.Path == p.Root || p.Path == "/" {
		return refuse(protocol.KindPolicy, "path `%s` is not removed", p.Path)
	}
	return p.in(func(v View) error { return remove(v, p.Path, recursive, force) })
}

// ReadDirectory returns the entries of a directory, in no order, without dangling links. If there are
// more than maxListed entries or maxListBytes bytes, ReadDirectory fails. ReadDirectory stops when ctx is done.
func (p Place) ReadDirectory(ctx context.Context, hold Hold) (r protocol.FsReadDirectoryResult, err error) {
	err = p.in(func(v View) error {
		r, err = readDirectory(ctx, v, p.Path, hold)
		return err
	})
	return r, err
}

// Walk is the function Walk.
func (p Place) Walk(ctx context.Context, o protocol.FsWalkOptions, hold Hold) (r protocol.FsWalkResult, err error) {
	err = p.in(func(v View) error {
		r, err = walkIn(ctx, v, p.Path, o, hold)
		return err
	})
	return r, err
}

// Canonicalize returns the path without symbolic links.
func (p Place) Canonicalize() (real string, err error) {
	err = p.in(func(v View) error {
		real, err = v.Canonicalize(p.Path)
		return err
	})
	return real, err
}
