package nonblock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read is read(2).
func Read(fd uintptr, b []byte) (n int, err error) {
	return call(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(b)), len(b))
}

// Write is write(2).
func Write(fd uintptr, b []byte) (n int, err error) {
	return call(unix.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(b)), len(b))
}

// Writev is writev(2) of two buffers. Either may be empty.
func Writev(fd uintptr, a, b []byte) (n int, err error) {
	v := [2]unix.Iovec{{Base: unsafe.SliceData(a)}, {Base: unsafe.SliceData(b)}}
	v[0].SetLen(len(a))
	v[1].SetLen(len(b))
	return call(unix.SYS_WRITEV, fd, unsafe.Pointer(&v), len(v))
}

// Poll returns the events of events that are there now, as poll(2) does with a timeout of 0.
func Poll(fd uintptr, events int16) int16 {
	p := unix.PollFd{Fd: int32(fd), Events: events}
	var now unix.Timespec
	for {
		_, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		if e != syscall.EINTR {
			return p.Revents
		}
	}
}

func call(trap, fd uintptr, p unsafe.Pointer, n int) (int, error) {
	for {
		r, _, e := unix.RawSyscall(trap, fd, uintptr(p), uintptr(n))
		switch e {
		case 0:
			return int(r), nil
		case syscall.EINTR:
		default:
			return 0, e
		}
	}
}
