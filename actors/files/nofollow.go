package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Path is an absolute, clean path with a rule for the way to it: Place or NoFollow.
type Path interface {
	Read(max int, hold Hold) ([]byte, error)
	Write(data []byte) error
	CreateDirectory(recursive bool) error
	Stat() (protocol.FsGetMetadataResult, error)
	Remove(recursive, force bool) error
	// open opens a regular file. With FsReplace, the file is new, and without a place.
	open(mode protocol.FsMode) (Opened, error)
}

// NoFollow is an absolute, clean path with the rule of followSymlinks: false. Its methods fail if any
// component of the path is a symbolic link, and they are safe from others who put a link into the path
// meanwhile: the kernel resolves the directory under the rule, and the methods work in the open directory.
// Elsewhere than on Linux they all fail.
//
// Codes and texts of the errors are those of exec-server: a link among the directories is no directory.
type NoFollow string

// errNoOpenat2 means that the system cannot resolve a path under the rule. There is no other way to do it: a
// look before the call would leave time to put a link there.
var errNoOpenat2 = fail(protocol.KindUnsupported, "followSymlinks: false needs openat2(2), which this system lacks (Linux before 5.6) or forbids (seccomp): leave it out, or use another system")

func linkAdvice(path string) string {
	return fmt.Sprintf("path `%s` has a component that is a symbolic link, and followSymlinks is false", path)
}

// location returns the location of the path. The root is a location in itself.
func (p NoFollow) location() (location, error) {
	return locationIn(string(p), func(dir string) (int, error) { return openDirect(unix.AT_FDCWD, dir) })
}

// entry returns the location of the path, which is not the root.
func (p NoFollow) entry() (location, error) {
	if p == "/" {
		return location{}, refuse(protocol.KindParams, "path must name an entry")
	}
	return p.location()
}

// Read returns the content of a regular file. A file of more than max bytes is refused.
func (p NoFollow) Read(max int, hold Hold) ([]byte, error) {
	at, err := p.entry()
	if err != nil {
		return nil, err
	}
	defer at.close()
	return at.read(max, hold)
}

// Write replaces the content of a file, as the function Write.
func (p NoFollow) Write(data []byte) error {
	at, err := p.entry()
	if err != nil {
		return err
	}
	return at.write(data)
}

func (p NoFollow) open(mode protocol.FsMode) (o Opened, err error) {
	at, err := p.entry()
	if err != nil {
		return o, err
	}
	if mode != protocol.FsReplace {
		defer at.close()
	}
	return at.opened(mode)
}

// CreateDirectory makes a directory. If recursive, it also makes missing parents, and accepts an existing
// directory.
func (p NoFollow) CreateDirectory(recursive bool) error {
	if recursive {
		dir, err := makeDirect(string(p))
		if err == nil {
			unix.Close(dir)
		}
		return err
	}
	if p == "/" {
		return fail(protocol.KindExists, "directory already exists")
	}
	at, err := p.location()
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

// Stat returns the metadata of the path, with the time when the file was created.
func (p NoFollow) Stat() (m protocol.FsGetMetadataResult, err error) {
	at, err := p.location()
	if err != nil {
		return m, err
	}
	defer at.close()
	return at.metadata()
}

// Remove removes a file or an empty directory. If force, a missing path is no error. Like exec-server, Remove
// refuses to be recursive.
func (p NoFollow) Remove(recursive, force bool) error {
	if recursive {
		return &Advised{fail(protocol.KindUnsupported, "recursive no-follow removal is unsupported"), "send recursive: false, which removes a file or an empty directory"}
	}
	at, err := p.entry()
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
