//go:build unix && !linux

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func pollHangs(int) bool { return true }

// Unnamed files exist on Linux only.
func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }
func link(*os.File, string) error          { return errors.ErrUnsupported }

// own gives f the owner of old, if permitted.
func own(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}

func created(string) time.Time { return time.Time{} }

// Canonicalize returns path without symbolic links.
func Canonicalize(path string) (string, error) { return filepath.EvalSymlinks(path) }
