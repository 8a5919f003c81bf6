package transport

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerOf names the process that connected to a unix socket by user and pid.
func peerOf(c *net.UnixConn) string {
	if cred, ok := credentials(c); ok {
		return fmt.Sprintf("uid %d pid %d", cred.Uid, cred.Pid)
	}
	return "unix"
}

// overflowUser is the kernel's user for all users without a number in this user namespace. Different
// people share it, so it names nobody. Source: /proc/sys/kernel/overflowuid, user_namespaces(7).
const overflowUser = 65534

// userOf returns the user of the process that connected to a unix socket.
func userOf(c net.Conn) (uid uint32, ok bool) {
	socket, isSocket := c.(syscall.Conn)
	if !isSocket {
		return 0, false
	}
	cred, ok := credentials(socket)
	return cred.Uid, ok && cred.Uid != overflowUser
}

// credentials returns what the kernel knows of the other end of a unix socket. Source: SO_PEERCRED,
// unix(7).
func credentials(c syscall.Conn) (cred unix.Ucred, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return cred, false
	}
	raw.Control(func(fd uintptr) {
		// For a socket of another kind, the kernel returns user and pid -1 or 0 of nobody: check the kind.
		if domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
			return
		}
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred, ok = *c, true
		}
	})
	return cred, ok
}
