//go:build unix

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child"
)

// maxSocketPath is how long the path of a socket may be on Linux. Source: unix(7).
const maxSocketPath = 107

// SocketPath returns the path of the socket of the user's own server.
func SocketPath(env func(string) string) (string, error) {
	path := filepath.Join(Dir(env), socketFile)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("the path of the socket of your own server, %s, has %d bytes, and at most %d are possible: set XDG_RUNTIME_DIR to a shorter path", path, len(path), maxSocketPath)
	}
	return path, nil
}

// errRefused is the error of Dial if nobody listens.
const errRefused = syscall.ECONNREFUSED

// noFollow is the flag of OpenFile that refuses a link.
const noFollow = unix.O_NOFOLLOW

func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// tryLock takes the lock of an open file if the lock is free. The lock belongs to the open file: programs inheriting
// the file hold the lock, too.
func tryLock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

// sealFiles keeps the files of this program from the programs that it starts.
func sealFiles() error { return child.SealFiles() }

// detached starts a program without a terminal, and without the signals from a terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// terminate sends SIGTERM to a process that may have ended.
func terminate(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
