package jail

import "golang.org/x/sys/unix"

// auditArch is the architecture of a call in seccomp_data.
const auditArch = unix.AUDIT_ARCH_X86_64

// ofArch are calls of this architecture alone that a confined program may not make.
var ofArch = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT}

// olderFileCalls are rules for calls of this architecture alone that can make a file with a mode: setUser checks the mode in
// argument n, and creates the flags of open(2) first.
func olderFileCalls(setUser func(n uint32) block, creates func(flags, mode uint32) block) callRules {
	return callRules{
		unix.SYS_OPEN: creates(1, 2), unix.SYS_CREAT: setUser(1), unix.SYS_CHMOD: setUser(1), unix.SYS_MKNOD: setUser(1),
	}
}
