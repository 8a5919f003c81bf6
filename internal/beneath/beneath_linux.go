// Package beneath opens files below a directory that no path leaves. The kernel resolves each path as a whole, so
// nobody can put a link into the path between a look and the use (openat2(2), RESOLVE_BENEATH).
//
// A link is followed if it is relative and stays below the directory. Other links fail with EXDEV: absolute links,
// also those to a place below the directory, and the magic links of /proc. Whether the target exists plays no
// part.
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOutside means: the path leads out of the directory.
var ErrOutside = errors.New("the path leads out of its directory")

// Open opens the file at path, which begins with the path root, for calls of the system. A relative link in path
// may not lead out of root. Links in root itself are followed: they belong to the operator.
func Open(root, path string, flags int, mode uint32) (fd int, err error) {
	dir, err := retry(func() (int, error) { return unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(dir)
	return OpenAt(dir, Rel(root, path), path, flags, mode)
}

// OpenAt is Open below an open directory. path is for errors.
func OpenAt(dir int, rel, path string, flags int, mode uint32) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err = retry(func() (int, error) { return unix.Openat2(dir, rel, &how) })
	switch {
	case errors.Is(err, unix.EXDEV):
		return -1, ErrOutside
	case err != nil:
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// EAGAIN: somebody renamed a directory, or mounted, while the kernel resolved a path with "..".
const maxTries = 1000

func retry(call func() (int, error)) (fd int, err error) {
	for range maxTries {
		if fd, err = call(); !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// Rel returns the rest of a path after root.
func Rel(root, path string) string {
	rest := strings.TrimPrefix(filepath.Clean(path), filepath.Clean(root))
	if rest = strings.TrimLeft(rest, "/"); rest == "" {
		return "."
	}
	return rest
}

// Real returns the path of an open file, without links.
func Real(fd int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }

// Supported reports whether the system can keep paths below a directory.
func Supported() bool {
	fd, err := Open("/", "/", unix.O_PATH, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// Use opens the file at path as Open does, without reading or writing it, and calls use with a path that leads to
// the open file, wherever path leads meanwhile. If follow, a link at the end of path is followed.
func Use(root, path string, follow bool, use func(path string) error) error {
	flags := unix.O_PATH
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := Open(root, path, flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return use(fmt.Sprintf("/proc/self/fd/%d", fd))
}
