package main

import "golang.org/x/sys/unix"

// hide keeps programs of the server's user from reading its environment and memory, and from
// attaching to it: /proc/<pid> is root's, and there is no core dump. What the server starts is as
// ever: an execve(2) undoes it. (PR_SET_DUMPABLE)
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
