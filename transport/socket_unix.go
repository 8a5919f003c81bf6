//go:build unix

package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// bytesWait reports whether a Read would return at once: with bytes, the end or an error.
func bytesWait(raw syscall.RawConn) (wait bool) {
	var b [1]byte
	raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		wait = err != unix.EAGAIN && err != unix.EINTR
	})
	return wait
}

// await waits until a Read would return at once, or until the deadline of Read.
func await(raw syscall.RawConn) error {
	return raw.Read(func(fd uintptr) bool { return nonblock.Poll(fd, unix.POLLIN) != 0 })
}

// hungUp reports whether the other side of a socket neither reads nor writes any more: the other side
// has reset the connection, or the kernel has given the connection up. Waiting bytes do not hide a
// hang-up.
func hungUp(raw syscall.RawConn) (gone bool) {
	raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}} // poll reports these two events unasked
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n == 1 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone
}

// ownersOnly gives a socket the mode of a file that only its owner may use.
func ownersOnly(fd uintptr) { unix.Fchmod(int(fd), 0o600) }

// unixName returns the name of the socket of a file. While the socket is open, the kernel gives the number of its file to no other file.
func unixName(path string, own fs.FileInfo) string {
	st, ok := own.Sys().(*syscall.Stat_t)
	if !ok {
		return "unix://" + path
	}
	return fmt.Sprintf("unix://%s %d:%d", path, st.Dev, st.Ino)
}

// isReset reports whether err is that of a connection whose other end is gone.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
