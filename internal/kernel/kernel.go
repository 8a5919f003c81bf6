// Package kernel helps with system calls and with the numbers in files of the kernel.
package kernel

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Retry repeats a system call as long as a signal interrupts it (EINTR).
func Retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// Number returns the number in a file such as /proc/sys/kernel/pid_max, or -1 if the file has no number or is unreadable.
func Number(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
