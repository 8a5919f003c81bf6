package supervision

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Strategy supervises actors one for one. A failed child is restarted after Backoff. If Intensity is exceeded,
// the child is stopped, and its parent receives Terminated. Each decision is logged once. Any number of parents
// may share a Strategy, and each child counts for itself.
//
// We use no strategy of protoactor: its exponential backoff is linear, has no cap and never gives up.
type Strategy struct {
	Backoff   Backoff
	Intensity Intensity
	Log       *slog.Logger
	Counters  *Counters // nil: nobody counts

	mu      sync.Mutex
	tallies map[string]*Tally // by actor id, until the actor is given up or Forget is called
}

// Counters count the failures of all strategies with the same Counters.
type Counters struct{ Restarts, GivenUp atomic.Int64 }

func (c *Counters) add(one func(*Counters)) {
	if c != nil {
		one(c)
	}
}

// HandleFailure implements actor.SupervisorStrategy, and runs in the mailbox of the parent.
func (s *Strategy) HandleFailure(_ *actor.ActorSystem, parent actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	n, exceeded := s.failed(child.Id)
	_, message, _ = actor.UnwrapEnvelope(message)
	log := s.Log.With("actor", child.Id, "reason", fmt.Sprint(reason), "message", fmt.Sprintf("%T", message), "failures", n)
	if exceeded {
		s.Counters.add(func(c *Counters) { c.GivenUp.Add(1) })
		log.Error("actor failed too often, stopped", "limit", s.Intensity.Restarts, "period", s.Intensity.Period)
		parent.StopChildren(child)
		return
	}
	s.Counters.add(func(c *Counters) { c.Restarts.Add(1) })
	delay := s.Backoff.Delay(n, rand.Float64())
	log.Warn("actor failed, restarting", "delay", delay)
	if delay <= 0 {
		parent.RestartChildren(child)
		return
	}
	// The timer only sends a message, so any goroutine may run the timer. Names are never used again, so a late
	// message reaches no other actor.
	time.AfterFunc(delay, func() { parent.RestartChildren(child) })
}

func (s *Strategy) failed(id string) (n int, exceeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tallies[id]
	if t == nil {
		if s.tallies == nil {
			s.tallies = make(map[string]*Tally)
		}
		t = new(Tally)
		s.tallies[id] = t
	}
	if n, exceeded = t.Failed(time.Now(), s.Intensity); exceeded {
		delete(s.tallies, id)
	}
	return n, exceeded
}

// Forget drops the failures of a child. The parent calls Forget on Terminated.
func (s *Strategy) Forget(child *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tallies, child.Id)
}
