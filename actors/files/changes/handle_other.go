//go:build unix && !linux

package changes

import (
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// handle is a directory, known to fsnotify by its path.
type handle struct {
	path string
	id   fileID
}

func open(v files.View, path string) (handle, error) {
	info, err := v.Stat(path)
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
