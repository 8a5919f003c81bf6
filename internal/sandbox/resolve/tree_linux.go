package resolve

import (
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/mounts"
)

// machine is the Tree of this machine.
type machine struct{}

// open opens a path. With O_PATH, opening has no effect on the file. With O_NONBLOCK, the error is EAGAIN if somebody has a
// lease of the file.
func (machine) open(path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := kernel.Retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, path, &how) })
	if err != nil {
		return -1, &fs.PathError{Op: "openat2", Path: path, Err: err}
	}
	return fd, nil
}

func (m machine) Lstat(path string) (Info, error) {
	fd, err := m.open(path, unix.O_PATH)
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Info{}, &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	info := Info{Dev: stat.Dev, Ino: stat.Ino}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		info.Type = fs.ModeDir
	case unix.S_IFLNK:
		info.Type = fs.ModeSymlink
	default:
		info.Type = fs.ModeIrregular // a FIFO, a socket or a device: no difference here
	}
	return info, nil
}

func (m machine) Readlink(path string) (string, error) {
	fd, err := m.open(path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(target[:n]), nil
}

func (m machine) ReadFile(path string, max int) ([]byte, error) {
	fd, err := m.open(path, unix.O_RDONLY|unix.O_NONBLOCK) // a FIFO may be new there: do not wait for its writer
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: unix.EINVAL}
	}
	return io.ReadAll(io.LimitReader(f, int64(max)))
}

func (m machine) ReadDir(path string, each func(name string, kind fs.FileMode) error) error {
	fd, err := m.open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if err := each(e.Name(), e.Type()); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (machine) Mounts() ([]mounts.Mount, error) {
	table, err := mounts.Now()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(table.All), func(m mounts.Mount) bool { return !kernelTypes[m.Type] }), nil
}
