//go:build unix

package run

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/holder"
)

// kills are the kills of servers of this machine by the chaos. Any goroutine may call since.
type kills struct {
	mu    sync.Mutex
	begun bool      // a killed server has not ended yet
	last  time.Time // the end of the server killed last
}

// kill kills the server of each holder, and waits for its end. A holder that has no server at the moment is left out.
func (k *kills) kill(holders []int, rec *figures.Recorder) {
	for _, parent := range holders {
		server := holder.ServerOf(parent)
		if server == 0 {
			continue
		}
		k.set(true)
		if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
			rec.Error(fmt.Errorf("kill the server %d: %w", server, err))
		} else {
			rec.Add(result.ServerKills, 1)
			for end := time.Now().Add(goneWithin); holder.ServerOf(parent) == server && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
		k.set(false)
	}
}

func (k *kills) set(begun bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun, k.last = begun, time.Now()
}

// since reports whether a server has been killed since t, and may have had a connection from t.
func (k *kills) since(t time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.begun || k.last.After(t)
}
