package env

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

const (
	// idleWorkers is how many goroutines may wait for an actor to run; each has a stack of
	// some 8 KiB.
	idleWorkers = 16
	// throughput is after how many messages an actor lets others run; protoactor's.
	throughput = 300
)

// workers is a dispatcher: it runs actors that have messages. Protoactor's own starts a goroutine
// for that each time, whose stack is small and has to grow, and that costs more than
// most messages. Here a goroutine that has run one actor waits for the next.
type workers struct {
	next chan func()   // taken by one that waits
	over chan struct{} // closed: none waits any more
	idle atomic.Int32
}

// NewWorkers returns the dispatcher of all actors. Its idle goroutines end when over is closed.
func NewWorkers(over chan struct{}) actor.Dispatcher {
	return &workers{next: make(chan func()), over: over}
}

func (w *workers) Throughput() int { return throughput }

// Schedule never waits: an actor that finds no idle worker gets a new one.
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
