//go:build amd64 || arm64

package jail

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The bits of PR_SET_SECUREBITS of prctl(2), of linux/securebits.h. Each bit N+1 locks bit N.
const (
	noRoot          = 1 << 0 // user 0 gains no capabilities by execve(2)
	noSetuidFixup   = 1 << 2 // a change of the user changes no capabilities
	keepCaps        = 1 << 4
	noAmbientRaise  = 1 << 6
	secureBits      = noRoot | noSetuidFixup | noAmbientRaise
	secureBitsLocks = (noRoot | noSetuidFixup | keepCaps | noAmbientRaise) << 1
)

// dropBounding empties the capability bounding set of the thread and locks its secure bits: no program of the thread gains a
// capability by execve(2), even as user 0 of the user namespace. The thread has CAP_SETPCAP.
func dropBounding() error {
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits|secureBitsLocks, 0, 0, 0); err != nil {
		return failure("secure bits", err, "")
	}
	for c := uintptr(0); ; c++ {
		// EINVAL: the kernel has no such capability, and none after it.
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); {
		case errors.Is(err, unix.EINVAL) && c > 0:
			return nil
		case err != nil:
			return failure("capability bounding set", err, "")
		}
	}
}

// capHeader asks capset(2) for the calling thread.
var capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

// noCapabilities are the two halves of the empty sets.
var noCapabilities [2]unix.CapUserData

// dropCapabilities empties the effective, permitted, inheritable and ambient sets of the thread. The kernel lowers the
// ambient set with the permitted set.
func dropCapabilities() error {
	if err := unix.Capset(&capHeader, &noCapabilities[0]); err != nil {
		return failure("capabilities", err, "")
	}
	return nil
}

// dropEverywhere is dropCapabilities for all threads of the jail, or for the calling thread alone if the binary has cgo: see
// lock for why that is enough.
func dropEverywhere() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capHeader)), uintptr(unsafe.Pointer(&noCapabilities)), 0)
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP: // cgo
		return dropCapabilities()
	}
	return failure("capabilities of all threads", errno, "")
}
