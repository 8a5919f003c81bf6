//go:build linux && !amd64 && !arm64

package jail

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lock, lockThread and lockOnly refuse: nobody has written down the numbers of this architecture's system calls.
func lock(*Plan) error       { return unknownArch() }
func lockThread(*Plan) error { return unknownArch() }
func lockOnly(*Plan) error   { return unknownArch() }

// dropBounding and dropEverywhere refuse as well: a jail that serves files would need lockThread next.
func dropBounding() error   { return unknownArch() }
func dropEverywhere() error { return unknownArch() }

// secureUser refuses, too.
func secureUser(*Plan) error { return unknownArch() }

func unknownArch() error {
	return &Failure{Stage: "seccomp", Errno: int(unix.ENOSYS), Text: "a sandbox needs amd64 or arm64, and this is " + runtime.GOARCH}
}
