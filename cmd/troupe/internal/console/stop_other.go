//go:build unix && !linux

package console

import "syscall"

// stop stops this process, and returns when the process continues.
func stop() { syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
