//go:build !linux

package transport

import (
	"net"
	"syscall"
)

// direct is a socket.
type direct struct{ net.Conn }

func newDirect(c net.Conn, _ syscall.RawConn) *direct { return &direct{c} }

// writev writes a and then b, and nothing of what others write comes between.
func (d *direct) writev(a, b []byte) error {
	both := net.Buffers{a, b}
	_, err := both.WriteTo(d.Conn)
	return err
}
