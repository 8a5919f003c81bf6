package process

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
)

// minProbeEvery is the shortest time between two probes where starts have a rate.
const minProbeEvery = time.Second

// memory bounds the output that the process holds in memory: the share of its owner key, or the server's.
func (r *processRecord) memory() *budget.Output {
	if r.place != nil && r.place.Memory != nil {
		return r.place.Memory
	}
	return r.env.OutputBudget
}

// disk bounds the output that the process holds on disk: the share of its owner key, or the server's.
func (r *processRecord) disk() *spool.Disk {
	if r.place != nil && r.place.Disk != nil {
		return r.place.Disk
	}
	return r.env.Disk
}

// leastProbeEvery returns the least time between two probes of the process. Probes are no starts,
// and a rate of starts would not bind a client whose probes follow each other at once.
func (r *processRecord) leastProbeEvery() time.Duration {
	if r.place.Rated() {
		return minProbeEvery
	}
	return 0
}
