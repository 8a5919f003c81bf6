package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/beneath"
)

// confined is a root that no path leaves. The kernel keeps paths of open calls in the root (openat2(2)); os.Root does it
// for all other calls, step by step.
type confined struct {
	place Place
	fd    int    // of the root
	real  string // the path of the root, without links
	root  *os.Root
}

func openConfined(p Place) (*confined, error) {
	fd, err := openDirectory(p.Root)
	if err != nil {
		return nil, err
	}
	c := &confined{place: p, fd: fd}
	if c.real, err = beneath.Real(fd); err == nil {
		c.root, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)) // the same directory, whatever its path becomes
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

func (c *confined) close() {
	c.root.Close()
	unix.Close(c.fd)
}

// rel returns the part of a path after the root. If the path begins with something else, rel returns a path
// that leads out.
func (c *confined) rel(path string) string {
	for _, root := range []string{c.place.Root, c.real} {
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
func (c *confined) explain(err error) error {
	if errors.Is(err, beneath.ErrOutside) {
		return c.place.refused()
	}
	cause := err
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		cause = of.Err
	} else if of, ok := errors.AsType[*os.LinkError](err); ok {
		cause = of.Err
	}
	if cause != nil && cause.Error() == "path escapes from parent" { // os.Root has no other sign
		return c.place.refused()
	}
	return err
}

func (c *confined) canonicalize(path string) (string, error) {
	fd, err := c.open(path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return beneath.Real(fd)
}

func (c *confined) openDirectory(path string) (int, error) {
	return c.open(path, unix.O_PATH|unix.O_DIRECTORY)
}

func (c *confined) pin(directory string, use func(string)) error {
	fd, err := c.openDirectory(directory)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	use(fmt.Sprintf("/proc/thread-self/fd/%d", fd)) // some threads have a table of descriptors of their own
	return nil
}

func (c *confined) open(path string, flags int) (int, error) {
	fd, err := beneath.OpenAt(c.fd, c.rel(path), path, flags, 0, 0)
	return fd, c.explain(err)
}

func (c *confined) at(path string) location {
	return location{dir: c.fd, name: c.rel(path), path: path, follow: true, outside: c.place.refused()}
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
