//go:build linux && (amd64 || arm64)

package fork

import "syscall"

// sharing says that a process can share the memory of this program until its exec.
const sharing = true

// clone is a system call that makes a child, perhaps with CLONE_VM and CLONE_VFORK. clone returns twice, first in the child. Child and
// parent may share the stack. So the parent, like the child, must use nothing of the frames below the caller's, nor anything that the
// caller's frame had. (clone(2))
func clone(trap, a1, a2, a3 uintptr) (pid uintptr, errno syscall.Errno)
