//go:build unix

package nonblock

import "os"

// Control runs f on the descriptor and reports whether the file was still open. Unlike File.Fd,
// Control leaves the descriptor in non-blocking mode.
func Control(file *os.File, f func(fd uintptr)) bool {
	rc, err := file.SyscallConn()
	return err == nil && rc.Control(f) == nil
}
