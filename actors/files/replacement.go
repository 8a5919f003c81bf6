package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links are followed, as in path_resolution(7).
const maxLinks = 40

// replacement is a new file before it replaces another file, or takes a free name. Until commit the
// file is unnamed. On a filesystem without unnamed files, the file has a temporary name (see
// open(2), O_TMPFILE). The content is not synced: after a loss of power the target may be the old
// file, the new file, or empty.
type replacement struct {
	file   *os.File
	old    fs.FileInfo // the file to replace; nil: none
	target string      // path to replace, with all links resolved
	named  string      // temporary name; "": the file is unnamed
}

// newReplacement creates a file to replace path, with the mode of the old file and, if permitted,
// its owner.
func newReplacement(path string) (*replacement, error) {
	target, err := behindLinks(path)
	if err != nil {
		return nil, err
	}
	r := &replacement{target: target}
	switch r.old, err = os.Lstat(target); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case r.old.IsDir():
		return nil, &fs.PathError{Op: "write", Path: path, Err: unix.EISDIR}
	case r.old.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0: // nobody reads there
		return nil, &fs.PathError{Op: "write", Path: path, Err: unix.ENXIO}
	case !r.old.Mode().IsRegular():
		return nil, notFile(path)
	default: // a rename would not check the file's write permission
		if err := unix.Faccessat(unix.AT_FDCWD, target, unix.W_OK, unix.AT_EACCESS); err != nil {
			return nil, &fs.PathError{Op: "write", Path: target, Err: err}
		}
	}
	if r.file, err = openUnnamed(filepath.Dir(target)); err != nil {
		if r.file, err = openNamed(target); err != nil {
			return nil, err
		}
		r.named = r.file.Name()
	}
	if r.old != nil {
		own(r.file, r.old)
		if err := r.file.Chmod(r.old.Mode()); err != nil { // chown(2) clears set-user-ID, so chmod comes after
			r.abort()
			return nil, err
		}
	}
	return r, nil
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

// openNamed opens a new file beside target.
func openNamed(target string) (*os.File, error) {
	return openFile(beside(target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o666)
}

// beside returns an unused name in the directory of target.
func beside(target string) string {
	return filepath.Join(filepath.Dir(target), fmt.Sprintf(".troupe-%016x", rand.Uint64()))
}

// same reports whether the file to replace is the file of info.
func (r *replacement) same(info fs.FileInfo) bool { return r.old != nil && os.SameFile(r.old, info) }

// commit puts the new file in place of the target. If commit fails, no trace of the new file
// remains.
func (r *replacement) commit() error {
	if r.named == "" {
		name := beside(r.target)
		if err := link(r.file, name); err != nil {
			r.abort()
			return err
		}
		r.named = name
	}
	err := r.file.Close() // a full filesystem may report its error only now
	if err == nil {
		err = os.Rename(r.named, r.target)
	}
	if err != nil {
		os.Remove(r.named)
	}
	return err
}

// abort removes every trace of the new file. abort may be called after a failed commit.
func (r *replacement) abort() {
	r.file.Close()
	if r.named != "" {
		os.Remove(r.named)
	}
}
