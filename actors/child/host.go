package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// defaultSpawners: two start 2,330 a second, one 1,770, four 2,390.
const defaultSpawners = 2

// Host starts children and sees to it that none outlives it.
//
// Its spawners, each with a thread that forks, end only when no child is left.
type Host struct {
	log         *slog.Logger
	fault       func(point string)
	containment containment
	null        *os.File
	exits       *exits
	room        room
	stopReaper  func()

	// forking is held from a fork until its child is in live. Who reaps strangers
	// holds all of it: it must not take our own children for some.
	forking sync.RWMutex

	mu      sync.Mutex
	work    sync.Cond // broadcast on changes of jobs, busy, closing and done
	jobs    []job     // bounded by the callers: one for each process
	busy    int       // spawners with a job
	closing bool      // no job is accepted any more
	done    bool      // no child is left: spawners end
	live    map[*process]struct{}

	close  sync.Once
	closed chan struct{} // closed when shutdown is over
	err    error         // of shutdown; read after closed
}

type job struct {
	spec Spec
	in   *Intake
	done func(Handle, error)
}

// NewHost starts the spawners. It also kills what servers of this machine that
// are no more left behind in the containment it uses, and nothing else.
func NewHost(cfg HostConfig) (*Host, error) {
	h := &Host{
		log:    cfg.Log,
		fault:  cfg.Fault,
		live:   make(map[*process]struct{}),
		closed: make(chan struct{}),
	}
	h.work.L = &h.mu
	if h.log == nil {
		h.log = slog.Default()
	}
	var err error
	if h.null, err = os.Open(os.DevNull); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	if h.containment, err = newContainment(cfg, h.log); err != nil {
		h.null.Close()
		return nil, fmt.Errorf("child: %w", err)
	}
	if h.exits, err = newExits(); err != nil {
		return nil, errors.Join(fmt.Errorf("child: %w", err), h.containment.close(), h.null.Close())
	}
	h.room = newRoom()
	h.stopReaper = func() {}
	if cfg.Subreaper {
		h.stopReaper = h.startReaper()
	}
	if cfg.Spawners <= 0 {
		cfg.Spawners = defaultSpawners
	}
	for range cfg.Spawners {
		f, err := newForker()
		if err != nil {
			h.log.Debug("each start copies the table of open files", "err", err)
		}
		go h.spawner(f)
	}
	return h, nil
}

// Containment is the one that all children of this host get.
func (h *Host) Containment() Containment { return h.containment.kind() }

// Allows returns an ErrLimitRefused for limits that no child can have here. Others
// the system may still refuse at the start.
func (h *Host) Allows(limits protocol.ProcessLimits) error { return h.containment.allows(limits) }

// Live is how many children were started and not yet released.
func (h *Host) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// Start starts a child and calls done with it, or with the reason why not,
// before anything of the child reaches in. done runs on a spawner and must not
// block. Start never blocks either: it is for the caller to have one start
// outstanding for each process.
func (h *Host) Start(spec Spec, in *Intake, done func(Handle, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		go done(nil, ErrClosed)
		return
	}
	h.jobs = append(h.jobs, job{spec, in, done})
	h.work.Broadcast()
}

func (h *Host) spawner(f *forker) {
	defer f.close()
	for {
		j, ok := h.next()
		if !ok {
			return
		}
		if p, err := h.trySpawn(f, &j); err != nil {
			j.done(nil, err)
		} else {
			j.done(p, nil)
			p.watch()
		}
		h.mu.Lock()
		h.busy--
		h.work.Broadcast()
		h.mu.Unlock()
	}
}

func (h *Host) next() (j job, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.jobs) == 0 {
		if h.done {
			return job{}, false
		}
		h.work.Wait()
	}
	j = h.jobs[0]
	h.jobs[0] = job{}
	h.jobs = h.jobs[1:]
	h.busy++
	return j, true
}

// trySpawn is spawn, and takes a panic for a failed start.
func (h *Host) trySpawn(f *forker, j *job) (_ *process, err error) {
	defer func() {
		if r := recover(); r != nil {
			h.log.Error("panic recovered", "in", "spawner", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("child: internal error in the start of %q", j.spec.Argv)
		}
	}()
	return h.spawn(f, &j.spec, j.in)
}

// spawn forks and executes spec. When it fails it leaves nothing behind.
func (h *Host) spawn(f *forker, spec *Spec, in *Intake) (_ *process, err error) {
	path, err := program(spec)
	if err != nil {
		return nil, err
	}
	if err := h.Allows(spec.Limits); err != nil {
		return nil, err
	}
	if err := h.room.check(); err != nil {
		return nil, err
	}
	if err := in.OpenSpool(); err != nil {
		return nil, descriptorError(err)
	}
	ends, err := h.open(spec)
	if err != nil {
		return nil, err
	}
	defer ends.closeTheirs()
	defer func() {
		if err != nil {
			ends.closeOurs()
		}
	}()
	tree, err := h.containment.tree(spec.Name, spec.Limits)
	if err != nil {
		return nil, fmt.Errorf("containment: %w", err)
	}
	defer func() {
		if err != nil {
			if rmErr := tree.remove(); rmErr != nil {
				h.log.Warn("containment of a failed start was not removed", "name", spec.Name, "err", rmErr)
			}
		}
	}()

	argv := append([]string(nil), spec.Argv...)
	if spec.Arg0 != nil {
		argv[0] = *spec.Arg0
	}
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY}
	p := &process{host: h, in: in, tree: tree, tty: spec.TTY, closed: make(chan struct{})}
	env := tree.prepare(sys, spec.Env)
	h.forking.RLock()
	defer h.forking.RUnlock()
	if p.pid, err = f.fork(path, argv, &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   env,
		Files: ends.theirs[:],
		Sys:   sys,
	}, spec.Limits); err != nil {
		return nil, startError(err, spec, h.room)
	}
	if p.pidfd, err = h.exits.reserve(p.pid); err != nil {
		end(p.pid)
		return nil, err
	}
	tree.started(p.pid)
	p.adopt(ends, spec.StdinQueue)
	h.mu.Lock()
	h.live[p] = struct{}{}
	h.mu.Unlock()
	return p, nil
}

// end kills a child that nobody knows of yet.
func end(pid int) (ws syscall.WaitStatus) {
	syscall.Kill(pid, syscall.SIGKILL)
	syscall.Wait4(pid, &ws, 0, nil)
	return ws
}

// Close kills every tree, waits until all were verified to be gone, and stops
// the spawners. Starts that wait are made and then killed; later ones are
// refused. When ctx is done it returns while that goes on. It may be repeated.
func (h *Host) Close(ctx context.Context) error {
	h.close.Do(func() { go h.shutdown() })
	select {
	case <-h.closed:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("child: %d children were not yet seen gone: %w", h.Live(), ctx.Err())
	}
}

func (h *Host) shutdown() {
	defer close(h.closed)
	h.mu.Lock()
	h.closing = true
	for len(h.jobs) > 0 || h.busy > 0 {
		h.work.Wait()
	}
	var all []*process
	for p := range h.live {
		all = append(all, p)
	}
	h.mu.Unlock()

	errs := make([]error, len(all))
	var gone sync.WaitGroup
	for i, p := range all {
		gone.Go(func() { errs[i] = p.finish() })
	}
	gone.Wait()
	if h.err = errors.Join(errs...); h.err != nil {
		return // the spawners stay: with them would die what is left, unverified
	}
	h.stopReaper()
	h.err = h.containment.close()
	h.null.Close()
	h.exits.close()
	h.room.close()
	h.mu.Lock()
	h.done = true
	h.work.Broadcast()
	h.mu.Unlock()
}

func (h *Host) forget(p *process) {
	h.mu.Lock()
	delete(h.live, p)
	h.mu.Unlock()
}

// backoff waits, longer each time by half.
type backoff time.Duration

const (
	minBackoff = backoff(200 * time.Microsecond)
	maxBackoff = backoff(100 * time.Millisecond)
)

func (b *backoff) wait() {
	*b = min(max(*b*3/2, minBackoff), maxBackoff)
	time.Sleep(time.Duration(*b))
}
