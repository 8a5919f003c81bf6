package mounts

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// maxLinks is how many links are followed. (path_resolution(7))
const maxLinks = 40

// Find returns the name of the first filesystem on the way of an absolute path, unless the filesystem answers by itself; "" if all
// do. Find asks only the filesystems before the first. If follow, a link at the end of the path is followed. A missing file or a
// loop of links ends the way early.
func Find(path string, follow bool) string {
	table, err := Now()
	if err != nil || !table.foreign {
		return ""
	}
	mount := "/"
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if name, ok := table.at[path[:i]]; name != "" {
			return name
		} else if ok {
			mount = path[:i]
		}
	}
	if staysOn(mount, path, follow) {
		return ""
	}
	w := way{table: table, dir: -1, rest: strings.Split(path, "/"), follow: follow}
	name := ""
	for ok := w.root(); ok && name == "" && len(w.rest) > 0; {
		name, ok = w.step()
	}
	unix.Close(w.dir)
	return name
}

// staysOn reports whether a path stays on the mount at its beginning, a filesystem that answers. So most paths are found with a few system calls.
func staysOn(mount, path string, follow bool) bool {
	flags := uint64(unix.O_PATH)
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	dir, err := open(unix.AT_FDCWD, mount, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	fd, err := open(dir, "./"+path[len(mount):], flags, unix.RESOLVE_NO_XDEV)
	unix.Close(fd)
	return err != unix.EXDEV
}

// Of returns the name of the filesystem of an open file, as Find. Of takes attributes of the file that the kernel has already.
func Of(fd int) string {
	table, err := Now()
	if err != nil || !table.foreign {
		return ""
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return ""
	}
	return table.names[unix.Mkdev(st.Dev_major, st.Dev_minor)]
}

// open opens a file. With RESOLVE_NO_XDEV, the error is EXDEV if a mount point is on the way.
func open(dir int, path string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	return kernel.Retry(func() (int, error) { return unix.Openat2(dir, path, &how) })
}

// way is a path that is resolved name by name.
type way struct {
	table  *Table
	dir    int    // open, or -1: where rest begins
	at     string // its path, without links
	rest   []string
	follow bool
	links  int
}

// root goes to the root. If not ok, the way has ended, as for the methods below.
func (w *way) root() (ok bool) {
	root, err := open(unix.AT_FDCWD, "/", unix.O_PATH, 0)
	return w.enter(root, "/", err)
}

func (w *way) enter(fd int, path string, err error) (ok bool) {
	if err != nil {
		return false
	}
	unix.Close(w.dir)
	w.dir, w.at = fd, path
	return true
}

// step goes one name further. Before a filesystem with a name, step returns the name and does not enter.
func (w *way) step() (filesystem string, ok bool) {
	name := w.rest[0]
	w.rest = w.rest[1:]
	path, resolve := filepath.Join(w.at, name), uint64(unix.RESOLVE_NO_XDEV)
	switch filesystem, mounted := w.table.at[path]; {
	case name == "" || name == ".":
		return "", true
	case name == "..": // the way has passed only filesystems that answer
		resolve = 0
	case filesystem != "":
		return filesystem, true
	case mounted:
		resolve = 0
	}
	fd, err := open(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW, resolve)
	if err == unix.EXDEV {
		return path, true // mounted since the table was read
	}
	if err != nil {
		return "", false
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", w.enter(fd, path, err)
	}
	defer unix.Close(fd)
	return "", w.link(fd)
}

// link follows an open link.
func (w *way) link(fd int) (ok bool) {
	if w.links++; w.links > maxLinks || len(w.rest) == 0 && !w.follow {
		return false
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return false
	}
	w.rest = append(strings.Split(string(buf[:n]), "/"), w.rest...)
	return buf[0] != '/' || w.root()
}
