//go:build !linux

package transport

import (
	"net"
	"syscall"
)

// A direct is a socket. Only Linux has a faster implementation.
type direct struct{ net.Conn }

func newDirect(c net.Conn, _ syscall.RawConn) *direct { return &direct{c} }

// writev writes a and then b, and returns the number of bytes written.
func (d *direct) writev(a, b []byte) (int, error) {
	both := net.Buffers{a, b}
	n, err := both.WriteTo(d.Conn)
	return int(n), err
}
