package transport

import (
	"errors"
	"io/fs"
	"syscall"
	"unsafe"
)

// fionread asks how many bytes a Read would return at once. Source: winsock2.h.
const fionread = 0x4004667f

// bytesWait reports whether a Read would return bytes at once.
func bytesWait(raw syscall.RawConn) bool {
	var bytes, size uint32
	raw.Control(func(fd uintptr) {
		syscall.WSAIoctl(syscall.Handle(fd), fionread, nil, 0, (*byte)(unsafe.Pointer(&bytes)), uint32(unsafe.Sizeof(bytes)), &size, nil, 0)
	})
	return bytes > 0
}

// await does not wait: Read does.
func await(syscall.RawConn) error { return nil }

// hungUp returns false: a Read or a Write finds out that the other side is gone.
func hungUp(syscall.RawConn) bool { return false }

// ownersOnly does nothing: who may use a socket follows from its directory.
func ownersOnly(uintptr) {}

// unixName returns the name of the socket of a file.
func unixName(path string, _ fs.FileInfo) string { return "unix://" + path }

// isReset reports whether err is that of a connection whose other end is gone.
func isReset(err error) bool {
	return errors.Is(err, syscall.WSAECONNRESET) || errors.Is(err, syscall.WSAECONNABORTED)
}
