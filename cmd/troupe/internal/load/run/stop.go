//go:build unix

package run

import (
	"cmp"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/holder"
)

// Stops are the servers of this machine that chaos has stopped. The zero value is ready for a run; runs one after the other may share it.
type Stops struct {
	mu      sync.Mutex
	stopped []int       // pids
	timer   *time.Timer // continues them
	rec     *figures.Recorder
	ended   bool // by End
}

// stop stops servers for a time, unless some are stopped already.
func (s *Stops) stop(pids []int, d time.Duration, rec *figures.Recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stopped) > 0 || s.ended {
		return
	}
	s.rec = rec
	for _, pid := range pids {
		pid = cmp.Or(holder.ServerOf(pid), pid)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			rec.Error(fmt.Errorf("stop the server %d: %w", pid, err))
			continue
		}
		s.stopped = append(s.stopped, pid)
	}
	if len(s.stopped) > 0 {
		rec.Add(result.Stops, 1)
		s.timer = time.AfterFunc(d, s.proceed)
	}
}

// proceed continues the servers.
func (s *Stops) proceed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.stopped {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			s.rec.Error(fmt.Errorf("continue the server %d: %w", pid, err))
		}
	}
	if s.stopped = nil; s.timer != nil {
		s.timer.Stop()
	}
}

// End continues the servers, and lets nobody stop them any more. A program calls End before it exits in the middle of a run: nobody else
// would continue the servers.
func (s *Stops) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.proceed()
}
