package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// defaultSpawners: two start 2,330 a second, one 1,770, four 2,390.
	defaultSpawners = 2
	// fdReserve is how many file descriptors starts leave to the rest of the program.
	fdReserve = 64
	// maxPanics in a row, and a loop gives up.
	maxPanics = 5
)

var defaultSize = protocol.Size{Rows: 24, Cols: 80}

// Host starts children and sees to it that none outlives it.
//
// Its spawner threads are locked and end only when no child is left: the kernel
// kills a child with the thread that forked it (PR_SET_PDEATHSIG), which is how
// children die with a server that was killed.
type Host struct {
	log         *slog.Logger
	fault       func(point string)
	containment containment
	null        *os.File
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
	h.stopReaper = func() {}
	if cfg.Subreaper {
		h.stopReaper = h.startReaper()
	}
	if cfg.Spawners <= 0 {
		cfg.Spawners = defaultSpawners
	}
	for range cfg.Spawners {
		go h.spawner()
	}
	return h, nil
}

// Containment is the one that all children of this host get.
func (h *Host) Containment() Containment { return h.containment.kind() }

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

func (h *Host) spawner() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this function
	for {
		j, ok := h.next()
		if !ok {
			return
		}
		if p, err := h.spawn(&j.spec, j.in); err != nil {
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

// spawn forks and executes spec. When it fails it leaves nothing behind.
func (h *Host) spawn(spec *Spec, in *Intake) (_ *process, err error) {
	path, err := program(spec)
	if err != nil {
		return nil, err
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
	tree, err := h.containment.tree(spec.Name)
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
	if p.pid, p.exit, err = fork(path, argv, &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   env,
		Files: ends.theirs[:],
		Sys:   sys,
	}); err != nil {
		return nil, startError(err, spec.Argv[0])
	}
	tree.started(p.pid)
	p.adopt(ends, spec.StdinQueue)
	h.mu.Lock()
	h.live[p] = struct{}{}
	h.mu.Unlock()
	return p, nil
}

// ends are the two sides of a child's standard streams. Ours do not block and
// theirs do; all are closed on exec.
type ends struct {
	tty    *os.File // or the pipes:
	stdin  *os.File // nil: /dev/null
	stdout *os.File
	stderr *os.File

	theirs [3]uintptr // the child's 0, 1 and 2
	opened []int      // of theirs, what is to be closed after the fork
}

func (h *Host) open(spec *Spec) (e *ends, err error) {
	e = &ends{theirs: [3]uintptr{h.null.Fd()}}
	defer func() {
		if err != nil {
			e.closeTheirs()
			e.closeOurs()
			e = nil
		}
	}()
	if spec.TTY {
		err = e.openTTY(spec.Size)
	} else {
		err = e.openPipes(spec.Stdin)
	}
	if err != nil {
		return nil, err
	}
	// The kernel hands out the lowest number that is free: all below are in use.
	soft, _, err := noFile()
	if highest := uint64(e.highest()); err == nil && highest+fdReserve >= soft {
		err = fmt.Errorf("%w: RLIMIT_NOFILE is %d and all but %d file descriptors are in use: end some processes, or raise it", ErrLimit, soft, soft-highest)
	}
	return e, err
}

// openTTY re-wraps the master: creack/pty leaves it in blocking mode, where each
// Read holds a thread and Close does not end it. From here on nothing calls Fd
// or pty.Setsize on it, which would switch it back.
func (e *ends) openTTY(size protocol.Size) error {
	master, slave, err := pty.Open()
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: no more PTYs: kernel.pty.max%s", ErrLimit, ptyMax())
	}
	if err != nil {
		return descriptorError(err)
	}
	defer master.Close()
	defer slave.Close()
	theirs, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return descriptorError(err)
	}
	e.opened = []int{theirs}
	e.theirs = [3]uintptr{uintptr(theirs), uintptr(theirs), uintptr(theirs)}
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return descriptorError(err)
	}
	if size.Rows == 0 {
		size.Rows = defaultSize.Rows
	}
	if size.Cols == 0 {
		size.Cols = defaultSize.Cols
	}
	if err := setSize(uintptr(fd), size); err != nil {
		unix.Close(fd)
		return err
	}
	e.tty, err = ourFile(fd, "tty")
	return err
}

func (e *ends) openPipes(stdin bool) (err error) {
	if stdin {
		if e.stdin, err = e.openPipe(0, "stdin"); err != nil {
			return err
		}
	}
	if e.stdout, err = e.openPipe(1, "stdout"); err != nil {
		return err
	}
	e.stderr, err = e.openPipe(2, "stderr")
	return err
}

// openPipe makes one end the child's descriptor n and returns the other.
func (e *ends) openPipe(n int, name string) (*os.File, error) {
	r, w, err := pipe()
	if err != nil {
		return nil, descriptorError(err)
	}
	ours, theirs := r, w
	if n == 0 {
		ours, theirs = w, r
	}
	e.opened = append(e.opened, theirs)
	e.theirs[n] = uintptr(theirs)
	return ourFile(ours, name)
}

// ourFile has the runtime's poller wait for fd, which it owns.
func ourFile(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	// What the poller has not accepted has no deadlines, and no way to wait.
	if err := f.SetDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: fs.epoll.max_user_watches: %w", ErrLimit, err)
	}
	return f, nil
}

func (e *ends) highest() uintptr {
	top := max(e.theirs[0], e.theirs[1], e.theirs[2])
	for _, f := range []*os.File{e.tty, e.stdin, e.stdout, e.stderr} {
		if f != nil {
			control(f, func(fd uintptr) { top = max(top, fd) })
		}
	}
	return top
}

func (e *ends) closeTheirs() {
	for _, fd := range e.opened {
		unix.Close(fd)
	}
	e.opened = nil
}

func (e *ends) closeOurs() {
	for _, f := range []*os.File{e.tty, e.stdin, e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

func descriptorError(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		soft, _, _ := noFile()
		return fmt.Errorf("%w: RLIMIT_NOFILE is %d and all are in use: end some processes, or raise it", ErrLimit, soft)
	}
	if errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: fs.file-max: the system has no more open files to give", ErrLimit)
	}
	return err
}

// control runs f on the descriptor and reports whether the file was still open.
// Unlike File.Fd it leaves the descriptor in non-blocking mode.
func control(file *os.File, f func(fd uintptr)) bool {
	rc, err := file.SyscallConn()
	return err == nil && rc.Control(f) == nil
}

func setSize(fd uintptr, size protocol.Size) error {
	return unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

func noFile() (soft, hard uint64, err error) {
	var limit unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Cur, limit.Max, err
}

// RaiseNoFile raises this program's limit of open files to what it may have,
// and returns both limits as they are then. A Host never does: it is global.
func RaiseNoFile() (soft, hard uint64, err error) {
	soft, hard, err = noFile()
	if err != nil || soft == hard {
		return soft, hard, err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: hard, Max: hard}); err != nil {
		return soft, hard, fmt.Errorf("RLIMIT_NOFILE: %w", err)
	}
	return noFile()
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
	h.mu.Lock()
	h.done = true
	h.work.Broadcast()
	h.mu.Unlock()
}

// A containment finds and kills the trees of children.
type containment interface {
	kind() Containment
	// tree prepares the containment of one child.
	tree(name string) (tree, error)
	close() error
}

// A tree is one child with its descendants. Any goroutine may call its methods.
type tree interface {
	// prepare has the next fork use the containment; it returns the child's environment.
	prepare(sys *syscall.SysProcAttr, env []string) []string
	// started tells the pid that came of it.
	started(pid int)
	// pins reports whether members are told by the child's pid, so that it must
	// not be reaped, which frees the pid for others, before the tree is empty.
	pins() bool
	// cheap reports whether empty may be called where nothing may block.
	cheap() bool
	// empty reports whether no process of the tree runs; zombies do not.
	empty() bool
	// kill sends SIGKILL to all members it finds.
	kill()
	// members are the pids that run.
	members() []int
	// remove forgets the tree, which is empty.
	remove() error
}

func (h *Host) forget(p *process) {
	h.mu.Lock()
	delete(h.live, p)
	h.mu.Unlock()
}

// loop calls step until it returns false. A panic in step is logged and step is
// called again: it goes on from the state it keeps. After maxPanics in a row
// loop gives up and returns false.
func (h *Host) loop(point string, step func() bool) (completed bool) {
	for panics := 0; panics < maxPanics; {
		more, panicked := h.try(point, step)
		switch {
		case panicked:
			panics++
		case !more:
			return true
		default:
			panics = 0
		}
	}
	return false
}

func (h *Host) try(point string, step func() bool) (more, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			panicked = true
			h.log.Error("panic recovered", "in", point, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	if h.fault != nil {
		h.fault(point)
	}
	return step(), false
}

// backoff waits, longer each time: from 200 µs by half as much again to 100 ms.
type backoff time.Duration

func (b *backoff) wait() {
	*b = min(max(*b*3/2, backoff(200*time.Microsecond)), backoff(100*time.Millisecond))
	time.Sleep(time.Duration(*b))
}
