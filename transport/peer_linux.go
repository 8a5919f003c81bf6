package transport

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf names the process that connected to a unix socket by user and pid. Source: SO_PEERCRED,
// unix(7).
func peerOf(c *net.UnixConn) (name string) {
	name = "unix"
	raw, err := c.SyscallConn()
	if err != nil {
		return name
	}
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = fmt.Sprintf("uid %d pid %d", cred.Uid, cred.Pid)
		}
	})
	return name
}
