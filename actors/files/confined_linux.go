package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/beneath"
)

// confined is the View below a root. The kernel keeps paths of open calls in the root (openat2(2)); os.Root does it
// for all other calls, step by step.
type confined struct {
	place Place
	fd    int    // of the root
	real  string // the path of the root, without links
	root  *os.Root
}

func openConfined(p Place) (View, error) {
	fd, err := openDirectory(p.Root)
	if err != nil {
		return nil, err
	}
	v := &confined{place: p, fd: fd}
	if v.real, err = beneath.Real(fd); err == nil {
		v.root, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)) // the same directory, whatever its path becomes
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return v, nil
}

func (v *confined) Close() {
	v.root.Close()
	unix.Close(v.fd)
}

func (v *confined) Top() string    { return v.place.Root }
func (v *confined) Outside() error { return v.place.refused() }

func (v *confined) Pin(directory string, use func(string)) error {
	fd, err := v.OpenDirectory(directory)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	use(fmt.Sprintf("/proc/self/fd/%d", fd))
	return nil
}

// rel returns the part of a path after the root. If the path begins with something else, rel returns a path
// that leads out.
func (v *confined) rel(path string) string {
	for _, root := range []string{v.place.Root, v.real} {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			if rest = strings.Trim(rest, "/"); rest == "" {
				return "."
			}
			return rest
		}
	}
	return ".."
}

// explain replaces the errors for paths that lead out.
func (v *confined) explain(err error) error {
	if errors.Is(err, beneath.ErrOutside) {
		return v.Outside()
	}
	cause := err
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		cause = of.Err
	} else if of, ok := errors.AsType[*os.LinkError](err); ok {
		cause = of.Err
	}
	if cause != nil && cause.Error() == "path escapes from parent" { // os.Root has no other sign
		return v.Outside()
	}
	return err
}

func (v *confined) Lstat(path string) (fs.FileInfo, error) {
	info, err := v.root.Lstat(v.rel(path))
	return info, v.explain(err)
}

func (v *confined) Stat(path string) (fs.FileInfo, error) {
	info, err := v.root.Stat(v.rel(path))
	return info, v.explain(err)
}

func (v *confined) Readlink(path string) (string, error) {
	link, err := v.root.Readlink(v.rel(path))
	return link, v.explain(err)
}

func (v *confined) Mkdir(path string, perm fs.FileMode) error {
	return v.explain(v.root.Mkdir(v.rel(path), perm))
}

func (v *confined) MkdirAll(path string, perm fs.FileMode) error {
	return v.explain(v.root.MkdirAll(v.rel(path), perm))
}

func (v *confined) Remove(path string) error    { return v.explain(v.root.Remove(v.rel(path))) }
func (v *confined) RemoveAll(path string) error { return v.explain(v.root.RemoveAll(v.rel(path))) }

func (v *confined) Symlink(target, path string) error {
	return v.explain(v.root.Symlink(target, v.rel(path)))
}

func (v *confined) Rename(from, to string) error {
	return v.explain(v.root.Rename(v.rel(from), v.rel(to)))
}

func (v *confined) Chmod(path string, mode fs.FileMode) error {
	return v.explain(v.root.Chmod(v.rel(path), mode))
}

func (v *confined) Chtimes(path string, accessed, modified time.Time) error {
	return v.explain(v.root.Chtimes(v.rel(path), accessed, modified))
}

func (v *confined) Canonicalize(path string) (string, error) {
	fd, err := v.open(path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return beneath.Real(fd)
}

func (v *confined) OpenDirectory(path string) (int, error) {
	return v.open(path, unix.O_PATH|unix.O_DIRECTORY)
}

func (v *confined) open(path string, flags int) (int, error) {
	fd, err := beneath.OpenAt(v.fd, v.rel(path), path, flags, 0, 0)
	return fd, v.explain(err)
}

func (v *confined) at(path string) location {
	return location{dir: v.fd, name: v.rel(path), path: path, follow: true, outside: v.Outside()}
}

// statBeneath is stat for a location that stays in a directory.
func (at location) statBeneath(st *unix.Stat_t) error {
	fd, err := at.openBeneath(unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fstat(fd, st)
}

// openBeneath opens a file at a location that stays in a directory.
func (at location) openBeneath(flags int, perm uint32) (int, error) {
	fd, err := beneath.OpenAt(at.dir, at.name, at.path, flags, perm, 0)
	if errors.Is(err, beneath.ErrOutside) {
		err = at.outside
	}
	return fd, err
}
