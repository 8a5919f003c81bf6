//go:build !linux

package transport

import "net"

// peerOf returns the same name for all processes that connect to a unix socket.
func peerOf(*net.UnixConn) string { return "unix" }
