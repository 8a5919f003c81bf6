//go:build !linux

package transport

import "syscall"

// ackAtOnce does nothing: only Linux has TCP_QUICKACK.
func ackAtOnce(syscall.RawConn) {}
