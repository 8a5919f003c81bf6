package child

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// defaultSpawners is 2: two threads start 2,330 children a second, a single thread 1,770, four
// threads 2,390.
const defaultSpawners = 2

// Host starts children and ensures that no child outlives the Host.
//
// The threads of a Host that fork end only when no child is left.
type Host struct {
	log             *slog.Logger
	fault           func(point string)
	containment     containment
	noNewPrivs      bool
	completeSandbox bool
	hidden          []string
	places          *placeholder.Holder
	leaving         sync.WaitGroup // removals of placeholders
	spare           *spare
	null            *os.File
	exits           *exits
	order           *order
	room            room
	stopReaper      func() error
	// endAll is called when all trees end: see searches.endAll.
	endAll    func()
	looking   sync.WaitGroup // goroutines that search for descendants
	begun     chan struct{}  // capacity 1; full: a child was started
	fence     *fence
	reaped    atomic.Int64 // strangers, by the reaper
	sandboxes sandboxTrials

	forkers chan *forker // those that no start uses
	turns   *turns
	open    context.Context // of all starts: done when the host is closing
	stop    context.CancelCauseFunc
	starts  sync.WaitGroup // starts and questions that have no answer yet

	// forking is read-locked from a fork until its child is in unborn. The reaper of strangers takes
	// the write lock, so as not to mistake our own new child for a stranger.
	forking sync.RWMutex

	mu         sync.Mutex
	answerTime time.Duration    // of new starts
	unborn     map[int]struct{} // pids of children that have not executed their program yet
	closing    bool             // there are no new starts
	live       map[*process]struct{}

	close  sync.Once
	closed chan struct{} // closed when shutdown is over
	err    error         // of shutdown; read after closed
}

// NewHost starts the threads that fork. NewHost also kills the processes left behind by dead servers of this
// machine in the same kind of containment. Other processes stay untouched.
func NewHost(cfg HostConfig) (*Host, error) {
	h := &Host{
		log:    cfg.Log,
		fault:  cfg.Fault,
		unborn: make(map[int]struct{}),
		live:   make(map[*process]struct{}),
		closed: make(chan struct{}),
		begun:  make(chan struct{}, 1),
	}
	h.noNewPrivs = cfg.NoNewPrivs
	h.completeSandbox = cfg.CompleteSandbox
	h.hidden = cfg.Hidden
	if h.answerTime = cfg.AnswerTime; h.answerTime <= 0 {
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
	// newExits makes the runtime open its poller; newSpare needs an open poller.
	if h.exits, err = newExits(); err != nil {
		h.null.Close()
		return nil, fmt.Errorf("child: %w", err)
	}
	h.order = newOrder()
	h.spare = newSpare(h.log)
	h.places = h.openPlaces(cfg.StateDir)
	if h.containment, err = h.newContainment(cfg); err != nil {
		h.places.Close()
		h.spare.close()
		h.order.close()
		h.exits.close()
		h.null.Close()
		return nil, fmt.Errorf("child: %w", err)
	}
	h.fence = newFence(h.containment, h.log)
	h.room = newRoom()
	h.stopReaper = func() error { return nil }
	if cfg.Subreaper {
		h.stopReaper = h.startReaper()
	}
	if cfg.Spawners <= 0 {
		cfg.Spawners = defaultSpawners
	}
	h.forkers = make(chan *forker, cfg.Spawners)
	for range cfg.Spawners {
		f, err := newForker()
		if err != nil {
			h.log.Debug("each start copies the table of open files", "err", err)
		}
		h.fence.enclose(f.ID)
		h.forkers <- f
	}
	h.fence.check(h.room) // sets the limit
	h.turns = newTurns(int(h.fence.kept(h.room)))
	return h, nil
}

// Containment is the method used for all children of this host.
func (h *Host) Containment() Containment { return h.containment.kind() }

// Allows returns an ErrLimitRefused for limits impossible on this system. The system may still
// refuse an allowed limit at the start.
func (h *Host) Allows(limits protocol.ProcessLimits) error { return h.containment.allows(limits) }

// ChildLimit is how many processes and threads all children together may have. limit 0 means: there
// is no limit, or the server did not set the limit. why says why the children's limit leaves too
// few processes for the server; "" means: enough are left.
func (h *Host) ChildLimit() (limit int64, why string) { return h.fence.told() }

// Threads is how many threads may hang in blocking calls outside of Hosts. The limit for children
// leaves room for these threads.
func (h *Host) Threads() int { return int(h.fence.kept(h.room)) / 2 }

// Live is the number of started, unreleased children.
func (h *Host) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// backoff is the length of the last pause. Each pause is half as long again as the last.
type backoff time.Duration

const (
	minBackoff = backoff(200 * time.Microsecond)
	maxBackoff = backoff(100 * time.Millisecond)
)

func (b *backoff) wait() {
	*b = min(max(*b*3/2, minBackoff), maxBackoff)
	time.Sleep(time.Duration(*b))
}
