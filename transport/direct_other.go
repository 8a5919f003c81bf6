//go:build !linux

package transport

import (
	"net"
	"syscall"
)

// direct is a socket.
type direct struct{ net.Conn }

func newDirect(c net.Conn, _ syscall.RawConn) *direct { return &direct{c} }

// writev writes a and then b, and returns how many bytes it wrote.
func (d *direct) writev(a, b []byte) (int, error) {
	both := net.Buffers{a, b}
	n, err := both.WriteTo(d.Conn)
	return int(n), err
}
