package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// init makes this program a jail if it was started as one: neither main nor the tests of a test binary run then. A jail
// of a Plan with Serve goes on to the init of package actors/files/remote, which never returns.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		run()
	}
}

// descriptor is the jail's socket to the server.
const descriptor = 3

// Blocked is the set of signals that are blocked when a jail starts. The jail is in the process group of the program, and a
// signal of the group is for the program. Bit n-1 is signal n. The runtime unblocks the signals that end a program; see
// forward and ignoreFaults for those. SIGURG is the runtime's own.
const Blocked = ^uint64(1<<(unix.SIGURG-1) | 1<<(unix.SIGCHLD-1))

// Ambient is the set of capabilities that a jail in namespaces of its own starts with. The jail has them in its user namespace
// alone, and gives them up before the program starts:
//   - CAP_SYS_ADMIN for mounts and the cgroup namespace;
//   - CAP_SETPCAP to empty the bounding set, see dropBounding;
//   - CAP_SETUID and CAP_SETGID to become the user of the plan;
//   - CAP_DAC_READ_SEARCH for paths below directories that their owner, the user of the jail, has closed to itself.
const Ambient = AmbientToBecome | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_DAC_READ_SEARCH

// AmbientToBecome is the set of capabilities that a jail without namespaces starts with to become the user of its plan.
const AmbientToBecome = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
