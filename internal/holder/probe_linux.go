package holder

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// addressSpace is what a server maps, in bytes, generously.
const addressSpace = 16 << 30

// probes try what this system may lack, and a holder needs. A function returns an error if the system lacks it.
var probes = []struct {
	what string
	try  func() error
}{
	{"address space", func() error {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err == nil && limit.Cur < addressSpace {
			return fmt.Errorf("RLIMIT_AS is %d bytes, and a server with a holder needs up to %d, most of them unused", limit.Cur, uint64(addressSpace))
		}
		return nil
	}},
	{"a mounted /proc", func() error { return unix.Access("/proc/self/exe", unix.R_OK) }},
	{"memory without a name (memfd_create)", func() error {
		fd, err := unix.MemfdCreate("troupe-probe", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"descriptors of processes (pidfd_open)", func() error {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"splice from a pipe", func() error {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		defer unix.Close(fds[0])
		return spliced(fds[0], fds[1])
	}},
	{"splice from a terminal", func() error {
		terminal, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil // so no program has a terminal here
		}
		defer unix.Close(terminal)
		if err := unix.IoctlSetPointerInt(terminal, unix.TIOCSPTLCK, 0); err != nil {
			return nil
		}
		program, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(terminal), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return nil
		}
		return spliced(terminal, int(program))
	}},
}

// spliced moves a byte, written to w, from r to a pipe, as a lane does. spliced closes w.
func spliced(r, w int) error {
	defer unix.Close(w)
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := unix.Write(w, []byte{'x'}); err != nil {
		return err
	}
	_, err := unix.Splice(r, nil, fds[1], nil, 1, 0)
	return err
}

// Probe returns an error that names everything that this system lacks for a holder and its servers; nil: nothing is missing.
func Probe() error {
	var lacks []string
	for _, p := range probes {
		if err := p.try(); err != nil {
			lacks = append(lacks, fmt.Sprintf("%s: %v", p.what, err))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this system lacks %s", strings.Join(lacks, "; "))
	}
	return nil
}
