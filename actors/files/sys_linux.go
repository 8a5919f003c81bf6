package files

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollHangs reports whether polling the file involves the server of a FUSE filesystem. While this
// server does not answer, the runtime's poller serves nobody, because it adds the file to its set
// under the set's lock.
func pollHangs(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.FUSE_SUPER_MAGIC
}

// openUnnamed opens a new, unnamed file in dir. Some filesystems lack unnamed files.
func openUnnamed(dir string) (*os.File, error) {
	return openFile(dir, unix.O_WRONLY|unix.O_TMPFILE, 0o666)
}

// link gives an unnamed file a name. Source: open(2), O_TMPFILE.
func link(f *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &fs.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

// own gives f the owner of old, if permitted.
func own(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}

func created(path string) time.Time {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// Canonicalize returns path without symbolic links. The kernel resolves the path, so each directory
// is seen in a single state.
func Canonicalize(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}
