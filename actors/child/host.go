package child

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// defaultSpawners is 2: two threads start 2,330 children a second, a single thread 1,770, four
// threads 2,390.
const defaultSpawners = 2

// Host starts children and ensures that no child outlives the Host.
//
// A Host's spawners, each with a forking thread, end only when no child is left.
type Host struct {
	log             *slog.Logger
	fault           func(point string)
	containment     containment
	answerTime      time.Duration // of new jobs
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

	// forking is read-locked from a fork until its child is in live. The reaper of strangers takes
	// the write lock, so as not to mistake our own new child for a stranger.
	forking sync.RWMutex

	mu      sync.Mutex
	work    sync.Cond         // broadcast on changes of jobs, starts, unborn and done
	turns   turns             // of look-ups
	jobs    []*job            // looked up, waiting for a spawner; bounded by the callers: one for each process
	starts  map[*job]struct{} // all whose done was not called
	unborn  map[int]struct{}  // pids of children that have not executed their program yet
	closing bool              // no new job is accepted
	done    bool              // no child is left: spawners end
	live    map[*process]struct{}

	close  sync.Once
	closed chan struct{} // closed when shutdown is over
	err    error         // of shutdown; read after closed
}

// NewHost starts the spawners. NewHost also kills the processes left behind by dead servers of this
// machine in the same kind of containment. Other processes stay untouched.
func NewHost(cfg HostConfig) (*Host, error) {
	h := &Host{
		log:    cfg.Log,
		fault:  cfg.Fault,
		starts: make(map[*job]struct{}),
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
	h.work.L = &h.mu
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
	for range cfg.Spawners {
		f, err := newForker()
		if err != nil {
			h.log.Debug("each start copies the table of open files", "err", err)
		}
		h.fence.enclose(f.tid)
		go h.spawner(f)
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

func (h *Host) spawner(f *forker) {
	defer f.close()
	for {
		j, ok := h.next()
		switch {
		case !ok:
			return
		case j.apart:
			go h.make(f, j)
		default:
			h.make(f, j)
		}
	}
}

func (h *Host) next() (j *job, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for len(h.jobs) == 0 {
			if h.done {
				return nil, false
			}
			h.work.Wait()
		}
		j = h.jobs[0]
		h.jobs[0] = nil
		h.jobs = h.jobs[1:]
		if !j.over {
			j.over = true
			return j, true
		}
		h.leave(j) // the start was given up meanwhile
	}
}

// make starts the child of j and reports the result to j.done.
func (h *Host) make(f *forker, j *job) {
	p, err := h.trySpawn(f, j)
	if err != nil {
		j.done(nil, err)
	} else {
		j.done(p, nil)
		p.watch()
	}
	h.forgetStart(j)
}

// tryLookUp asks the question of j; or else it drops credentials of the server, and looks up the program of j. A
// panic counts as a failed look-up.
func (h *Host) tryLookUp(j *job) (path string, apart bool, err error) {
	defer h.recovered(j.spec.Argv, &err)
	step := func(step string) {
		h.mu.Lock()
		j.step = step
		h.mu.Unlock()
	}
	if j.ask != nil {
		step("look-up of the user")
		return "", false, j.ask(step)
	}
	spec := &j.spec
	if spec.Serve != nil {
		return "/", true, h.resolveServe(spec, step)
	}
	path, apart, err = h.allowed(spec, step)
	if err == nil && spec.confined() {
		return path, true, h.resolve(spec, step)
	}
	return path, apart, err
}

// allowed drops credentials of the server from spec, looks up the program, and gives the child the sandbox of the operator.
func (h *Host) allowed(spec *Spec, step func(what string)) (path string, apart bool, err error) {
	spec.NoNewPrivs = spec.NoNewPrivs || h.noNewPrivs
	if spec.User != nil {
		if err := mayBecome(spec.User); err != nil {
			return "", false, err
		}
	}
	var rule *rules.Rule
	if spec.Rule != nil {
		step("look-up of the policy")
		rule = spec.Rule().Resolve() // as the server, which may look everywhere
	}
	spec.Env = withoutWithheld(spec.Env, rule)
	// As the user: an error about a path closed to the user does not tell whether the path exists.
	refused := LookAs(spec.User, func() {
		defer h.recovered(spec.Argv, &err)
		if path, err = programUnder(rule, spec, step); err == nil {
			apart = spec.User != nil || mayHang(spec.Dir, path)
		}
	})
	if err = cmp.Or(refused, err); err == nil {
		err = spec.confine(rule)
	}
	return path, apart, err
}

// Look returns why Start would not try to start the child: the policy, or the look-up of the program or the working
// directory, refuses. Look waits for files. Call Look from the function of Ask, with its step.
func (h *Host) Look(spec Spec, step func(what string)) error {
	_, _, err := h.allowed(&spec, step)
	if spec.dir != nil {
		spec.dir.Close()
	}
	return err
}

// trySpawn calls spawn. A panic counts as a failed start.
func (h *Host) trySpawn(f *forker, j *job) (_ *process, err error) {
	stuck := false
	defer func() {
		if !stuck {
			h.mu.Lock()
			h.leave(j)
			h.mu.Unlock()
		}
	}()
	defer func() {
		if err != nil {
			held := j.spec.held
			j.spec.held = nil
			h.releasePlaces(held) // before the error is told
		}
	}()
	defer h.recovered(j.spec.Argv, &err)
	return h.spawn(f, j, &stuck)
}

func (h *Host) recovered(argv []string, err *error) {
	if r := recover(); r != nil {
		h.log.Error("panic recovered", "in", "start", "panic", r, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w in the start of %q", errInternal, argv)
	}
}

// spawn forks and executes the program of j. A failed spawn leaves nothing behind, except when
// *stuck is set: then a hanging child remains and keeps j's turn.
func (h *Host) spawn(f *forker, j *job, stuck *bool) (_ *process, err error) {
	spec := &j.spec
	if err := h.Allows(spec.Limits); err != nil {
		return nil, err
	}
	if err := cmp.Or(h.room.check(), h.fence.check(h.room)); err != nil {
		return nil, err
	}
	if err := j.in.OpenSpool(); err != nil {
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
	if err = ends.give(spec.User); err != nil {
		return nil, err
	}
	tree, err := h.containment.tree(spec.Name, spec.Limits)
	if err != nil {
		return nil, fmt.Errorf("containment: %w", err)
	}
	defer func() {
		if err != nil && !*stuck {
			h.removeTree(tree, spec.Name)
		}
	}()

	argv := append([]string(nil), spec.Argv...)
	if spec.Arg0 != nil {
		argv[0] = *spec.Arg0
	}
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY}
	p := &process{host: h, in: j.in, tree: tree, tty: spec.TTY, closed: make(chan struct{})}
	tree.prepare(sys)
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: ends.theirs[:], Sys: sys}
	if j.apart {
		if spec.policy != nil {
			p.pid, p.jail, err = h.forkJail(f, j, argv, attr, tree.mark())
		} else {
			p.pid, err = h.forkApart(f, j, argv, attr, tree.mark())
		}
		if errors.Is(err, ErrNoAnswer) {
			*stuck = true
			h.mu.Lock()
			h.hangs(j)
			h.mu.Unlock()
			go h.buryLate(j, p.pid, tree)
			return nil, err
		}
	} else {
		h.forking.RLock()
		defer h.forking.RUnlock()
		p.pid, err = f.fork(j.path, argv, attr, spec, tree.mark())
	}
	if err != nil {
		return nil, startError(err, spec, h.room)
	}
	h.began(p, spec, ends)
	return p, nil
}

// began takes over a child that was just forked: from now on the host waits for its exit.
func (h *Host) began(p *process, spec *Spec, ends *ends) {
	p.pidfd = h.exits.reserve(p.pid)
	if spec.Limits.Processes == nil && spec.policy == nil { // a jail is restrained before its program runs
		h.fence.restrain(p.pid)
	}
	p.tree.started(p.pid)
	p.adopt(ends, spec)
	p.sandbox = mode.Of(spec.Sandbox)
	if p.jail != nil {
		p.sandboxLevel = p.jail.level
	}
	p.isInit = spec.policy != nil && spec.policy.Files
	h.mu.Lock()
	p.held, spec.held = spec.held, nil
	h.live[p] = struct{}{}
	delete(h.unborn, p.pid)
	h.mu.Unlock()
	select {
	case h.begun <- struct{}{}:
	default:
	}
}

func (h *Host) removeTree(tree tree, name string) {
	if err := tree.remove(); err != nil {
		h.log.Warn("containment of a failed start was not removed", "name", name, "err", err)
	}
}

// kill kills a child still unknown to others, and waits for its end.
func kill(pid int) (ws syscall.WaitStatus) {
	syscall.Kill(pid, syscall.SIGKILL)
	syscall.Wait4(pid, &ws, 0, nil)
	return ws
}

// bury kills a child, waits for its end, and removes the child from unborn. The result is how the child has ended, also if
// that was before the kill.
func (h *Host) bury(pid int) syscall.WaitStatus {
	ws := kill(pid)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unborn, pid)
	return ws
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
