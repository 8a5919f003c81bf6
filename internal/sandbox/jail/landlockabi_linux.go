package jail

import "golang.org/x/sys/unix"

const (
	// MinLandlock is the least ABI that a jail uses; with a lower ABI, a jail has no Landlock. ABI 1 refuses every rename and link
	// between two directories, also between two writable ones.
	MinLandlock = 2
	// FullLandlock is the least ABI with scopes for signals and abstract sockets.
	FullLandlock = 6
)

// LandlockABI returns the version of Landlock in this kernel; 0: Landlock is missing or not switched on.
func LandlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}
