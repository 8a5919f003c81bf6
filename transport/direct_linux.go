package transport

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// A direct is a socket whose reads and writev calls use the system calls of package nonblock.
type direct struct {
	net.Conn
	raw            syscall.RawConn
	take, put      func(fd uintptr) bool // readOnce, writeOnce
	in             []byte                // owned by Read
	n              int
	inErr, outErr  error
	out, outBehind []byte // owned by writev
}

func newDirect(c net.Conn, raw syscall.RawConn) *direct {
	d := &direct{Conn: c, raw: raw}
	d.take, d.put = d.readOnce, d.writeOnce // made once: a method value in each call would be allocated each time
	return d
}

// Read may be called by a single goroutine at a time.
func (d *direct) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	d.in = p
	err := d.raw.Read(d.take)
	d.in = nil
	switch {
	case err != nil: // the deadline passed, or the socket was closed
		return 0, err
	case d.inErr != nil:
		return 0, os.NewSyscallError("read", d.inErr)
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}

func (d *direct) readOnce(fd uintptr) bool {
	d.n, d.inErr = nonblock.Read(fd, d.in)
	return d.inErr != syscall.EAGAIN
}

// writev writes a and then b, and returns the number of bytes written. A single goroutine at a time may
// call writev.
func (d *direct) writev(a, b []byte) (int, error) {
	d.out, d.outBehind, d.outErr = a, b, nil
	err := d.raw.Write(d.put)
	n := len(a) - len(d.out) + len(b) - len(d.outBehind)
	d.out, d.outBehind = nil, nil
	if err == nil {
		err = os.NewSyscallError("writev", d.outErr)
	}
	return n, err
}

func (d *direct) writeOnce(fd uintptr) bool {
	for len(d.out)+len(d.outBehind) > 0 {
		n, err := nonblock.Writev(fd, d.out, d.outBehind)
		if err == syscall.EAGAIN {
			return false
		}
		if d.outErr = err; err != nil {
			return true
		}
		first := min(n, len(d.out))
		d.out, d.outBehind = d.out[first:], d.outBehind[n-first:]
	}
	return true
}
