package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ackAtOnce makes the kernel acknowledge the bytes read so far now. Otherwise the kernel waits until it
// has something to send, or 40 ms. A client without TCP_NODELAY holds its next pong until the
// acknowledgement comes (Nagle), and the server holds output back until the pong comes. The kernel
// forgets the setting, so the server calls ackAtOnce after every pong.
func ackAtOnce(c syscall.RawConn) { c.Control(quickAck) }

func quickAck(fd uintptr) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // a unix socket refuses TCP_QUICKACK and does not need it
}
