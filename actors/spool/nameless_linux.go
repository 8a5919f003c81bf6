package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// nameless makes a file in dir that never has a name. With a name, even for a moment, programs of the server's user could open
// the file, also in a sandbox that shows dir, and so read and change the output of other programs. A filesystem that knows no such
// files (open(2), O_TMPFILE) gives the file a name for that moment.
func nameless(dir string) (*os.File, error) {
	fd, err := kernel.Retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR):
		return removed(dir)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}
