package testlab

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideArg is argv[0] of this program as process 1 of a machine. The name and the address of the machine follow.
const insideArg = "troupe-test-machine"

func init() {
	if os.Args[0] == insideArg {
		if err := inside(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "testlab: machine %q: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		os.Exit(0) // and with it everything in the machine
	}
}

// inside is process 1 of a machine until the test ends.
func inside(name, addr string) error {
	control, err := unixConn(os.NewFile(3, "control"))
	if err != nil {
		return err
	}
	device, err := build(name, addr)
	if err != nil {
		return send(control, failed(err))
	}
	if err := send(control, answer{}, device); err != nil {
		return err
	}
	unix.Close(device)
	s := server{control: control, running: make(map[int]int)}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			s.reap()
		}
	}()
	for {
		r, err := receive[request](control)
		if err != nil {
			return nil // the test has ended
		}
		switch {
		case r.message.Start != nil:
			s.start(r.message.ID, *r.message.Start, r.files)
			closeAll(r.files)
		case r.message.Dial != nil:
			go s.dial(r.message.ID, *r.message.Dial)
		case r.message.Listen != nil:
			s.listen(r.message.ID, *r.message.Listen)
		}
	}
}

// build makes the mounts, the name and the network of a machine, and returns its TUN device.
func build(name, addr string) (device int, err error) {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return 0, fmt.Errorf("host name: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 0, fmt.Errorf("mount /proc: %w", err)
	}
	// A server killed with its machine would leave its cgroups to the host.
	if err := unix.Mount("tmpfs", "/sys/fs/cgroup", "tmpfs", unix.MS_RDONLY, ""); err != nil {
		return 0, fmt.Errorf("hide cgroups: %w", err)
	}
	device, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("/dev/net/tun: %w", err)
	}
	const eth = "eth0"
	tun, err := unix.NewIfreq(eth)
	if err != nil {
		return 0, err
	}
	tun.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(device, unix.TUNSETIFF, tun); err != nil {
		return 0, fmt.Errorf("make a TUN device: %w", err)
	}
	any, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(any)
	for _, set := range []struct {
		device string
		what   uint
		value  func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, flags(unix.IFF_UP)},
		{eth, unix.SIOCSIFADDR, address(addr)},
		{eth, unix.SIOCSIFNETMASK, address("255.255.255.0")},
		{eth, unix.SIOCSIFFLAGS, flags(unix.IFF_UP)},
	} {
		r, err := unix.NewIfreq(set.device)
		if err != nil {
			return 0, err
		}
		if err := set.value(r); err != nil {
			return 0, err
		}
		if err := unix.IoctlIfreq(any, set.what, r); err != nil {
			return 0, fmt.Errorf("device %s, request %#x: %w", set.device, set.what, err)
		}
	}
	return device, nil
}

func flags(f uint16) func(*unix.Ifreq) error {
	return func(r *unix.Ifreq) error { r.SetUint16(f); return nil }
}

func address(a string) func(*unix.Ifreq) error {
	return func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(a).To4()) }
}

// A server answers the requests of the test.
type server struct {
	control *net.UnixConn

	mu      sync.Mutex  // also held from a fork until its pid is known
	running map[int]int // by pid, the request of the start
}

func (s *server) start(id int, p start, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pidfd := -1
	attr := &syscall.ProcAttr{Dir: p.Dir, Env: p.Env, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := syscall.ForkExec(p.Path, p.Args, attr)
	if err != nil {
		a := failed(err)
		a.ID = id
		send(s.control, a)
		return
	}
	defer unix.Close(pidfd)
	s.running[pid] = id
	send(s.control, answer{ID: id, More: true}, pidfd)
}

// reap takes the exit status of each ended process. Process 1 is the parent of all whose parent has ended.
func (s *server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		if id, ours := s.running[pid]; ours {
			delete(s.running, pid)
			send(s.control, answer{ID: id, Status: status})
		}
	}
}

func (s *server) dial(id int, to socket) {
	d := net.Dialer{Timeout: to.Wait}
	c, err := d.Dial(to.Network, to.Address)
	if err != nil {
		s.give(id, nil, err)
		return
	}
	defer c.Close()
	s.give(id, c.(syscall.Conn), nil)
}

func (s *server) listen(id int, at socket) {
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		s.give(id, nil, err)
		return
	}
	s.give(id, l.(syscall.Conn), nil)
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	l.Close()
}

// give answers with a socket, or an error.
func (s *server) give(id int, c syscall.Conn, err error) {
	if err == nil {
		var raw syscall.RawConn
		if raw, err = c.SyscallConn(); err == nil {
			err = raw.Control(func(fd uintptr) { send(s.control, answer{ID: id}, int(fd)) })
		}
	}
	if err != nil {
		a := failed(err)
		a.ID = id
		send(s.control, a)
	}
}
