package testlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Machine runs programs, and has one address in the network of its lab.
type Machine struct {
	Name    string // also its host name
	Addr    string // 10.77.0.N
	In, Out *Link  // of all packets to the machine, or from the machine

	lab *Lab

	mu      sync.Mutex
	control *net.UnixConn // to process 1; nil: the machine is off
	device  *os.File      // packets
	init    *exec.Cmd
	down    chan struct{} // closed when process 1 has ended
	last    int           // request
	asked   map[int]chan<- reply
}

// A reply of process 1. Each request has a reply; a start has a second reply at the end of the program.
type reply struct {
	answer
	files []*os.File
}

// A Direction is that of packets, as seen from a machine.
type Direction int

// Directions.
const (
	In Direction = 1 << iota
	Out
	Both = In | Out
)

// Cut makes the network lose all packets to the machine, from it, or both. The connections stay, and nobody is told.
func (m *Machine) Cut(d Direction) {
	if d&In != 0 {
		m.In.Set(Wire{Cut: true})
	}
	if d&Out != 0 {
		m.Out.Set(Wire{Cut: true})
	}
}

// Slow sets the treatment of all packets to the machine and from the machine.
func (m *Machine) Slow(w Wire) {
	m.In.Set(w)
	m.Out.Set(w)
}

// Heal ends Cut and Slow.
func (m *Machine) Heal() { m.Slow(Wire{}) }

// boot starts process 1 unless it runs. One goroutine at a time calls boot.
func (m *Machine) boot() error {
	if m.on() {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	control, err := unixConn(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{insideArg, m.Name, m.Addr}, ExtraFiles: []*os.File{theirs}, Stderr: os.Stderr, Dir: "/"}
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		// The machine's user 0 is the user of the test.
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		control.Close()
		return err
	}
	ready, down := make(chan reply, 1), make(chan struct{})
	m.mu.Lock()
	m.control, m.init, m.down, m.asked = control, cmd, down, map[int]chan<- reply{0: ready}
	m.mu.Unlock()
	m.lab.all.Go(func() { m.hear(control, down) })
	r := <-ready
	if r.err() != nil {
		return r.err()
	}
	m.mu.Lock()
	m.device = r.files[0]
	m.mu.Unlock()
	m.lab.all.Go(func() { m.send(r.files[0]) })
	return nil
}

func (m *Machine) on() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.control != nil
}

// Kill turns the machine off, as a loss of power does: programs end without a word, and packets to the machine get no answer.
func (m *Machine) Kill() {
	m.mu.Lock()
	control, device, cmd, down := m.control, m.device, m.init, m.down
	if control == nil {
		m.mu.Unlock()
		return
	}
	m.control, m.device = nil, nil
	m.mu.Unlock()
	if device != nil {
		device.Close() // before the kernel of the machine resets the connections of its dead programs
	}
	cmd.Process.Kill()
	cmd.Wait() // the kernel has killed the others by then
	control.Close()
	<-down
}

// send takes the packets of the machine to the network.
func (m *Machine) send(device *os.File) {
	packet := make([]byte, 64<<10)
	for {
		n, err := device.Read(packet)
		if err != nil {
			return // killed
		}
		m.lab.carry(m, packet[:n])
	}
}

// receive takes a packet from the network. A machine without power gets none.
func (m *Machine) receive(packet []byte) {
	m.mu.Lock()
	device := m.device
	m.mu.Unlock()
	if device != nil {
		device.Write(packet)
	}
}

// hear passes the replies of process 1 to their askers.
func (m *Machine) hear(control *net.UnixConn, down chan struct{}) {
	for {
		r, err := receive[answer](control)
		m.mu.Lock()
		if err != nil {
			for _, asked := range m.asked {
				asked <- reply{answer: answer{Text: "the machine is off"}}
			}
			clear(m.asked)
			close(down)
			m.mu.Unlock()
			return
		}
		asked, ok := m.asked[r.message.ID]
		if !r.message.More {
			delete(m.asked, r.message.ID)
		}
		m.mu.Unlock()
		if ok {
			asked <- reply{r.message, r.files}
		} else {
			closeAll(r.files)
		}
	}
}

// ask sends a request to process 1, and returns a channel with room for all replies.
func (m *Machine) ask(r request, fds ...int) <-chan reply {
	replies := make(chan reply, 2)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.control == nil {
		replies <- reply{answer: answer{Text: "the machine is off"}}
		return replies
	}
	m.last++
	r.ID = m.last
	m.asked[r.ID] = replies
	if err := send(m.control, r, fds...); err != nil {
		delete(m.asked, r.ID)
		replies <- reply{answer: answer{Text: err.Error()}}
	}
	return replies
}

// Network names the network namespace of the machine, as the link /proc/PID/ns/net of its programs does; "": the machine is off.
func (m *Machine) Network() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.control == nil {
		return ""
	}
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.init.Process.Pid))
	return name
}

// Dial connects from the machine to an address, as net.Dialer does.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var wait time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(time.Until(deadline), 0) + time.Second // ctx is done before
	}
	replies := m.ask(request{Dial: &socket{network, address, wait}})
	select {
	case r := <-replies:
		if r.err() != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: r.err()}
		}
		defer closeAll(r.files)
		return net.FileConn(r.files[0])
	case <-ctx.Done():
		go func() { // the connection may still come
			closeAll((<-replies).files)
		}()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
}

// Listen listens at an address of the machine, as net.Listen does.
func (m *Machine) Listen(network, address string) (net.Listener, error) {
	r := <-m.ask(request{Listen: &socket{network, address, 0}})
	if r.err() != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: r.err()}
	}
	defer closeAll(r.files)
	return net.FileListener(r.files[0])
}

// --- messages between the test and process 1, each one packet of a socket ---

type (
	request struct {
		ID     int
		Start  *start  // with stdin, stdout and stderr
		Dial   *socket // the reply has the connection
		Listen *socket
	}
	start struct {
		Path string
		Args []string
		Env  []string
		Dir  string
	}
	socket struct {
		Network, Address string
		Wait             time.Duration // 0: as long as the kernel does
	}
	answer struct {
		ID     int
		Errno  syscall.Errno
		Text   string // of an error; "": none
		More   bool   // another answer follows
		Status syscall.WaitStatus
	}
	received[M any] struct {
		message M
		files   []*os.File
	}
)

func (a answer) err() error {
	if a.Text == "" {
		return nil
	}
	return failure{a.Text, a.Errno}
}

// A failure is an error of process 1.
type failure struct {
	text  string
	errno syscall.Errno // 0: unknown
}

func (f failure) Error() string { return f.text }

func (f failure) Unwrap() error {
	if f.errno == 0 {
		return nil
	}
	return f.errno
}

// failed makes an answer of an error.
func failed(err error) (a answer) {
	errors.As(err, &a.Errno)
	a.Text = err.Error()
	return a
}

// send sends a message with copies of descriptors. If the other side is slow to read, send waits.
func send(c *net.UnixConn, message any, fds ...int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(text, rights, nil)
	return err
}

func receive[M any](c *net.UnixConn) (r received[M], err error) {
	text, rights := make([]byte, 256<<10), make([]byte, unix.CmsgSpace(8*4))
	n, nr, _, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return r, err
	}
	if n == 0 {
		return r, errors.New("the other side has ended")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil {
		return r, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return r, err
		}
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return r, json.Unmarshal(text[:n], &r.message)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// unixConn makes a connection of a socket.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a socket is a %T", c)
	}
	return u, nil
}
