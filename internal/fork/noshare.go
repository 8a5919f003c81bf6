//go:build linux && !amd64 && !arm64

package fork

import "syscall"

// sharing says that no process can share the memory of this program: that takes some lines of assembly.
const sharing = false

// clone is a system call that makes a child with a copy of the memory.
//
//go:nosplit
func clone(trap, a1, a2, a3 uintptr) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(trap, a1, a2, a3, 0, 0, 0)
	return pid, errno
}
