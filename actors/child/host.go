package child

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// defaultSpawners is 2: two threads start 2,330 children a second, a single thread 1,770, four
// threads 2,390.
const defaultSpawners = 2

// Host starts children and ensures that no child outlives the Host, or the holder if there is one.
//
// The threads of a Host that fork end only when no child is left.
type Host struct {
	log             *slog.Logger
	fault           func(point string)
	trees           *trees.Trees
	noNewPrivs      bool
	completeSandbox bool
	hidden          []string
	places          *placeholder.Holder
	leaving         sync.WaitGroup // removals of placeholders
	null            *os.File
	order           *order
	sandboxes       sandboxTrials

	threads  pool
	lanes    chan *lane.Lane // that nobody uses
	spoolers chan struct{}   // has a token for each pump that may hold a lane while the disk writes: not for all lanes
	serving  pool            // of a Host with a holder: for children with Spec.Serve
	serve    sync.Once
	turns    *turns
	open     context.Context // of all starts: done when the host is closing
	stop     context.CancelCauseFunc
	starts   sync.WaitGroup // starts and questions that have no answer yet
	clean    chan struct{}  // closed when the leftovers of dead servers are gone, and there are threads; no start goes on before
	tidy     func()         // begins with what closes clean, once

	mu         sync.Mutex
	answerTime time.Duration // of new starts
	closing    bool          // there are no new starts
	live       map[*process]struct{}
	found      map[string]*found // by name: children of earlier programs that nobody has adopted
	strays     map[string]*stray // by name: those of found that nobody wants

	holder Holder // nil: there is none
	slots  *slots // of the holder

	close  sync.Once
	closed chan struct{} // closed when shutdown is over
	err    error         // of shutdown; read after closed
}

// NewHost starts the threads that fork. NewHost also kills the processes left behind by dead servers of this
// machine in the same kind of containment; with a holder they are killed soon after, or before the first start. Other processes stay untouched.
func NewHost(cfg HostConfig) (*Host, error) {
	h := &Host{
		log:             cfg.Log,
		fault:           cfg.Fault,
		noNewPrivs:      cfg.NoNewPrivs,
		completeSandbox: cfg.CompleteSandbox,
		hidden:          cfg.Hidden,
		lanes:           cfg.Lanes,
		spoolers:        make(chan struct{}, max(cap(cfg.Lanes)/2, 1)),
		answerTime:      cfg.AnswerTime,
		live:            make(map[*process]struct{}),
		found:           make(map[string]*found),
		strays:          make(map[string]*stray),
		holder:          cfg.Holder,
		clean:           make(chan struct{}),
		closed:          make(chan struct{}),
	}
	if h.answerTime <= 0 {
		h.answerTime = defaultAnswerTime
	}
	h.open, h.stop = context.WithCancelCause(context.Background())
	if h.log == nil {
		h.log = slog.Default()
	}
	var err error
	if h.null, err = os.Open(os.DevNull); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	mounts.Find("/", false) // opens the table of mounts, so that no start takes a descriptor that stays
	if h.slots, err = openSlots(cfg); err != nil {
		h.null.Close()
		return nil, fmt.Errorf("child: memory of starts: %w", err)
	}
	settings := trees.Config{Containment: cfg.Containment, Subreaper: cfg.Subreaper || h.holder != nil, Log: h.log, Runs: h.slots.runs()}
	if h.holder != nil {
		settings.Holder = h.holder
	}
	if h.trees, err = trees.New(settings); err != nil {
		h.slots.close()
		h.null.Close()
		return nil, fmt.Errorf("child: %w", err)
	}
	h.order = newOrder()
	h.places = h.openPlaces(cfg.StateDir)
	if cfg.Spawners <= 0 {
		cfg.Spawners = defaultSpawners
	}
	h.trees.Enclose() // for now none: this sets the limit of all children together
	desks := h.holder != nil && !h.trees.ByThread()
	if desks { // before Find opens descriptors: a desk has low ones
		h.fill(&h.threads, cfg.Spawners, true)
	}
	h.turns = newTurns(h.trees.Kept())
	h.trees.Find(func() { h.find(cfg.Found) })
	h.tidy = sync.OnceFunc(func() {
		if !desks {
			h.fill(&h.threads, cfg.Spawners, false)
		}
		if h.holder != nil {
			h.trees.EndLost() // a look at all processes of the machine
		}
		close(h.clean)
	})
	if h.holder == nil {
		h.tidy()
	} else {
		time.AfterFunc(tidyAfter, h.tidy) // until then clients get back what an earlier server has left
	}
	return h, nil
}

// tidyAfter is the time from the begin of a Host with a holder to the end of what dead servers have left. The first start does not wait for it.
const tidyAfter = 200 * time.Millisecond

// awaitTidy waits until starts may go on.
func (h *Host) awaitTidy() {
	select {
	case <-h.clean:
	default:
		h.tidy() // or waits for whoever is doing it
	}
}

// fill gives a pool its forkers.
func (h *Host) fill(p *pool, n int, desks bool) {
	p.free = make(chan *forker, n)
	var tids []int
	for range n {
		f, err := newForker(desks)
		if err != nil {
			h.log.Debug("each start copies the table of open files", "err", err)
		}
		tids = append(tids, f.ID)
		p.free <- f
	}
	h.trees.Enclose(tids...)
}

// poolFor returns the pool for a child. A child that serves files dies with a thread of this program.
func (h *Host) poolFor(spec *Spec) *pool {
	if h.holder == nil || spec.Serve == nil {
		return &h.threads
	}
	h.serve.Do(func() { h.fill(&h.serving, 1, false) })
	return &h.serving
}

// Containment is the method used for all children of this host.
func (h *Host) Containment() Containment { return h.trees.Containment() }

// Allows returns an ErrLimitRefused for limits impossible on this system. The system may still
// refuse an allowed limit at the start.
func (h *Host) Allows(limits protocol.ProcessLimits) error { return h.trees.Allows(limits) }

// ChildLimit is how many processes and threads all children together may have. limit 0 means: there
// is no limit, or the server did not set the limit. why says why the children's limit leaves too
// few processes for the server; "" means: enough are left.
func (h *Host) ChildLimit() (limit int64, why string) { return h.trees.Limit() }

// Threads is how many threads may hang in blocking calls outside of Hosts. The limit for children
// leaves room for these threads.
func (h *Host) Threads() int { return h.trees.Kept() / 2 }

// Live is the number of started, unreleased children.
func (h *Host) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}
