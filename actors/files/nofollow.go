package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the calls with NoLinks. They fail if any component of the path is a symbolic link, and they are safe from others who put
// a link into the path meanwhile: the kernel resolves the directory under the rule, and the calls work in the open directory.
// Elsewhere than on Linux they all fail.
//
// Codes and texts of the errors are those of exec-server: a link among the directories is no directory.

// errNoOpenat2 means that the system cannot resolve a path under the rule. There is no other way to do it: a
// look before the call would leave time to put a link there.
var errNoOpenat2 = Fail(protocol.KindUnsupported, "followSymlinks: false needs openat2(2), which this system lacks (Linux before 5.6) or forbids (seccomp): leave it out, or use another system")

func linkAdvice(path string) string {
	return fmt.Sprintf("path `%s` has a component that is a symbolic link, and followSymlinks is false", path)
}

// directLocation returns the location of a path. The root is a location in itself.
func directLocation(path string) (location, error) {
	return locationIn(path, func(dir string) (int, error) { return openDirect(unix.AT_FDCWD, dir) })
}

// directEntry returns the location of a path that is not the root.
func directEntry(path string) (location, error) {
	if path == "/" {
		return location{}, refuse(protocol.KindParams, "path must name an entry")
	}
	return directLocation(path)
}

// createDirect makes a directory. If recursive, it also makes missing parents, and accepts an existing directory.
func createDirect(path string, recursive bool) error {
	if recursive {
		dir, err := makeDirect(path)
		if err == nil {
			unix.Close(dir)
		}
		return err
	}
	if path == "/" {
		return Fail(protocol.KindExists, "directory already exists")
	}
	at, err := directLocation(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.mkdir()
}

func (at location) mkdir() error {
	return at.try("mkdir", func() error { return unix.Mkdirat(at.dir, at.name, 0o777) })
}

// makeDirect opens a directory like openDirect, and makes it and its parents if they are missing.
func makeDirect(path string) (dir int, err error) {
	dir, err = openDirect(unix.AT_FDCWD, path)
	if !errors.Is(err, fs.ErrNotExist) || path == "/" {
		return dir, err
	}
	parent, err := makeDirect(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	at := location{dir: parent, name: filepath.Base(path), path: path}
	defer at.close()
	if err := at.mkdir(); err != nil && !errors.Is(err, fs.ErrExist) {
		return -1, err
	}
	return openDirect(at.dir, at.name)
}

// statDirect returns the metadata of a path, with the time when the file was created.
func statDirect(path string) (m protocol.FsGetMetadataResult, err error) {
	at, err := directLocation(path)
	if err != nil {
		return m, err
	}
	defer at.close()
	return at.metadata()
}

// removeDirect removes a file or an empty directory. If force, a missing path is no error. Like exec-server, removeDirect refuses to be
// recursive.
func removeDirect(path string, recursive, force bool) error {
	if recursive {
		return &Advised{Fail(protocol.KindUnsupported, "recursive no-follow removal is unsupported"), "send recursive: false, which removes a file or an empty directory"}
	}
	at, err := directEntry(path)
	if err == nil {
		defer at.close()
		err = at.removeEntry()
	}
	if force && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (at location) removeEntry() error {
	_, kind, err := at.stat()
	switch {
	case err != nil:
		return err
	case kind == unix.S_IFLNK:
		return refuse(protocol.KindLink, "path contains a symbolic link")
	case kind == unix.S_IFDIR:
		return at.remove(unix.AT_REMOVEDIR)
	}
	return at.remove(0)
}
