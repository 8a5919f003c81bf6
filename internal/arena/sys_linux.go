package arena

import (
	"os"

	"golang.org/x/sys/unix"
)

// share maps a file.
func share(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
}

func unshare(mem []byte) error { return unix.Munmap(mem) }

// punch gives memory of a file back to the system.
func punch(f *os.File, from, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, n)
}
