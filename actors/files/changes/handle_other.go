//go:build unix && !linux

package changes

import (
	"os"
	"syscall"
)

// handle is a directory, known to fsnotify by its path.
type handle struct {
	path string
	id   fileID
}

func open(path string) (handle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return handle{}, err
	}
	if !info.IsDir() {
		return handle{}, syscall.ENOTDIR
	}
	return handle{path, idOf(info)}, nil
}

func (h handle) name() string { return h.path }

func (handle) added() error { return nil }

func (handle) close() {}
