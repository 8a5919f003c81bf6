// Package kernel helps with system calls and with the numbers in files of the kernel.
package kernel

import (
	"bytes"
	"errors"
	"fmt"
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

// statFields is how many fields of /proc/PID/stat a kernel has at least.
const statFields = 24

// Stat returns the fields of /proc/PID/stat by their numbers in proc_pid_stat(5), from 3 to 24.
func Stat(pid int) (field func(n int) string, err error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// Field 2 is the name of the program, in parentheses, and may itself have spaces and parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < statFields-2 {
		return nil, fmt.Errorf("%s has %d fields after the name of the program, want %d or more: %q", path, len(fields), statFields-2, text)
	}
	return func(n int) string { return string(fields[n-3]) }, nil
}
