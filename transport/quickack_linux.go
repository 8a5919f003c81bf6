package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ackAtOnce makes the kernel acknowledge what was just read now, and not when it
// has something to send or 40 ms have passed. A client without TCP_NODELAY holds
// its next pong until then (Nagle), and output that waits for that pong with it.
// The kernel forgets this by itself; it is asked after every pong.
func ackAtOnce(c syscall.RawConn) { c.Control(quickAck) }

func quickAck(fd uintptr) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // a unix socket refuses, and has no need
}
