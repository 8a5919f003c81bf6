package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// program is a server under measurement: troupe, or a bare server in a child mode.
type program struct {
	b      *bench
	cmd    *exec.Cmd
	url    string // the first line of stdout
	stderr tail
}

// tail keeps the last 4 KiB written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-4<<10):]
	return len(p), nil
}

// serve starts a troupe server.
func (b *bench) serve() (*program, error) {
	return b.serveWith("--closed-retention", "2s", // short, because the number of processes in a session is limited
		"--kill-grace", "0")
}

// serveWith starts a troupe server with flags.
func (b *bench) serveWith(flags ...string) (*program, error) {
	return b.start(b.troupe, append([]string{"serve", "--listen", "ws://127.0.0.1:0"}, flags...)...)
}

// bare starts a child mode of this program.
func (b *bench) bare(args ...string) (*program, error) {
	return b.start(b.self, append([]string{childArg}, args...)...)
}

func (b *bench) start(path string, args ...string) (*program, error) {
	p := &program{b: b, cmd: exec.CommandContext(b.ctx, path, args...)}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopWithin
	p.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+b.dir) // otherwise a server leaves /tmp/troupe-UID
	// Pdeathsig kills the server when the thread that started it ends. No thread ends before this
	// program.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: its first line: %w\n%s", p.cmd, err, p.stderr.data)
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

// stopWithin is how long a server may take to end.
const stopWithin = 20 * time.Second

// stop ends the server and waits for the end. If troupe fails to stop, stop prints the failure, and the
// row does not fail.
func (p *program) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopWithin, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil && p.b.ctx.Err() == nil && p.cmd.Path == p.b.troupe {
		fmt.Fprintf(p.b.progress, "%s: %v\n%s", p.cmd, err, p.stderr.data)
	}
}

func (p *program) pid() int { return p.cmd.Process.Pid }
