//go:build unix

package figures

import (
	"strings"

	"golang.org/x/sys/unix"
)

// kernelAndFiles returns the name and release of the kernel, and the limit of descriptors of this process.
func kernelAndFiles() (string, uint64) {
	var kernel string
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	var l unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return strings.TrimSpace(kernel), uint64(l.Cur)
}
