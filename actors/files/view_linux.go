package files

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/beneath"
)

// root is a directory that no path leaves. The kernel keeps each path in it (openat2(2)).
type root struct {
	place Place
	fd    int
}

func openRoot(p Place) (*root, error) {
	fd, err := View{}.resolve(p.Root, directoryFlags, 0)
	if err != nil {
		return nil, err
	}
	return &root{p, fd}, nil
}

func (r *root) close() { unix.Close(r.fd) }

// rel returns the part of a path after the root. If the path begins with something else, rel returns a path
// that leads out.
func (r *root) rel(path string) string {
	rest, ok := strings.CutPrefix(path, r.place.Root)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return ".."
	case strings.Trim(rest, "/") == "":
		return "."
	}
	return strings.Trim(rest, "/")
}

// resolve opens the file at a path, as far as the View allows. With noLinks, the file must be a directory, and flags are ignored.
func (v View) resolve(path string, flags int, perm uint32) (fd int, err error) {
	switch {
	case v.noLinks:
		return openDirect(path)
	case v.root == nil:
		err = try("open", path, func() (err error) {
			fd, err = unix.Open(path, flags|unix.O_CLOEXEC, perm)
			return err
		})
		return fd, err
	}
	fd, err = beneath.OpenAt(v.root.fd, v.root.rel(path), path, flags, perm)
	if errors.Is(err, beneath.ErrOutside) {
		err = v.root.place.refused()
	}
	return fd, err
}

// pinned is use, after a visit, for a View that does not allow all links: the path for do leads through the open file, or through the
// open directory of the file.
func (v View) pinned(path string, follow bool, do func(string) error) error {
	at, flags, name := path, unix.O_PATH, ""
	if !follow {
		at, name = v.split(path)
		flags, name = directoryFlags, "/"+name
	}
	fd, err := v.resolve(at, flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fmt.Sprintf("/proc/thread-self/fd/%d%s", fd, name)) // some threads have a table of descriptors of their own
}
