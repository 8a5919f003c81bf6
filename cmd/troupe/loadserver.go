//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

// A loadServer is a server that lives as long as a load run: a load must not disturb the programs of the user's own server.
type loadServer struct {
	*target.Started
	cmd *exec.Cmd
	dir *loadDir
}

const loadEndTime = 30 * time.Second // for the drain

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
	log, err := os.Create(filepath.Join(dir.path, "log"))
	if err != nil {
		dir.remove()
		return nil, err
	}
	defer log.Close()
	// If troupe load is killed, the server ends by itself: the sessions expire, and then the server is idle. The limits leave room for
	// sessions that are lost, viewers, and processes that have ended.
	cmd := exec.Command(self, "serve", "--listen", "unix://"+filepath.Join(dir.path, loadDirSocket), "--spool-dir", dir.path,
		"--exit-when-idle", "1m", "--detached-ttl", "2m", "--max-connections", atLeast(10_000, 20*p.Sessions),
		"--max-sessions", atLeast(10_000, 10*p.Sessions), "--max-processes", atLeast(100_000, 10*p.Processes))
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir.path) // its notes end with it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}       // ^C is for troupe load, which then ends the server
	started, err := target.Start(cmd, log, 0)
	if err != nil {
		dir.remove()
		return nil, err
	}
	s := &loadServer{started, cmd, dir}
	if err := s.Ready(ctx); err != nil {
		s.kill()
		return nil, fmt.Errorf("it %w", err)
	}
	return s, nil
}

func atLeast(n, m int) string { return strconv.Itoa(max(n, m)) }

// kill ends the server at once. Its programs end with it.
func (s *loadServer) kill() {
	s.cmd.Process.Kill()
	<-s.Ended
	s.dir.remove()
}

// stop ends the server. The error says that it had ended before, or did not end cleanly.
func (s *loadServer) stop() error {
	select {
	case <-s.Ended:
		defer s.dir.remove()
		return fmt.Errorf("the server ended during the run (%v): %s", s.Err, s.Log())
	default:
	}
	defer s.dir.remove()
	s.cmd.Process.Signal(syscall.SIGCONT) // chaos may have stopped it
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.Ended:
		if s.Err != nil {
			return fmt.Errorf("the server did not end cleanly (%w): %s", s.Err, s.Log())
		}
		return nil
	case <-time.After(loadEndTime):
		defer s.kill()
		return errors.New("the server did not end within " + loadEndTime.String() + " of SIGTERM, and was killed: " + s.Log())
	}
}
