package files

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// location is where a call finds a file: a name in an open directory, or a path in a View. A rule about paths, such as the rule
// that no component is a link, is applied when the directory is opened. After that nobody can put another
// directory in its place.
type location struct {
	dir    int    // descriptor of the directory, or AT_FDCWD
	name   string // in the directory; a link stands for itself
	path   string // for errors, and with follow for the View
	follow bool   // the file is at path in the View, and links are followed
	view   View
}

func (at location) close() {
	if at.dir != unix.AT_FDCWD {
		unix.Close(at.dir)
	}
}

// try makes a system call about a path.
func try(op, path string, call func() error) error {
	err := call()
	for errors.Is(err, unix.EINTR) {
		err = call()
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// try makes a system call about the location.
func (at location) try(op string, call func() error) error { return try(op, at.path, call) }

// stat returns the kind, owner and size of the file. Kind is the type bits of its mode.
func (at location) stat() (st unix.Stat_t, kind uint32, err error) {
	if at.follow {
		err = at.view.use(at.path, true, func(path string) error {
			return at.try("stat", func() error { return unix.Stat(path, &st) })
		})
	} else {
		err = at.try("stat", func() error { return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	}
	return st, uint32(st.Mode) & unix.S_IFMT, err
}

func (at location) readlink() (target string, err error) {
	buf := make([]byte, unix.PathMax)
	err = at.try("readlink", func() error {
		n, err := unix.Readlinkat(at.dir, at.name, buf)
		target = string(buf[:max(n, 0)])
		return err
	})
	return target, err
}

// open is like os.OpenFile. But if polling the file could hang, the file stays in blocking mode, outside of
// the runtime's poller.
func (at location) open(flags int, perm uint32) (*os.File, error) {
	fd, err := -1, error(nil)
	if at.follow {
		fd, err = at.view.open(at.path, flags, perm)
	} else {
		err = at.try("open", func() (err error) {
			fd, err = unix.Openat(at.dir, at.name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if pollHangs(fd) {
		unix.SetNonblock(fd, false)
	}
	return os.NewFile(uintptr(fd), at.path), nil
}

// remove removes the file, or an empty directory with the flag AT_REMOVEDIR. A link is removed, not its
// target.
func (at location) remove(flags int) error {
	return at.try("remove", func() error { return unix.Unlinkat(at.dir, at.name, flags) })
}

// notFile refuses a location that is no regular file.
func (at location) notFile(kind uint32) error {
	switch {
	case at.follow:
		return notFile(at.path)
	case kind == unix.S_IFLNK:
		return at.isLink(unix.ELOOP)
	}
	return Refuse(protocol.KindNotFile, "path is not a regular file")
}

// isLink returns an error of the system for a link where none is allowed.
func (at location) isLink(err error) error {
	return &Advised{&fs.PathError{Op: "open", Path: at.path, Err: err}, linkAdvice(at.path)}
}

// openRegular opens a regular file for reading. Other files are refused unopened: opening a fifo waits for
// its other end, and opening a device may have effects.
func (at location) openRegular() (*os.File, fs.FileInfo, error) {
	_, kind, err := at.stat()
	if err != nil {
		return nil, nil, err
	}
	if kind != unix.S_IFREG {
		return nil, nil, at.notFile(kind)
	}
	f, info, err := at.openStill(unix.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	// A read of some files, such as /proc/kmsg, may wait forever. Files without support for
	// deadlines ignore the deadline.
	_ = f.SetReadDeadline(time.Now().Add(KernelTime))
	return f, info, nil
}

// opened opens the file in a mode. With FsReplace, opened takes over the location.
func (at location) opened(mode protocol.FsMode) (r Result, err error) {
	switch mode {
	case protocol.FsReplace:
		n, err := replace(at)
		if err != nil {
			return r, err
		}
		return Result{File: n}, nil
	case protocol.FsUpdate:
		f, err := at.openToWrite()
		if err != nil {
			return r, err
		}
		return Result{File: Local{f}}, nil
	default:
		f, info, err := at.openRegular()
		if err != nil {
			return r, err
		}
		return Result{File: Local{f}, Size: info.Size()}, nil
	}
}

// openToWrite opens a regular file for writing, and makes the file if it is missing. Other files are refused
// unopened, as by openRegular. A new file is private until its owner changes the mode.
func (at location) openToWrite() (*os.File, error) {
	_, kind, err := at.stat()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case kind == unix.S_IFDIR:
		return nil, &fs.PathError{Op: "write", Path: at.path, Err: unix.EISDIR}
	case kind != unix.S_IFREG:
		return nil, at.notFile(kind)
	}
	f, _, err := at.openStill(unix.O_WRONLY|unix.O_CREAT, 0o600)
	return f, err
}

// openStill opens a file that was regular, or missing, and refuses another file in its place.
func (at location) openStill(flags int, perm uint32) (*os.File, fs.FileInfo, error) {
	f, err := at.open(flags|unix.O_NONBLOCK|unix.O_NOCTTY, perm)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = at.notFile(0)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
