//go:build unix && !linux

package files

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

func pollHangs(int) bool { return true }

// Unnamed files exist on Linux only.
func openUnnamed(location) (*os.File, error) { return nil, errors.ErrUnsupported }
func link(*os.File, location, string) error  { return errors.ErrUnsupported }

const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY

// openat2(2) exists on Linux only, so all links are allowed or the call fails.
func (v View) resolve(path string, flags int, perm uint32) (fd int, err error) {
	if v.noLinks {
		return -1, errNoOpenat2
	}
	return unix.Open(path, flags|unix.O_CLOEXEC, perm)
}

func (View) pinned(string, bool, func(string) error) error { return errNoOpenat2 }

func (at location) metadata() (m protocol.FsGetMetadataResult, err error) { return m, errNoOpenat2 }

type root struct{ place Place }

func openRoot(Place) (*root, error) { return nil, errNoOpenat2 }
func (*root) close()                {}

// Canonicalize returns path without symbolic links.
func Canonicalize(path string) (string, error) { return filepath.EvalSymlinks(path) }
