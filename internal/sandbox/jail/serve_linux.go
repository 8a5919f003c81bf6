package jail

import "golang.org/x/sys/unix"

// secure prepares a jail to serve files, on its main thread. A client's path may lead to the jail's own entries in /proc, such as
// its memory, so /proc becomes read-only. Threads that make no calls lose their capabilities, too. The rest of lock comes with
// each thread: its filter would refuse the Landlock of further threads.
func secure(plan *Plan) error {
	if !plan.Policy.Files {
		return secureUser(plan)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return failed("read-only /proc", err)
	}
	if err := dropBounding(); err != nil {
		return err
	}
	return dropEverywhere()
}

// Ready tells the server that this jail serves files. With an error, Ready tells why the jail cannot. Ready returns false if
// the server is gone. Only the package that serves calls Ready, once.
func Ready(err error) bool {
	if err != nil {
		return report(Report{Failure: failureOf(err)})
	}
	return report(Report{OldProc: served.oldProc})
}
