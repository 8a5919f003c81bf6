//go:build !linux

package transport

import "syscall"

// ackAtOnce does nothing: TCP_QUICKACK exists only on Linux.
func ackAtOnce(syscall.RawConn) {}
