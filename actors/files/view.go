package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/rules"
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

// View is the filesystem, or the part of it below a root. Its methods are those of package os, after a visit of the path. Below a
// root they refuse paths that lead out; links in the root itself are followed. The zero View is the whole filesystem.
type View struct {
	visit   func(path string, follow bool) error // as Place.Visit
	root    *root                                // nil: the whole filesystem
	noLinks bool                                 // a link in a path is an error; root does not count
}

// View returns the View of the place, which the caller closes.
func (p Place) View() (View, error) {
	v := View{visit: p.Visit}
	if p.Root == "" || p.Root == "/" {
		return v, nil
	}
	err := v.visited(p.Root, true)
	if err == nil {
		v.root, err = openRoot(p)
	}
	return v, err
}

// Close closes the root.
func (v View) Close() {
	if v.root != nil {
		v.root.close()
	}
}

// top is the directory where Follow begins.
func (v View) top() string {
	if v.root == nil {
		return "/"
	}
	return v.root.place.Root
}

// visited visits a path.
func (v View) visited(path string, follow bool) error {
	if v.visit == nil {
		return nil
	}
	return v.visit(path, follow && !v.noLinks)
}

// open opens the file at a path for system calls. Links are followed as far as the View allows.
func (v View) open(path string, flags int, perm uint32) (fd int, err error) {
	if err := v.visited(path, true); err != nil {
		return -1, err
	}
	return v.resolve(path, flags, perm)
}

// use calls do with a path that leads to the file at path, also if a link comes into the way meanwhile. Without follow, a link at
// the end of path is not followed.
func (v View) use(path string, follow bool, do func(path string) error) error {
	if err := v.visited(path, follow); err != nil {
		return err
	}
	if v.root == nil && !v.noLinks {
		return do(path)
	}
	err := v.pinned(path, follow, do)
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		of.Path = path
	}
	return err
}

// look is use for a do with a result.
func look[T any](v View, path string, follow bool, do func(string) (T, error)) (result T, err error) {
	err = v.use(path, follow, func(path string) (err error) {
		result, err = do(path)
		return err
	})
	return result, err
}

// split returns the directory of a path, and the name in it.
func (v View) split(path string) (dir, name string) {
	dir, name = filepath.Split(path)
	if name == "" || name == "." || name == ".." || path == v.top() {
		return path, "." // only a directory can have such a name
	}
	return dir, name
}

// Lstat is as in package os.
func (v View) Lstat(path string) (fs.FileInfo, error) { return look(v, path, false, os.Lstat) }

// Stat is as in package os.
func (v View) Stat(path string) (fs.FileInfo, error) { return look(v, path, true, os.Stat) }

// Readlink is as in package os.
func (v View) Readlink(path string) (string, error) { return look(v, path, false, os.Readlink) }

// Canonicalize returns a path without links.
func (v View) Canonicalize(path string) (string, error) { return look(v, path, true, Canonicalize) }

// Mkdir is as in package os.
func (v View) Mkdir(path string, perm fs.FileMode) error {
	return v.use(path, false, func(path string) error { return os.Mkdir(path, perm) })
}

// MkdirAll is as in package os.
func (v View) MkdirAll(path string, perm fs.FileMode) error {
	err := v.isDirectory(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := v.MkdirAll(filepath.Dir(path), perm); err != nil {
		return err
	}
	err = v.Mkdir(path, perm)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it, or a link leads nowhere
		if found := v.isDirectory(path); !errors.Is(found, fs.ErrNotExist) {
			return found
		}
	}
	return err
}

// isDirectory returns nil if the path leads to a directory.
func (v View) isDirectory(path string) error {
	fd, err := v.open(path, directoryFlags, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// Remove is as in package os.
func (v View) Remove(path string) error { return v.use(path, false, os.Remove) }

// RemoveAll is as in package os.
func (v View) RemoveAll(path string) error { return v.use(path, false, os.RemoveAll) }

// Symlink is as in package os.
func (v View) Symlink(target, path string) error {
	return v.use(path, false, func(path string) error { return os.Symlink(target, path) })
}

// Rename is as in package os.
func (v View) Rename(from, to string) error {
	return v.use(from, false, func(from string) error {
		return v.use(to, false, func(to string) error { return os.Rename(from, to) })
	})
}

// Chmod is as in package os.
func (v View) Chmod(path string, mode fs.FileMode) error {
	return v.use(path, true, func(path string) error { return os.Chmod(path, mode) })
}

// Chtimes is as in package os.
func (v View) Chtimes(path string, accessed, modified time.Time) error {
	return v.use(path, true, func(path string) error { return os.Chtimes(path, accessed, modified) })
}

// Pin calls use with a path of a directory for calls that take no descriptor. The path leads to the directory also if a link comes
// into its way meanwhile.
func (v View) Pin(directory string, use func(path string) error) error {
	return v.use(directory, true, use)
}

// at returns the location of a path whose links are followed. The location is good until Close, and is not closed itself.
func (v View) at(path string) location {
	return location{view: v, dir: unix.AT_FDCWD, path: path, follow: true}
}

// entry returns the location of a path in its directory. If the path ends with a link, the location is that of the link.
func (v View) entry(path string) (at location, err error) {
	if err := v.visited(path, false); err != nil {
		return at, err
	}
	dir, name := v.split(path)
	fd, err := v.resolve(dir, directoryFlags, 0)
	return location{dir: fd, name: name, path: path}, err
}

// behind returns the entry of path, or of the target of the links in path. The file need not exist, but its
// directory must.
func (v View) behind(path string) (at location, err error) {
	target := path
	for range maxLinks {
		if at, err = v.entry(target); err != nil {
			return at, err
		}
		at.path = path
		link, err := at.readlink()
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			return at, nil
		}
		at.close()
		dir, _ := v.split(target)
		switch {
		case err != nil:
			return at, err
		case !strings.HasPrefix(link, "/"):
			target = dir + "/" + link
		case v.root != nil:
			return at, v.root.place.refused()
		default:
			target = link
		}
	}
	return at, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}
