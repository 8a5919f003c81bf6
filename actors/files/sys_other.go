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

func openDirectory(path string) (dir int, err error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openat2(2) exists on Linux only.
func openDirect(int, string) (int, error) { return -1, errNoOpenat2 }

func (at location) metadata() (m protocol.FsGetMetadataResult, err error) { return m, errNoOpenat2 }

// Places below a root need openat2(2).
type confined struct {
	place Place
	root  *os.Root
}

func openConfined(Place) (*confined, error)              { return nil, errNoOpenat2 }
func (*confined) close()                                 {}
func (*confined) rel(path string) string                 { return path }
func (*confined) explain(err error) error                { return err }
func (*confined) canonicalize(string) (string, error)    { return "", errNoOpenat2 }
func (*confined) openDirectory(string) (int, error)      { return -1, errNoOpenat2 }
func (*confined) pin(string, func(string)) error         { return errNoOpenat2 }
func (*confined) at(path string) location                { return anywhere(path) }
func (at location) statBeneath(*unix.Stat_t) error       { return errNoOpenat2 }
func (at location) openBeneath(int, uint32) (int, error) { return -1, errNoOpenat2 }

// Canonicalize returns path without symbolic links.
func Canonicalize(path string) (string, error) { return filepath.EvalSymlinks(path) }
