package supervision

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// A parent writes down what becomes of its children.
type parent struct {
	actor.Supervisor
	did []string
}

func (p *parent) RestartChildren(pids ...*actor.PID) { p.did = append(p.did, "restart "+pids[0].Id) }
func (p *parent) StopChildren(pids ...*actor.PID)    { p.did = append(p.did, "stop "+pids[0].Id) }

// Each child counts for itself, until it is stopped or forgotten, and all strategies add to the same Counters.
func TestStrategy(t *testing.T) {
	counters := new(Counters)
	s := &Strategy{Intensity: Intensity{Restarts: 1, Period: time.Hour}, Log: slog.New(slog.DiscardHandler), Counters: counters}
	p, a, b := new(parent), actor.NewPID("here", "a"), actor.NewPID("here", "b")
	fails := func(child *actor.PID) { s.HandleFailure(nil, p, child, nil, "broken", "a message") }
	fails(a)
	fails(b)
	s.Forget(b)
	fails(b)
	fails(a) // too often
	if got, want := strings.Join(p.did, ", "), "restart a, restart b, restart b, stop a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if restarts, given := counters.Restarts.Load(), counters.GivenUp.Load(); restarts != 3 || given != 1 {
		t.Errorf("%d restarts and %d given up, want 3 and 1", restarts, given)
	}
	s.Forget(b)
	if len(s.tallies) > 0 {
		t.Errorf("the strategy remembers %d children, and none is left", len(s.tallies))
	}
}
