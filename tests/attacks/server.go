package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// These are timeouts, not measurements: what comes later, on a busy machine too, would never come.
const (
	// answerWithin is how long the server may take for a request that need not wait.
	answerWithin = time.Minute
	// stopWithin is how long a server may take to end after SIGTERM.
	stopWithin = time.Minute
	// attackWithin is how long an attack may take.
	attackWithin = 5 * time.Minute
)

// serverEnv is the whole environment of a server. Values with "hush" are secrets.
var serverEnv = []string{
	"HOME=/home/user", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh",
	"SOME_TOKEN=hush", "DB_PASSWORD=hush", "DATABASE_URL=postgres://u:hush@db/x",
}

// A server is a running `troupe serve`.
type server struct {
	cmd    *exec.Cmd
	url    string // the first line of stdout
	stderr tap
	serves int           // the process that has printed url; 0: none has
	exited chan struct{} // closed once the server and its holder have ended
}

// tap counts the bytes written to it, keeps the first and the last bytes, and collects lines that only
// a bug can cause.
type tap struct {
	mu          sync.Mutex
	bytes       int64
	lines       int64
	first, last []byte
	alarming    []byte
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += int64(len(p))
	t.lines += int64(bytes.Count(p, []byte("\n")))
	t.first = append(t.first, p[:min(len(p), 16<<10-len(t.first))]...)
	t.last = append(t.last, p...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-16<<10):])
	for line := range bytes.Lines(p) {
		for _, word := range []string{"panic", "fatal error", "runtime:", "DATA RACE"} {
			if bytes.Contains(line, []byte(word)) && len(t.alarming) == 0 {
				t.alarming = bytes.Clone(line[:min(len(line), 400)])
			}
		}
	}
	return len(p), nil
}

func (t *tap) alarm() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.alarming))
}

func (t *tap) size() (bytes, lines int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes, t.lines
}

func (t *tap) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// serve starts a server, and waits for its address. configure changes the command, and may be nil. The server and its programs can write only to t.dir, to
// a /tmp of their own, and to what testroot.Confine names: a wrong path in an attack, or a fault of the server, changes nothing else.
func (t *target) serve(configure func(*exec.Cmd), args ...string) (*server, error) {
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		args = append([]string{"--listen", "ws://127.0.0.1:0"}, args...)
	}
	s := &server{cmd: exec.Command(t.binary, append([]string{"serve"}, args...)...), exited: make(chan struct{})}
	s.cmd.Env = append(slices.Clone(serverEnv), "XDG_RUNTIME_DIR="+filepath.Join(t.dir, "runtime"))
	s.cmd.Dir = "/"
	// Pdeathsig kills the server when the thread that started it ends. No thread of this program ends
	// before the program.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = &s.stderr
	if configure != nil {
		configure(s.cmd)
	}
	if err := testroot.ConfineIn(t.tmp, s.cmd, t.dir); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	if err != nil {
		s.kill()
		return nil, fmt.Errorf("%s printed no address: %w\n%s", s.cmd, err, s.stderr.String())
	}
	s.url = strings.TrimSpace(line)
	s.serves = cmp.Or(holder.ServerOf(s.holder()), s.holder())
	return s, nil
}

// pid returns the process of the server.
func (s *server) pid() int { return s.serves }

// holder returns the process that holds the programs of the server.
func (s *server) holder() int { return s.cmd.Process.Pid }

// seen returns a path by which this program reaches a file as the server sees it: perhaps on a disk that only the server has.
func (s *server) seen(path string) string { return fmt.Sprintf("/proc/%d/root%s", s.pid(), path) }

// alive reports whether the server lives. A server that has died is not alive, although its holder has started the next one.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return s.serves == 0 || syscall.Kill(s.serves, 0) == nil
	}
}

func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

// stop sends SIGTERM and expects exit code 0 within stopWithin.
func (s *server) stop() error {
	if !s.alive() {
		return fmt.Errorf("the server has ended: %v: %s", s.cmd.ProcessState, s.reason())
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopWithin):
		s.cmd.Process.Kill()
		return fmt.Errorf("SIGTERM did not end the server within %v", stopWithin)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("after SIGTERM the server exited with %d", code)
	}
	return nil
}

// reason returns the line of stderr that best explains an unexpected end.
func (s *server) reason() string {
	if line := s.stderr.alarm(); line != "" {
		return line
	}
	lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
	return lines[len(lines)-1]
}
