package process

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/process/life"
)

// placePause is the time between two looks for descendants that keep the place of a closed process.
const placePause = 200 * time.Millisecond

// minProbeEvery is the shortest time between two probes where starts have a rate.
const minProbeEvery = time.Second

// place is the place of a process among the running processes of its owner key.
type place struct {
	in     *quota.Place
	lookAt env.Alarm // set after LogClosed while descendants live
}

func placeOf(p *quota.Place) *place {
	if p == nil {
		return nil
	}
	return &place{in: p}
}

// budget bounds the output that the process holds in memory: the share of its owner key, or the server's.
func (r *processRecord) budget() *child.Budget {
	if r.place != nil && r.place.in.Memory != nil {
		return r.place.in.Memory
	}
	return r.env.OutputBudget
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

// probeEvery returns the time between two probes of a process whose client asks for every. Probes are no starts,
// and a rate of starts would not bind a client whose probes follow each other at once.
func (p *place) probeEvery(every time.Duration) time.Duration {
	if p != nil && p.in.Rated() {
		return max(every, minProbeEvery)
	}
	return every
}

// vacate gives the place back when the log is closed, before a client is told. The server may know only later
// that no descendant is left. So vacate looks again, and descendants that live take the place again.
func (p *process) vacate(ctx actor.Context, again bool) {
	if p.place == nil || p.life.Phase() < life.Closed {
		return
	}
	p.place.lookAt.Cancel()
	h := p.handleNow()
	empty := h == nil || h.TreeEmpty()
	if empty || !again {
		p.place.in.Leave()
	} else {
		p.place.in.Return()
	}
	if !empty {
		p.place.lookAt.Set(ctx, placePause, placeDue{})
	}
}
