//go:build !linux

package transport

import "net"

// peerOf names no process: all that connect to a unix socket are one.
func peerOf(*net.UnixConn) string { return "unix" }
