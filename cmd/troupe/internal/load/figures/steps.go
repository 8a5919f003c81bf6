//go:build unix

package figures

import (
	"fmt"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/usage"
)

// Steps calls Step each second with the use of the servers, until the caller calls end, and once more then. Meanwhile nobody else may use
// the meters.
func (r *Recorder) Steps(servers []usage.Meter) (end func()) {
	done := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for over := false; !over; {
			select {
			case <-t.C:
			case <-done:
				over = true
			}
			r.Step(r.Use(servers))
		}
	})
	return func() {
		close(done)
		loop.Wait()
	}
}

// Use reads the meters of the servers. If a meter fails, its element is zero, and a note says so.
func (r *Recorder) Use(servers []usage.Meter) (used []result.Usage) {
	for i, m := range servers {
		u, err := m.Read()
		if err != nil {
			r.Note(fmt.Sprintf("server %d could not be measured at some moments: %v", i+1, err))
		}
		used = append(used, u)
	}
	return used
}
