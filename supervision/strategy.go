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

// Strategy supervises actors one for one: a failed child is restarted after
// Backoff, and stopped for good once Intensity is exceeded. Its parent then
// hears Terminated. Every decision is logged once. It may be used by any number
// of parents at once, and each child counts for itself.
//
// protoactor's own strategies are not used: their exponential backoff is
// linear, without cap, and never gives up.
type Strategy struct {
	Backoff   Backoff
	Intensity Intensity
	Log       *slog.Logger
	Counters  *Counters // nil: nobody counts

	mu      sync.Mutex
	tallies map[string]*Tally // by actor id; an entry goes when it is given up or Forget is called
}

// Counters are of all failures that the strategies which share them decided about.
type Counters struct{ Restarts, GivenUp atomic.Int64 }

func (c *Counters) add(one func(*Counters)) {
	if c != nil {
		one(c)
	}
}

// HandleFailure implements actor.SupervisorStrategy. It runs in the mailbox of
// the parent.
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
	// It only sends a message, so any goroutine may; names are never used again,
	// so a late one reaches nobody else.
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

// Forget drops what is remembered of a child that is gone. Its parent calls it
// on Terminated.
func (s *Strategy) Forget(child *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tallies, child.Id)
}
