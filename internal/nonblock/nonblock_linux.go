package nonblock

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
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

// Splice is splice(2) of up to n bytes between two files, at least one of them a pipe. 0 bytes without an error are the end of from.
func Splice(from, to uintptr, n int) (int, error) {
	return kernel.Retry(func() (int, error) {
		r, _, e := unix.RawSyscall6(unix.SYS_SPLICE, from, 0, to, 0, uintptr(n), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if e != 0 {
			return 0, e
		}
		return int(r), nil
	})
}

// Sendmsg is sendmsg(2) of b with control messages. The call does not wait, on any socket, and raises no SIGPIPE.
func Sendmsg(socket uintptr, b, control []byte) error {
	m := messageOf(b, control)
	_, err := call(unix.SYS_SENDMSG, socket, unsafe.Pointer(&m), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return err
}

// Recvmsg is recvmsg(2) into b and control, and returns the lengths of both and the flags of the message. The call does not wait, on any socket. Received
// descriptors are closed on exec.
func Recvmsg(socket uintptr, b, control []byte) (n, controls, flags int, err error) {
	m := messageOf(b, control)
	n, err = call(unix.SYS_RECVMSG, socket, unsafe.Pointer(&m), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	return n, int(m.Controllen), int(m.Flags), err
}

func messageOf(b, control []byte) (m unix.Msghdr) {
	v := &unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	m.Iov, m.Control = v, unsafe.SliceData(control)
	m.SetIovlen(1)
	m.SetControllen(len(control))
	return m
}

// Poll returns the events of events that are there now, as poll(2) does with a timeout of 0.
func Poll(fd uintptr, events int16) int16 {
	p := [...]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		if _, err := Wait(p[:], 0); err != syscall.EINTR {
			return p[0].Revents
		}
	}
}

// Wait is poll(2) for up to d, and the only call of this package that waits. Meanwhile one of the processors of Go's scheduler does nothing else, so d is short.
// A signal ends Wait with EINTR.
func Wait(fds []unix.PollFd, d time.Duration) (n int, err error) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	r, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(&t)), 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(r), nil
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
