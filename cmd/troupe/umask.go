//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// umask returns the mask of this process for new files, in octal digits. The system has no other way to ask for it.
func umask() string {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fmt.Sprintf("%03o", mask)
}
