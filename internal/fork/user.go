//go:build unix

package fork

import "golang.org/x/sys/unix"

// User is who a process becomes. Unless the user is root, the process loses all capabilities.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Limit is a limit of setrlimit(2).
type Limit struct {
	Resource int
	Limit    unix.Rlimit
}
