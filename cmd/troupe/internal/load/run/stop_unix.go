//go:build unix

package run

import "syscall"

func halt(pid int) error    { return syscall.Kill(pid, syscall.SIGSTOP) }
func proceed(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
