//go:build !linux

package console

import "syscall"

func stopThread() { syscall.Kill(syscall.Getpid(), syscall.SIGTSTP) }
