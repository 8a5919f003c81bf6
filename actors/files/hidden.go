package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Hidden are files and directories whose content a call must not show, such as tokens of the server. A nil Hidden
// hides nothing.
type Hidden []string

// Read returns the content of a regular file, as the function Read does. A file that is hidden, also behind links, fails with
// EACCES.
func (h Hidden) Read(path string, max int, hold Hold) ([]byte, error) {
	f, info, err := View{}.at(path).openRegular()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if h.has(f, info) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EACCES}
	}
	return readAll(f, info.Size(), path, max, hold)
}

// has reports whether an open file is hidden, or below a hidden directory.
func (h Hidden) has(f *os.File, info fs.FileInfo) bool {
	if len(h) == 0 {
		return false
	}
	var hidden []fs.FileInfo
	for _, path := range h {
		if info, err := os.Stat(path); err == nil {
			hidden = append(hidden, info)
		}
	}
	is := func(info fs.FileInfo) bool {
		for _, other := range hidden {
			if os.SameFile(info, other) {
				return true
			}
		}
		return false
	}
	if is(info) {
		return true
	}
	for dir := filepath.Dir(realPath(f)); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && is(info) {
			return true
		}
	}
	return false
}

// realPath returns the path of an open file without links; "" where the system does not tell. Only systems that tell
// have sandboxes.
func realPath(f *os.File) (path string) {
	control(f, func(fd uintptr) { path, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	return path
}
