//go:build unix

package figures

import (
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// hiccupEvery is how often the load generator looks how late its timers fire.
const hiccupEvery = 10 * time.Millisecond

// hiccups measures how late a timer of this program fires, until stop is closed. Go's scheduler, its garbage collector, or a lack of CPU
// make timers late. Only a single timer runs at a time, so for a stop of a second Latency adds the delays of the other timers due in that
// second. (As jHiccup does.)
func (r *Recorder) hiccups(stop, stopped chan struct{}) {
	defer close(stopped)
	due := time.Now().Add(hiccupEvery)
	timer := time.NewTimer(hiccupEvery)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		r.Latency(result.Hiccup, now.Sub(due), hiccupEvery)
		due = now.Add(hiccupEvery)
		timer.Reset(hiccupEvery)
	}
}
