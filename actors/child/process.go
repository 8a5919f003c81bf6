package child

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// killTries bounds the tries of KillTree: with the pauses between, they take some 10 s.
	killTries = 110
	// maxRefused is how many kills in a row the system may refuse before KillTree gives up. They
	// take some 2 s.
	maxRefused = 30
	// exitPauses is how many pauses a child may take to end before the next kill.
	exitPauses = 10
	// maxNamed bounds the survivors named in an error.
	maxNamed = 20
	// maxPanics is how many panics in a row end a loop.
	maxPanics = 5
)

// process is the Handle of one child.
//
// Its goroutines are a pump for each stream, a writer while stdin has queued bytes, and a waiter
// after the exit. Each goroutine does its part and calls settle. Only settle decides when Exited
// and Closed are due.
type process struct {
	// host to isInit are fixed before watch.
	host  *Host
	in    *Intake
	tree  tree
	pid   int
	tty   bool
	out   []*stream // two if stderr is separate
	stdin stdin

	sandbox, sandboxLevel string // see Handle.Sandbox
	isInit                bool   // the child is process 1 of a sandbox, and the program its first child

	closed chan struct{} // closed after Intake.Closed

	turn sync.Mutex // held while either of two streams is moved

	mu         sync.Mutex
	held       *placeholder.Held    // of the sandbox; nil: none, or released
	jail       *os.File             // as Born.Jail; nil also when its last report was read
	pidfd      int                  // -1 once status is set, or if the system has no pidfd
	status     *protocol.ExitStatus // nil: the child runs
	toldEnd    bool                 // Intake.Ended was called
	toldExit   bool                 // Intake.Exited was called
	toldClosed bool                 // Intake.Closed was called
	searching  bool                 // a search started by TreeEmpty is running
	empty      bool                 // the tree is empty, for good, and the child was reaped
	released   bool
}

// newProcess builds what moves the bytes of a child and waits for its end. It does not matter how long ago the child was started.
func newProcess(h *Host, b Born, tree tree, in *Intake, rate *pace.Meter) *process {
	p := &process{
		host: h, in: in, tree: tree, pid: b.PID, pidfd: -1, tty: b.TTY != nil,
		sandbox: b.Sandbox, sandboxLevel: b.SandboxLevel, isInit: b.IsInit, jail: b.Jail,
		closed: make(chan struct{}),
	}
	if p.tty {
		p.stdin.init(p, b.TTY, b.StdinQueue, rate)
		p.out = []*stream{newStream(p, protocol.PTY, b.TTY)}
		return p
	}
	p.stdin.init(p, b.Stdin, b.StdinQueue, rate)
	p.out = []*stream{newStream(p, protocol.Stdout, b.Stdout)}
	if b.Stderr != nil {
		p.out = append(p.out, newStream(p, protocol.Stderr, b.Stderr))
		p.out[0].other, p.out[1].other = p.out[1], p.out[0]
		h.order.add(p.out[0])
		h.order.add(p.out[1])
	}
	return p
}

// adopt makes the host answer for a child: the host waits for its exit, and ends it at the latest at its own end. held are the placeholders of
// the sandbox.
func (h *Host) adopt(b Born, tree tree, in *Intake, rate *pace.Meter, held *placeholder.Held) *process {
	p := newProcess(h, b, tree, in, rate)
	p.held, p.pidfd = held, h.exits.reserve(p.pid)
	h.mu.Lock()
	h.live[p] = struct{}{}
	delete(h.unborn, p.pid)
	h.mu.Unlock()
	select {
	case h.begun <- struct{}{}:
	default:
	}
	return p
}

// watch starts the goroutines. From now on the Intake gets Facts.
func (p *process) watch() {
	for _, s := range p.out {
		go s.pump()
	}
	p.host.exits.watch(p)
}

func (p *process) PID() int                 { return p.pid }
func (p *process) Containment() Containment { return p.host.Containment() }

func (p *process) Sandbox() (name, level string) { return p.sandbox, p.sandboxLevel }

// wait runs on the waiter goroutine once the child seems to have exited.
func (p *process) wait() {
	var pause backoff
	// Only the waiter can learn how the child ended, so the waiter never gives up.
	for !p.loop("waiter", p.waitStep) {
		pause.wait()
	}
}

// loop calls step until step returns false. If step panics, loop logs the panic and calls step
// again; step goes on from its saved state. After maxPanics in a row loop gives up and returns
// false.
//
// The goroutines of an idle child are parked in a step. Their stacks must fit into 2 KiB then, or
// each goroutine takes 4 KiB.
func (p *process) loop(point string, step func() bool) (completed bool) {
	for panics := 0; panics < maxPanics; {
		more, panicked := p.try(point, step)
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

func (p *process) try(point string, step func() bool) (more, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			panicked = true
			p.host.log.Error("panic recovered", "in", point, "pid", p.pid, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	if p.host.fault != nil {
		p.host.fault(point)
	}
	return step(), false
}

// waitStep may be repeated from any point.
func (p *process) waitStep() bool {
	if !p.takeStatus() {
		p.host.exits.watch(p)
		return false
	}
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	p.host.releasePlaces(held)
	p.mu.Lock()
	p.held = nil
	p.mu.Unlock()
	p.stdin.exited()
	for _, s := range p.out {
		s.exited()
	}
	p.settle()
	if p.tree.soon() {
		p.search(true) // the next TreeEmpty has its answer
	}
	return false
}

// settle delivers Exited and Closed when they are due. settle holds the lock meanwhile, because
// Exited must come before Closed.
func (p *process) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == nil || p.held != nil || p.toldClosed { // held: a client sees no placeholder after the end
		return
	}
	drained, ended := true, true
	for _, s := range p.out {
		d, e := s.progress()
		drained, ended = drained && d, ended && e
	}
	switch {
	case p.toldExit:
	case drained:
		p.toldExit = true
		p.in.Exited(*p.status)
	case !p.toldEnd:
		p.toldEnd = true
		p.in.Ended()
	}
	if ended { // ended implies drained
		p.toldClosed = true
		p.stdin.shut()
		if p.tty {
			// Not before the exit: closing the PTY hangs up every process using it as terminal.
			p.out[0].file.Close()
		}
		p.in.Closed()
		close(p.closed)
	}
}

func (p *process) Status() (st protocol.ExitStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == nil {
		return st, false
	}
	return *p.status, true
}

func (p *process) Exited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status != nil
}

func (p *process) StdinUnread() int64 { return p.stdin.lost() }

func (p *process) Write(b []byte) (n int, err error) { return p.stdin.write(b) }

func (p *process) CloseStdin() error { return p.stdin.close() }

func (p *process) Resize(size protocol.Size) (err error) {
	if !p.tty {
		return ErrNoTTY
	}
	if !control(p.out[0].file, func(fd uintptr) { err = setSize(fd, size) }) {
		return nil // the PTY is closed: there is nothing left to resize
	}
	return err
}

func (p *process) Signal(sig syscall.Signal) error {
	// The lock prevents reaping, after which the pid could belong to another process.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil {
		return nil
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s to process group %d: %w", unix.SignalName(sig), p.pid, err)
	}
	return nil
}

func (p *process) Kill() error { return p.Signal(syscall.SIGKILL) }

func (p *process) Abandon() {
	for _, s := range p.out {
		s.abandon()
	}
}

func (p *process) TreeEmpty() bool {
	if p.tree.cheap() {
		empty, _ := p.search(true)
		return empty
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil && !p.empty && !p.searching {
		p.searching = true
		p.host.looking.Go(func() {
			p.search(true)
			p.mu.Lock()
			p.searching = false
			p.mu.Unlock()
		})
	}
	return p.empty
}

func (p *process) SearchTree(done func(empty bool, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.empty { // Close may have begun to wait for searches
		go done(true, nil)
		return
	}
	p.host.looking.Go(func() { done(p.search(true)) })
}

// search reports whether the child has exited and left no descendant behind. A true result stays
// true, because nobody is left to fork. False with an error means: unknown. canWait is as in
// tree.empty.
func (p *process) search(canWait bool) (bool, error) {
	p.mu.Lock()
	exited, empty := p.status != nil, p.empty
	p.mu.Unlock()
	if empty || !exited {
		return empty, nil
	}
	if empty, err := p.tree.empty(canWait); !empty {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.empty && p.tree.pins() {
		reap(p.pid)
	}
	p.empty = true
	return true, nil
}

func (p *process) Release() error {
	p.mu.Lock()
	released, closed := p.released, p.toldClosed
	p.mu.Unlock()
	switch {
	case released:
		return nil
	case !closed:
		return fmt.Errorf("%w: process %d has not closed", ErrInUse, p.pid)
	case !p.TreeEmpty():
		return fmt.Errorf("%w: process %d has left descendants behind", ErrInUse, p.pid)
	}
	if err := p.tree.remove(); err != nil {
		return fmt.Errorf("child: containment of process %d: %w", p.pid, err)
	}
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	p.host.forget(p)
	return nil
}

func (p *process) Usage(pressures bool, done func(*protocol.Usage)) {
	go func() { done(p.usage(pressures)) }()
}

func (p *process) Finish(done func(error)) {
	go func() { done(p.finish()) }()
}

func (p *process) finish() error {
	if err := p.killTree(); err != nil {
		return err
	}
	p.in.Abort()
	p.Abandon()
	<-p.closed
	// The tree is gone. Removing its cgroup may take several tries, because rmdir can fail for lack
	// of memory.
	var pause backoff
	err := p.Release()
	for try := 1; err != nil && try < killTries; try++ {
		pause.wait()
		err = p.Release()
	}
	return err
}

// lostStatus is the status of a child reaped by other code of this program.
func lostStatus() *protocol.ExitStatus {
	return &protocol.ExitStatus{ExitCode: -1, Reason: "exit status unknown: another wait in the server took it"}
}

// exitStatus converts the result of wait(2) to the wire's status. If a signal killed the process,
// the exit code is 128 plus the signal's number, as in a shell.
func exitStatus(ws syscall.WaitStatus, usage *unix.Rusage) *protocol.ExitStatus {
	st := &protocol.ExitStatus{
		ExitCode:   ws.ExitStatus(),
		CoreDumped: ws.CoreDump(),
		Rusage: protocol.Rusage{
			UserMs:      uint64(usage.Utime.Nano() / 1e6),
			SystemMs:    uint64(usage.Stime.Nano() / 1e6),
			MaxRSSBytes: uint64(usage.Maxrss) * maxRSSUnit,
		},
	}
	if ws.Signaled() {
		sig := ws.Signal()
		st.ExitCode = 128 + int(sig)
		if st.Signal = unix.SignalName(sig); st.Signal == "" {
			st.Signal = fmt.Sprintf("SIG%d", int(sig)) // a real-time signal has no name
		}
	}
	return st
}
