package changes

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// handle is a directory under a name of its own for fsnotify.
//
// fsnotify knows a directory by its path. When directories are renamed, or mounted twice, a path may
// stand for the wrong directory: its events have the wrong name, or do not come, and Remove may panic.
// So the name is the path of a descriptor. The name stays with one directory as long as the descriptor
// is taken, and fsnotify's look-up of the name waits for no filesystem.
type handle struct {
	fd int
	id fileID
}

func open(v files.View, path string) (h handle, err error) {
	fd, err := v.OpenDirectory(path)
	if err != nil {
		return handle{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return handle{}, err
	}
	return handle{fd, fileID{uint64(st.Dev), st.Ino}}, nil
}

// name is the path of the descriptor. Some threads have a table of descriptors of their own, so the
// path is of the calling thread.
func (h handle) name() string { return fmt.Sprintf("/proc/thread-self/fd/%d", h.fd) }

// added is called when fsnotify has the directory. added puts the root directory in the place of the
// descriptor, which keeps the name taken. The descriptor would keep a filesystem from being unmounted.
func (h handle) added() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return unix.Dup3(root, h.fd, unix.O_CLOEXEC)
}

func (h handle) close() { unix.Close(h.fd) }
