//go:build !linux

package resolve

import (
	"errors"
	"io/fs"
)

// machine refuses: there is no sandbox on this system.
type machine struct{}

func (machine) Lstat(string) (Info, error)                            { return Info{}, errors.ErrUnsupported }
func (machine) Readlink(string) (string, error)                       { return "", errors.ErrUnsupported }
func (machine) ReadFile(string, int) ([]byte, error)                  { return nil, errors.ErrUnsupported }
func (machine) ReadDir(string, func(string, fs.FileMode) error) error { return errors.ErrUnsupported }

func (machine) Mounts() ([]Mount, error) { return nil, errors.ErrUnsupported }
