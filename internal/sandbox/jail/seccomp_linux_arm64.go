package jail

import "golang.org/x/sys/unix"

// auditArch is the architecture of a call in seccomp_data.
const auditArch = unix.AUDIT_ARCH_AARCH64

// ofArch are calls of this architecture alone that a confined program may not make.
var ofArch []uint32

// olderFileCalls has no rules: this architecture has only the newer calls.
func olderFileCalls(func(uint32) block, func(uint32, uint32) block) callRules { return nil }
