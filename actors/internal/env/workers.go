package env

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

const (
	// idleWorkers bounds the goroutines without an actor to run. Each has a stack of some 8 KiB.
	idleWorkers = 16
	// throughput is how many messages an actor may handle before others run. As in protoactor.
	throughput = 300
)

// workers is a dispatcher: it runs actors with messages. Protoactor's own dispatcher starts a
// goroutine each time, and growing the small stack of a new goroutine costs more than most messages. Here
// a goroutine waits for the next actor when it has run an actor.
type workers struct {
	next chan func()   // taken by an idle goroutine
	over chan struct{} // closed: the idle goroutines end
	idle atomic.Int32  // waiting goroutines, idleWorkers at most
}

// NewWorkers returns the dispatcher of all actors. Its idle goroutines end when over is closed.
func NewWorkers(over chan struct{}) actor.Dispatcher {
	return &workers{next: make(chan func()), over: over}
}

// Throughput implements actor.Dispatcher.
func (w *workers) Throughput() int { return throughput }

// Schedule implements actor.Dispatcher. Schedule never waits: if no goroutine is idle, a new goroutine runs the actor.
func (w *workers) Schedule(run func()) {
	select {
	case w.next <- run:
	default:
		go w.work(run)
	}
}

func (w *workers) work(run func()) {
	for {
		run()
		if w.idle.Add(1) > idleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case run = <-w.next:
			w.idle.Add(-1)
		case <-w.over:
			return
		}
	}
}
