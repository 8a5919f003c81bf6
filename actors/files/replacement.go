package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links are followed, as in path_resolution(7).
const maxLinks = 40

// replacement is a new file before it replaces another file, or takes a free name. Until commit the
// file is unnamed. On a filesystem without unnamed files, the file has a temporary name (see
// open(2), O_TMPFILE). The content is not synced: after a loss of power the target may be the old
// file, the new file, or empty.
type replacement struct {
	file  *os.File
	at    location     // of the file to replace, or of a free name
	old   *unix.Stat_t // of the file to replace; nil: none
	named string       // temporary name in the directory; "": the file is unnamed
}

// newReplacement creates a file to replace path, or the target of the links in path.
func newReplacement(path string) (*replacement, error) {
	at, err := behind(path)
	if err != nil {
		return nil, err
	}
	return replace(at)
}

// replace creates a file to replace the file at a location, with the mode of the old file and, if permitted,
// its owner. The replacement takes over the location, and closes it.
func replace(at location) (*replacement, error) {
	r := &replacement{at: at}
	if err := r.create(); err != nil {
		r.abort()
		return nil, err
	}
	return r, nil
}

func (r *replacement) create() error {
	switch st, kind, err := r.at.stat(); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case kind == unix.S_IFLNK:
		return r.at.isLink(unix.ELOOP)
	case kind == unix.S_IFDIR:
		return &fs.PathError{Op: "write", Path: r.at.path, Err: unix.EISDIR}
	case kind == unix.S_IFIFO || kind == unix.S_IFSOCK: // nobody reads there
		return &fs.PathError{Op: "write", Path: r.at.path, Err: unix.ENXIO}
	case kind != unix.S_IFREG:
		return notFile(r.at.path)
	default: // a rename would not check the file's write permission
		r.old = &st
		if err := r.at.try("write", func() error { return unix.Faccessat(r.at.dir, r.at.name, unix.W_OK, unix.AT_EACCESS) }); err != nil {
			return err
		}
	}
	var err error
	if r.file, err = openUnnamed(r.at); err != nil {
		if err := r.openNamed(); err != nil {
			return err
		}
	}
	if r.old != nil {
		_ = r.file.Chown(int(r.old.Uid), int(r.old.Gid)) // if permitted
		// chown(2) clears set-user-ID, so chmod comes after.
		return r.at.try("chmod", func() error { return unix.Fchmod(int(r.file.Fd()), uint32(r.old.Mode)&0o7777) })
	}
	return nil
}

// behind returns the location of path, or of the target of the links in path. The file need not exist, but its
// directory must.
func behind(path string) (location, error) {
	target, err := behindLinks(path)
	if err != nil {
		return location{}, err
	}
	at, err := locationIn(target, openDirectory)
	at.path = path
	return at, err
}

// behindLinks resolves all symbolic links in path. The result need not exist, but its directory
// must.
func behindLinks(path string) (string, error) {
	for range maxLinks {
		// Not filepath.Dir, which reduces link/.. to nothing.
		i := strings.LastIndexByte(path, '/')
		dir, name := path[:i+1], path[i+1:]
		if name == "" || name == "." || name == ".." {
			return Canonicalize(path) // only a directory can have such a name
		}
		dir, err := Canonicalize(dir)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, name)
		link, err := os.Readlink(path)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		case strings.HasPrefix(link, "/"):
			path = link
		default:
			path = dir + "/" + link
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// temporary returns the location of the file's temporary name.
func (r *replacement) temporary() location {
	return location{dir: r.at.dir, name: r.named, path: r.at.path}
}

// openNamed creates the file with a temporary name.
func (r *replacement) openNamed() (err error) {
	r.named = unusedName()
	if r.file, err = r.temporary().open(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o666); err != nil {
		r.named = ""
	}
	return err
}

func unusedName() string { return fmt.Sprintf(".troupe-%016x", rand.Uint64()) }

// same reports whether the file to replace is the file of info.
func (r *replacement) same(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && r.old != nil && st.Dev == r.old.Dev && st.Ino == r.old.Ino
}

// commit puts the new file in the place of the old. If commit fails, no trace of the new file remains.
func (r *replacement) commit() error {
	if r.named == "" {
		name := unusedName()
		if err := link(r.file, r.at, name); err != nil {
			r.abort()
			return err
		}
		r.named = name
	}
	err := r.file.Close() // a full filesystem may report its error only now
	if err == nil {
		err = r.at.try("rename", func() error { return unix.Renameat(r.at.dir, r.named, r.at.dir, r.at.name) })
	}
	if err == nil {
		r.named = "" // nothing to remove
	}
	r.abort()
	return err
}

// abort removes every trace of the new file, and closes the location. abort may be repeated.
func (r *replacement) abort() {
	if r.file != nil {
		r.file.Close()
	}
	if r.named != "" {
		_ = r.temporary().remove(0)
		r.named = ""
	}
	r.at.close()
	r.at.dir = unix.AT_FDCWD
}
