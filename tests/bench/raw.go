package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file measures the raw limits: the same work without a server.

// rawStart forks, execs and waits for a program with three descriptors of /dev/null.
func rawStart(null *os.File, argv []string) error {
	fd := null.Fd()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Files: []uintptr{fd, fd, fd}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err = syscall.Wait4(pid, &status, 0, nil); err == nil && status != 0 {
		err = fmt.Errorf("%s has ended with status %#x", argv[0], status)
	}
	return err
}

const trueProgram = "/bin/true"

// rawStarts starts a program n times, inFlight at a time. rawStarts returns the time of each start and the
// time of all together.
func (b *bench) rawStarts(n, inFlight int, argv ...string) (each times, all time.Duration, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer null.Close()
	var (
		mu      sync.Mutex
		workers sync.WaitGroup
	)
	begin := time.Now()
	for range inFlight {
		workers.Go(func() {
			for {
				mu.Lock()
				done := n <= 0 || err != nil || b.ctx.Err() != nil
				n--
				mu.Unlock()
				if done {
					return
				}
				begun := time.Now()
				failed := rawStart(null, argv)
				mu.Lock()
				each = append(each, time.Since(begun))
				if failed != nil {
					err = failed
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return each, time.Since(begin), err
}

// rawPTY starts a program on a terminal. Go's poller watches the master. Source: pts(4).
func rawPTY(cmd *exec.Cmd) (master *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	var tty *os.File
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		var n int
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		master.Close()
		return nil, err
	}
	return master, nil
}

// rawPiped starts a program and returns the reading end of a pipe from its stdout.
func rawPiped(cmd *exec.Cmd) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout = w
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// rawEcho types n keys at a terminal. The program reads the keys and prints nothing, so the terminal
// makes the echo.
func (b *bench) rawEcho(n int) (times, error) {
	cmd := exec.CommandContext(b.ctx, "/bin/sh", "-c", silentReader)
	master, err := rawPTY(cmd)
	if err != nil {
		return nil, err
	}
	defer func() { master.Close(); cmd.Process.Kill(); cmd.Wait() }()
	return typeKeys(n, func(key []byte) error {
		if _, err := master.Write(key); err != nil {
			return err
		}
		_, err := master.Read(make([]byte, 2)) // the terminal echoes a newline as two bytes
		return err
	})
}

// silentReader keeps its terminal from filling up.
const silentReader = "exec cat >/dev/null"

// typeKeys types n keys, each after the echo of the previous. Now and then typeKeys types a newline
// without measuring the echo: a line of a terminal is limited to 4 KiB.
func typeKeys(n int, press func(key []byte) error) (times, error) {
	const warmUp = 50
	var each times
	for i := range warmUp + n {
		begin := time.Now()
		if err := press([]byte("k")); err != nil {
			return nil, err
		}
		if i >= warmUp {
			each = append(each, time.Since(begin))
		}
		if i%1000 == 999 {
			if err := press([]byte("\n")); err != nil {
				return nil, err
			}
		}
	}
	return each, nil
}

// rawRPC sends n small messages to a bare websocket server, each after the answer to the previous.
func (b *bench) rawRPC(n int) (each times, err error) {
	s, err := b.bare("websocket")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	c, err := b.dial(s.url+"/echo", subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	request := []byte(`{"id":1,"method":"environment/status"}`)
	return typeKeys(n, func(key []byte) error {
		if err := c.Send(request); err != nil {
			return err
		}
		_, err := c.ReadMessage()
		return err
	})
}

// rawPipeOutput returns how fast a producer's output can be read from a pipe, in MiB/s.
func (b *bench) rawPipeOutput(argv []string) (float64, error) {
	cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
	r, err := rawPiped(cmd)
	if err != nil {
		return 0, err
	}
	defer func() { r.Close(); cmd.Process.Kill(); cmd.Wait() }()
	raw, err := r.SyscallConn()
	if err != nil {
		return 0, err
	}
	raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, mib) })
	return b.drain(r)
}

// rawPTYOutput returns how fast a producer's output can be read from a terminal, in MiB/s.
func (b *bench) rawPTYOutput(argv []string) (float64, error) {
	cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
	master, err := rawPTY(cmd)
	if err != nil {
		return 0, err
	}
	defer func() { master.Close(); cmd.Process.Kill(); cmd.Wait() }()
	return b.drain(master)
}

const mib = 1 << 20

// drain returns how fast r can be read, in MiB/s.
func (b *bench) drain(r io.Reader) (float64, error) {
	buf := make([]byte, 256<<10)
	rate := b.throughput()
	for !rate.done() {
		n, err := r.Read(buf)
		if err != nil {
			return 0, err
		}
		rate.add(n)
	}
	return rate.mibPerSecond(), nil
}

// throughput counts bytes for a while. The time begins with the first bytes: another row measures the
// start of a program.
type throughput struct {
	while time.Duration
	bytes int64
	begin time.Time
	took  time.Duration
}

func (b *bench) throughput() *throughput {
	return &throughput{while: time.Duration(b.n(2000, 100)) * time.Millisecond}
}

func (t *throughput) add(n int) {
	if t.begin.IsZero() {
		t.begin = time.Now()
		return
	}
	t.bytes += int64(n)
	t.took = time.Since(t.begin)
}

func (t *throughput) done() bool { return t.took > t.while }

func (t *throughput) mibPerSecond() float64 { return float64(t.bytes) / mib / t.took.Seconds() }

// rawOutput returns how fast the output of a bare websocket server comes, in MiB/s of the payload.
func (b *bench) rawOutput(sub string, chunk int) (float64, error) {
	s, err := b.bare("websocket")
	if err != nil {
		return 0, err
	}
	defer s.stop()
	c, err := b.dial(fmt.Sprintf("%s/output/%s/%d", s.url, sub, chunk), sub)
	if err != nil {
		return 0, err
	}
	defer c.close()
	return b.receive(c)
}

// receive returns how fast output comes, in MiB/s.
func (b *bench) receive(c *client) (float64, error) {
	rate := b.throughput()
	err := c.receive(rate)
	return rate.mibPerSecond(), err
}

// receive counts output.
func (c *client) receive(rate *throughput) error {
	for !rate.done() {
		m, err := c.next()
		if err != nil {
			return err
		}
		if m.method != protocol.NotifyOutput {
			return fmt.Errorf("%s instead of output", m.method)
		}
		rate.add(len(m.chunk))
	}
	return nil
}
