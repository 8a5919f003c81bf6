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

// replacement is a new file that is to take the place of another, or of none. Until it
// has it has no name, or one of its own where the filesystem knows no files without (see open(2),
// O_TMPFILE). It is not synced: after a loss of power the file may be either, or empty.
type replacement struct {
	file   *os.File
	old    fs.FileInfo // what it replaces; nil: nothing
	target string      // the last is no symbolic link
	named  string      // "": it has no name
}

// newReplacement has the mode and, if that is allowed, the owner of what it replaces.
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
	case !r.old.Mode().IsRegular():
		return nil, notFile(path)
	default: // a rename would not ask
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
		if err := r.file.Chmod(r.old.Mode()); err != nil { // after chown(2), which takes set-user-ID away
			r.abort()
			return nil, err
		}
	}
	return r, nil
}

// behindLinks is the path of what path leads to, which need not exist; its directory must.
func behindLinks(path string) (string, error) {
	for range maxLinks {
		// Not filepath.Dir: it takes link/.. for nothing.
		i := strings.LastIndexByte(path, '/')
		dir, name := path[:i+1], path[i+1:]
		if name == "" || name == "." || name == ".." {
			return Canonicalize(path) // a directory, if it is anything
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

// beside is a name that nobody has, in the directory of target.
func beside(target string) string {
	return filepath.Join(filepath.Dir(target), fmt.Sprintf(".troupe-%016x", rand.Uint64()))
}

// same reports whether it would replace that file.
func (r *replacement) same(info fs.FileInfo) bool { return r.old != nil && os.SameFile(r.old, info) }

// commit lets the file take its place, or leaves no trace of it.
func (r *replacement) commit() error {
	if r.named == "" {
		name := beside(r.target)
		if err := link(r.file, name); err != nil {
			r.abort()
			return err
		}
		r.named = name
	}
	err := r.file.Close() // a filesystem may say only now that it is full
	if err == nil {
		err = os.Rename(r.named, r.target)
	}
	if err != nil {
		os.Remove(r.named)
	}
	return err
}

// abort leaves no trace of the file. May be called after commit has failed.
func (r *replacement) abort() {
	r.file.Close()
	if r.named != "" {
		os.Remove(r.named)
	}
}
