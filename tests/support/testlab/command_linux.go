package testlab

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Cmd is a program of a machine, as an exec.Cmd is a program of the test's machine.
type Cmd struct {
	Path           string
	Args           []string
	Env            []string  // nil: the test's
	Dir            string    // "": /
	Stdin          *os.File  // nil: /dev/null
	Stdout, Stderr io.Writer // nil: thrown away. The same twice: the output of both in its order

	machine *Machine
	lookErr error
	pidfd   *os.File
	pid     int
	copies  sync.WaitGroup
	over    chan struct{} // closed with the fields below
	status  syscall.WaitStatus
	lost    error // the machine was turned off
}

// Command returns a program, ready to start. All machines have the files of the test.
func (m *Machine) Command(name string, args ...string) *Cmd {
	path, err := exec.LookPath(name)
	return &Cmd{Path: path, Args: append([]string{name}, args...), machine: m, lookErr: err}
}

// Start starts the program.
func (c *Cmd) Start() error {
	if c.lookErr != nil {
		return c.lookErr
	}
	s := start{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
	var ours []*os.File // closed after the start: the program has copies
	defer func() { closeAll(ours) }()
	stdin := c.Stdin
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		ours, stdin = append(ours, null), null
	}
	fds := []int{int(stdin.Fd())}
	var reads []func()
	for i, w := range []io.Writer{c.Stdout, c.Stderr} {
		if i == 1 && same(c.Stdout, c.Stderr) {
			fds = append(fds, fds[1])
			break
		}
		f, ok := w.(*os.File)
		if !ok {
			in, out, err := os.Pipe()
			if err != nil {
				return err
			}
			ours, f = append(ours, out), out
			if w == nil {
				w = io.Discard
			}
			reads = append(reads, func() {
				io.Copy(w, in)
				in.Close()
			})
		}
		fds = append(fds, int(f.Fd()))
	}
	replies := c.machine.ask(request{Start: &s}, fds...)
	r := <-replies
	for _, read := range reads { // also if the start has failed: then there is nothing to read
		c.copies.Go(read)
	}
	if r.err() != nil {
		return fmt.Errorf("start %s in machine %q: %w", c.Path, c.machine.Name, r.err())
	}
	c.pidfd, c.over = r.files[0], make(chan struct{})
	c.pid = pidOf(c.pidfd)
	go func() {
		end := <-replies
		c.status, c.lost = end.Status, end.err()
		close(c.over)
	}()
	return nil
}

// Wait waits for the end of the program, and of whoever else writes to its Stdout or Stderr. A program that failed is an error.
func (c *Cmd) Wait() error {
	<-c.over
	c.copies.Wait()
	c.pidfd.Close()
	switch {
	case c.lost != nil:
		return c.lost
	case c.status.Signaled():
		return fmt.Errorf("%s: killed by %v", c.Path, c.status.Signal())
	case c.status != 0:
		return fmt.Errorf("%s: exit code %d", c.Path, c.status.ExitStatus())
	}
	return nil
}

// Run starts the program and waits for its end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// same reports whether two writers are one. A writer that cannot be compared is no other one.
func same(a, b io.Writer) bool {
	defer func() { recover() }()
	return a != nil && a == b
}

// CombinedOutput runs the program and returns its output.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// PID is the process ID of the started program, outside of the machine.
func (c *Cmd) PID() int { return c.pid }

// Over is closed when the started program has ended.
func (c *Cmd) Over() <-chan struct{} { return c.over }

// Signal sends a signal to the program, and to no other one after its end.
func (c *Cmd) Signal(sig syscall.Signal) error {
	return unix.PidfdSendSignal(int(c.pidfd.Fd()), sig, nil, 0)
}

// pidOf returns the process ID of a pidfd; -1: the process has ended.
func pidOf(pidfd *os.File) (pid int) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd.Fd()))
	if err != nil {
		return -1
	}
	for in := bufio.NewScanner(bytes.NewReader(info)); in.Scan(); {
		if text, ok := strings.CutPrefix(in.Text(), "Pid:"); ok {
			fmt.Sscan(text, &pid)
			return pid
		}
	}
	return -1
}
