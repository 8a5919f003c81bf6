package child

import (
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	fionread   = unix.TIOCINQ
	getTermios = unix.TCGETS
)

func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], err
}

// SealFiles prevents children from inheriting the files this program was started with, except 0 to
// 2. Only a program may call SealFiles, not a Host, because the effect is global. Children never
// inherit files opened by a Host.
func SealFiles() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}

// growPipe enlarges a pipe, if the user's share of pipe pages allows it.
func growPipe(fd uintptr, size int) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) }

// ptyMax is " is N" for the limit of PTYs, or "" if the limit is unreadable.
func ptyMax() string {
	limit, err := os.ReadFile("/proc/sys/kernel/pty/max")
	if err != nil {
		return ""
	}
	return " is " + strings.TrimSpace(string(limit))
}
