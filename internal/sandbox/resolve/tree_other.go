//go:build !linux

package resolve

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/b6f6fdd7/troupe/internal/mounts"
)

var errNoLinux = fmt.Errorf("sandboxes need Linux: %w", errors.ErrUnsupported)

// machine refuses: there is no sandbox on this system.
type machine struct{}

func (machine) Lstat(string) (Info, error)                            { return Info{}, errNoLinux }
func (machine) Readlink(string) (string, error)                       { return "", errNoLinux }
func (machine) ReadFile(string, int) ([]byte, error)                  { return nil, errNoLinux }
func (machine) ReadDir(string, func(string, fs.FileMode) error) error { return errNoLinux }

func (machine) Mounts() ([]mounts.Mount, error) { return nil, errNoLinux }
