package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch gives the blocks of a range back to the file system with fallocate(2), if the file system can take
// blocks back.
func punch(f *os.File, at, n int64) {
	control, err := f.SyscallConn()
	if err != nil {
		return
	}
	control.Control(func(fd uintptr) {
		unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
	})
}
