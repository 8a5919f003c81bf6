package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// pollHangs reports whether polling the file involves the server of a FUSE filesystem. While this
// server does not answer, the runtime's poller serves nobody, because it adds the file to its set
// under the set's lock.
func pollHangs(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.FUSE_SUPER_MAGIC
}

// openUnnamed opens a new, unnamed file in the directory of a location. Some filesystems lack unnamed files.
func openUnnamed(at location) (*os.File, error) {
	at.name = "."
	return at.open(unix.O_WRONLY|unix.O_TMPFILE, 0o666)
}

// link gives an unnamed file a name in the directory of a location. Source: open(2), O_TMPFILE.
func link(f *os.File, at location, name string) error {
	return at.try("link", func() error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), at.dir, name, unix.AT_SYMLINK_FOLLOW)
	})
}

// directoryFlags open a directory for system calls that take names in it.
const directoryFlags = unix.O_PATH | unix.O_DIRECTORY

// openat2 can be replaced by tests.
var openat2 = unix.Openat2

// openDirect opens a directory with directoryFlags, if no component of path is a link.
func openDirect(path string) (dir int, err error) {
	err = try("open", path, func() (err error) {
		dir, err = openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: directoryFlags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		return err
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		err = location{path: path}.isLink(unix.ENOTDIR)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		err = errNoOpenat2
	}
	return dir, err
}

// metadata returns what fs/getMetadata says of a file that is no link.
func (at location) metadata() (m protocol.FsGetMetadataResult, err error) {
	var st unix.Statx_t
	err = at.try("stat", func() error {
		return unix.Statx(at.dir, at.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	ms := func(t unix.StatxTimestamp) int64 { return time.Unix(t.Sec, int64(t.Nsec)).UnixMilli() }
	kind := uint32(st.Mode) & unix.S_IFMT
	m.IsDirectory, m.IsFile, m.Size, m.ModifiedAtMs = kind == unix.S_IFDIR, kind == unix.S_IFREG, st.Size, ms(st.Mtime)
	if st.Mask&unix.STATX_BTIME != 0 {
		m.CreatedAtMs = ms(st.Btime)
	}
	if err == nil && kind == unix.S_IFLNK {
		err = Refuse(protocol.KindLink, "path contains a symbolic link")
	}
	return m, err
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
