package main

import "golang.org/x/sys/unix"

// hide keeps programs of the server's user from reading the server's environment and memory, and from
// attaching to the server. With PR_SET_DUMPABLE at 0, root owns /proc/<pid>, and there is no core dump.
// The setting does not reach programs started by the server: execve(2) undoes it.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
