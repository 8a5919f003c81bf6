//go:build linux && !amd64 && !arm64

// Package fork starts processes with namespaces, limits and capabilities. On this architecture there is no such start.
package fork

import "syscall"

// Start returns ENOSYS.
func Start(*Attr) (pid int, err error) { return 0, syscall.ENOSYS }

// ReadOnly returns ENOSYS.
func ReadOnly(path string) (fd int, err error) { return -1, syscall.ENOSYS }
