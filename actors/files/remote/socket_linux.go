package remote

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// socket is an end of a SOCK_SEQPACKET of unix(7). One goroutine receives; any goroutine may send.
type socket struct {
	file *os.File
	raw  syscall.RawConn
}

// Sockets returns the two ends of a socket: ours for NewClient, and theirs for a jail.
func Sockets() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox"), nil
}

// newSocket takes over the descriptor of a file.
func newSocket(f *os.File) (*socket, error) {
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr == nil {
		dupErr = unix.SetNonblock(fd, true) // so the runtime's poller takes the file
	}
	if dupErr != nil {
		unix.Close(fd)
		return nil, dupErr
	}
	s := &socket{file: os.NewFile(uintptr(fd), "sandbox socket")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// close ends receive and send on both ends.
func (s *socket) close() {
	_ = s.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // a child forked meanwhile may hold the descriptor for a moment
	s.file.Close()
}

// receive returns the next packet, in buf, and the descriptor that came with it; -1: none. The error is io.EOF after
// the other end has closed.
func (s *socket) receive(buf []byte) (data []byte, fd int, err error) {
	var oob [64]byte
	n, oobn, flags := 0, 0, 0
	waitErr := s.raw.Read(func(of uintptr) bool {
		n, err = kernel.Retry(func() (n int, err error) {
			n, oobn, flags, _, err = unix.Recvmsg(int(of), buf, oob[:], unix.MSG_CMSG_CLOEXEC)
			return n, err
		})
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return nil, -1, waitErr
	}
	if err != nil {
		return nil, -1, err
	}
	fds := rights(oob[:oobn])
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(fds) > 1 {
		closeAll(fds)
		return nil, -1, errors.New("a packet of the sandbox is too large")
	}
	if n == 0 {
		closeAll(fds)
		return nil, -1, io.EOF
	}
	if len(fds) == 1 {
		return buf[:n], fds[0], nil
	}
	return buf[:n], -1, nil
}

func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, some...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// send sends a packet, with the descriptor of a file if it is not nil. send waits until the other end has room.
func (s *socket) send(data []byte, file *os.File) error {
	if file == nil {
		return s.sendWith(data, nil)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	// The file cannot be closed within Control.
	if err := raw.Control(func(fd uintptr) { sent = s.sendWith(data, unix.UnixRights(int(fd))) }); err != nil {
		return err
	}
	return sent
}

func (s *socket) sendWith(data, oob []byte) (err error) {
	waitErr := s.raw.Write(func(of uintptr) bool {
		_, err = kernel.Retry(func() (int, error) { return 0, unix.Sendmsg(int(of), data, oob, nil, unix.MSG_NOSIGNAL) })
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return waitErr
	}
	return err
}
