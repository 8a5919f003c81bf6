package process

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// minProbeEvery is the shortest time between two probes where starts have a rate.
const minProbeEvery = time.Second

// place is the place of a process among the running processes of its owner key.
type place struct{ in *quota.Place }

func placeOf(p *quota.Place) *place {
	if p == nil {
		return nil
	}
	return &place{in: p}
}

// memory bounds the output that the process holds in memory: the share of its owner key, or the server's.
func (p *place) memory(e *env.Env) *budget.Output {
	if p != nil && p.in.Memory != nil {
		return p.in.Memory
	}
	return e.OutputBudget
}

// disk bounds the output that the process holds on disk: the share of its owner key, or the server's.
func (p *place) disk(e *env.Env) *spool.Disk {
	if p != nil && p.in.Disk != nil {
		return p.in.Disk
	}
	return e.Disk
}

// leave frees the place. Any goroutine may call leave, repeatedly. A nil place is free.
func (p *place) leave() {
	if p != nil {
		p.in.Leave()
	}
}

// paced returns when another run may start: at the time now, or later. A nil place may start at once.
func (p *place) paced(now time.Time) time.Time {
	if p == nil {
		return now
	}
	return p.in.Paced(now)
}

// restarted counts a run after the first.
func (p *place) restarted() {
	if p != nil {
		p.in.Restarted(time.Now())
	}
}

// leastProbeEvery returns the least time between two probes of a process. Probes are no starts,
// and a rate of starts would not bind a client whose probes follow each other at once.
func (p *place) leastProbeEvery() time.Duration {
	if p != nil && p.in.Rated() {
		return minProbeEvery
	}
	return 0
}

// again takes the place again for a run after the end, or says why there is no room. A nil place has room.
func (p *place) again() *protocol.Error {
	if p == nil {
		return nil
	}
	return p.in.TryReturn()
}

// back takes the place again for descendants of a closed process. A nil place does nothing.
func (p *place) back() {
	if p != nil {
		p.in.Return()
	}
}
