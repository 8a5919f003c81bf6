package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A loadServer is a server that lives as long as a load run: a load must not disturb the programs of the user's own server.
type loadServer struct {
	url string
	pid int

	cmd   *exec.Cmd
	dir   *loadDir
	ended chan struct{} // closed when the server has ended; err is set then
	err   error
}

const (
	loadStartTime = 30 * time.Second
	loadEndTime   = 30 * time.Second // for the drain
)

// startLoadServer starts a server for the plan p.
func startLoadServer(ctx context.Context, p *plan.Plan) (_ *loadServer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start a server for the load: %w", err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := newLoadDir()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			dir.remove()
		}
	}()
	log, err := os.Create(filepath.Join(dir.path, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ready, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	s := &loadServer{dir: dir, ended: make(chan struct{})}
	// If troupe load is killed, the server ends by itself: the sessions expire, and then the server is idle. The limits leave room for
	// sessions that are lost, viewers, and processes that have ended.
	s.cmd = exec.Command(self, "serve", "--listen", "unix://"+filepath.Join(dir.path, loadDirSocket), "--spool-dir", dir.path,
		"--exit-when-idle", "1m", "--detached-ttl", "2m", "--max-connections", atLeast(10_000, 20*p.Sessions),
		"--max-sessions", atLeast(10_000, 10*p.Sessions), "--max-processes", atLeast(100_000, 10*p.Processes))
	s.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir.path) // its notes end with it
	s.cmd.Stdout, s.cmd.Stderr = told, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C is for troupe load, which then ends the server
	err = s.cmd.Start()
	told.Close()
	if err != nil {
		return nil, err
	}
	s.pid = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(io.LimitReader(ready, 4<<10)).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	fail := func(why string) (*loadServer, error) {
		s.cmd.Process.Kill()
		<-s.ended
		return nil, fmt.Errorf("%s: %s", why, s.log())
	}
	select {
	case s.url = <-line:
		if s.url == "" {
			return fail("it ended at once")
		}
		return s, nil
	case <-ctx.Done():
		s.kill()
		return nil, context.Cause(ctx)
	case <-time.After(loadStartTime):
		return fail(fmt.Sprintf("it was not ready after %v", loadStartTime))
	}
}

func atLeast(n, m int) string { return strconv.Itoa(max(n, m)) }

// log returns the last lines of the server's log as one line.
func (s *loadServer) log() string {
	const most = 2 << 10
	f, err := os.Open(filepath.Join(s.dir.path, "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	_, err = f.Seek(-most-1, io.SeekEnd) // and the byte before, which may end a line
	cut := err == nil                    // otherwise the log is shorter
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err.Error()
	}
	if _, lines, ok := bytes.Cut(data, []byte("\n")); ok && cut {
		data = lines
	}
	text := strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "; ")
	if text == "" {
		return "it logged nothing"
	}
	return show.Harmless(text)
}

// kill ends the server at once. Its programs end with it.
func (s *loadServer) kill() {
	s.cmd.Process.Kill()
	<-s.ended
	s.dir.remove()
}

// stop ends the server. The error says that it had ended before, or did not end cleanly.
func (s *loadServer) stop() error {
	select {
	case <-s.ended:
		defer s.dir.remove()
		return fmt.Errorf("the server ended during the run (%v): %s", s.err, s.log())
	default:
	}
	defer s.dir.remove()
	s.cmd.Process.Signal(syscall.SIGCONT) // chaos may have stopped it
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		if s.err != nil {
			return fmt.Errorf("the server did not end cleanly (%w): %s", s.err, s.log())
		}
		return nil
	case <-time.After(loadEndTime):
		defer s.kill()
		return errors.New("the server did not end within " + loadEndTime.String() + " of SIGTERM, and was killed: " + s.log())
	}
}
