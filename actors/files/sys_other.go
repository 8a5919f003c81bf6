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

// Elsewhere than on Linux all files have names.
func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }
func link(*os.File, string) error          { return errors.ErrUnsupported }

// own gives f the owner of old, if that is allowed.
func own(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}

func created(string) time.Time { return time.Time{} }

// Canonicalize is the path without symbolic links.
func Canonicalize(path string) (string, error) { return filepath.EvalSymlinks(path) }
