//go:build unix && !linux

package remote

import (
	"errors"
	"os"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// Client passes calls to a jail. Jails exist on Linux only.
type Client struct{ Jail }

// Sockets fails.
func Sockets() (ours, theirs *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// NewClient fails.
func NewClient(*os.File) (*Client, error) { return nil, errors.ErrUnsupported }

// Mounts watches the mounts of a jail.
type Mounts struct{}

// WatchMounts fails.
func WatchMounts(int, *sandbox.Policy) (*Mounts, error) { return nil, errors.ErrUnsupported }

// Intact returns false.
func (*Mounts) Intact() bool { return false }

// Close does nothing.
func (*Mounts) Close() {}
