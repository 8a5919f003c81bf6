//go:build unix

package figures

import (
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// The limits for the note that a server keeps more and more memory.
const (
	growthAfter  = time.Minute // a shorter load says nothing: a server needs more memory at the begin of a load
	growthFactor = 1.25
	growthBytes  = 16 << 20
	sameLoad     = 1.05 // so many times the sessions or processes are no more load

	// Up to its retention, a server keeps the last output of each process, also output that the owner has acknowledged. With Go's collector, output
	// takes twice its memory.
	retention      = 1 << 20
	retentionEntry = 128 // bytes beside the output of an event
	retentionTakes = 2
)

// growth names the servers that used more memory at the end of the load than in its first half, with the same phase, sessions and processes.
// growth subtracts the output that the servers have kept in the meantime.
func growth(r *result.Result) []string {
	loaded := r.Loaded()
	n := len(loaded)
	if n < 8 || loaded[n-1].At+loaded[n-1].Took-loaded[0].At < growthAfter || loaded[n/4].Phase != loaded[n-1].Phase {
		return nil
	}
	early, late := loaded[n/4:n/2], loaded[n-n/4:]
	sessions := func(s *result.Second) int64 { return int64(s.Sessions) }
	processes := func(s *result.Second) int64 { return int64(s.Processes) }
	if mean(late, sessions) > sameLoad*mean(early, sessions) || mean(late, processes) > sameLoad*mean(early, processes) {
		return nil
	}
	kept := func(n int) float64 { // after n steps
		var sum int64
		for _, s := range loaded[:n] {
			sum += s.Counts[result.CheckedBytes] + retentionEntry*s.Counts[result.Events]
		}
		return min(float64(sum), retention*mean(late, processes))
	}
	room := growthBytes + retentionTakes*(kept(n-n/8)-kept(n*3/8)) // from the middle of early to the middle of late
	var notes []string
	for i := range loaded[n-1].Servers {
		memory := func(s *result.Second) int64 {
			if i < len(s.Servers) {
				return s.Servers[i].Memory
			}
			return 0
		}
		before, after := mean(early, memory), mean(late, memory)
		if before > 0 && after > growthFactor*before+room {
			notes = append(notes, fmt.Sprintf("The memory of server %d grows: it was %s in the second quarter of the load and %s in the last one, with no more sessions or processes. "+
				"Run longer to see whether the memory keeps growing.", i+1, show.Bytes(int64(before)), show.Bytes(int64(after))))
		}
	}
	return notes
}

// mean returns the mean of all values but 0: a value of 0 is not known. Without any value, mean returns 0.
func mean(steps []result.Second, of func(*result.Second) int64) float64 {
	var sum, n int64
	for i := range steps {
		if v := of(&steps[i]); v != 0 {
			sum, n = sum+v, n+1
		}
	}
	return float64(sum) / float64(max(n, 1))
}
