//go:build unix && !linux

package nonblock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Read is read(2).
func Read(fd uintptr, b []byte) (n int, err error) { return repeat(unix.Read, fd, b) }

// Write is write(2).
func Write(fd uintptr, b []byte) (n int, err error) { return repeat(unix.Write, fd, b) }

// Poll returns the events of events that are there now, as poll(2) does with a timeout of 0.
func Poll(fd uintptr, events int16) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		_, err := unix.Poll(p, 0)
		if !errors.Is(err, unix.EINTR) {
			return p[0].Revents
		}
	}
}

func repeat(call func(int, []byte) (int, error), fd uintptr, b []byte) (n int, err error) {
	for {
		n, err = call(int(fd), b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
