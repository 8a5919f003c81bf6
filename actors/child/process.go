package child

import (
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxPanics is how many panics in a row end a loop.
const maxPanics = 5

// process is the Handle of one child.
//
// Its goroutines are a pump for each stream, a writer while stdin has queued bytes, and a waiter
// after the exit. Each goroutine does its part and calls settle. Only settle decides when Exited
// and Closed are due.
type process struct {
	// host to isInit are fixed before watch.
	host  *Host
	in    *Intake
	tree  *trees.Tree
	tty   bool
	out   []*stream // two if stderr is separate
	stdin stdin

	sandbox, sandboxLevel string // see Handle.Sandbox
	isInit                bool   // the child is process 1 of a sandbox, and the program its first child
	kept                  bool   // a holder has the child, and copies of its streams

	closed chan struct{} // closed after Intake.Closed

	turn sync.Mutex // held while either of two streams is moved

	mu         sync.Mutex
	held       *placeholder.Held // of the sandbox; nil: none, or released
	toldEnd    bool              // Intake.Ended was called
	toldExit   bool              // Intake.Exited was called
	toldClosed bool              // Intake.Closed was called
	released   bool
}

// newProcess builds what moves the bytes of a child and waits for its end. It does not matter how long ago the child was started.
func newProcess(h *Host, b Born, tree *trees.Tree, in *Intake, rate *pace.Meter) *process {
	p := &process{
		host: h, in: in, tree: tree, tty: b.TTY != nil,
		sandbox: b.Sandbox, sandboxLevel: b.SandboxLevel, isInit: b.IsInit,
		closed: make(chan struct{}),
	}
	if p.tty {
		p.stdin.init(p, b.TTY, b.StdinQueue, rate)
		p.out = []*stream{newStream(p, protocol.PTY, b.TTY)}
		return p
	}
	p.stdin.init(p, b.Stdin, b.StdinQueue, rate)
	if b.Stdout != nil { // else an earlier program has read it to its end
		p.out = append(p.out, newStream(p, protocol.Stdout, b.Stdout))
	}
	if b.Stderr != nil {
		p.out = append(p.out, newStream(p, protocol.Stderr, b.Stderr))
	}
	if len(p.out) == 2 {
		p.out[0].other, p.out[1].other = p.out[1], p.out[0]
		h.order.add(p.out[0])
		h.order.add(p.out[1])
	}
	return p
}

// adopt makes the host answer for a child: the host waits for its exit, and ends it at the latest at its own end.
func (h *Host) adopt(b Born, tree *trees.Tree, in *Intake, rate *pace.Meter) *process {
	p := newProcess(h, b, tree, in, rate)
	p.held, p.kept = b.held, tree.Held()
	if b.Jail != nil && tree.Ending == nil {
		tree.Ending = confine.Ending(b.Jail)
	}
	tree.Begin(b.PID)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[p] = struct{}{}
	return p
}

// watch starts the goroutines. From now on the Intake gets Facts.
func (p *process) watch() {
	for _, s := range p.out {
		go s.pump()
	}
	p.stdin.resume()
	p.tree.Watch(p.wait)
}

func (p *process) PID() int                 { return p.tree.PID() }
func (p *process) Containment() Containment { return p.host.Containment() }

func (p *process) Sandbox() (name, level string) { return p.sandbox, p.sandboxLevel }

// wait runs on the waiter goroutine once the child seems to have exited.
func (p *process) wait() {
	var pause trees.Backoff
	// Only the waiter can learn how the child ended, so the waiter never gives up.
	for !p.loop("waiter", p.waitStep) {
		pause.Wait()
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
			p.host.log.Error("panic recovered", "in", point, "pid", p.PID(), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	if p.host.fault != nil {
		p.host.fault(point)
	}
	return step(), false
}

// waitStep may be repeated from any point.
func (p *process) waitStep() bool {
	if !p.tree.Wait() {
		p.tree.Watch(p.wait)
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
	p.tree.SearchAtExit()
	return false
}

// settle delivers Exited and Closed when they are due. settle holds the lock meanwhile, because
// Exited must come before Closed.
func (p *process) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.tree.Status()
	if status == nil || p.held != nil || p.toldClosed { // held: a client sees no placeholder after the end
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
		p.in.Exited(*status)
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
			p.drop("tty")
		}
		p.in.Closed()
		close(p.closed)
	}
}

// drop has the holder close its copies of streams of a child that it keeps.
func (p *process) drop(names ...string) {
	if p.kept {
		p.host.holder.Drop(p.tree.Name(), names...) // fails at the end of the holder, and so of its copies
	}
}

func (p *process) Status() (st protocol.ExitStatus, ok bool) {
	status := p.tree.Status()
	if status == nil {
		return st, false
	}
	return *status, true
}

func (p *process) Exited() bool  { return p.tree.Status() != nil }
func (p *process) Stopped() bool { return p.tree.Stopped() }

func (p *process) StdinUnread() int64 { return p.stdin.lost() }

func (p *process) Write(b []byte) (n int, err error) { return p.stdin.write([16]byte{}, b) }

func (p *process) WriteAs(id [16]byte, b []byte) (n int, err error) { return p.stdin.write(id, b) }

func (p *process) CloseStdin() error { return p.stdin.close() }

func (p *process) Resize(size protocol.Size) (err error) {
	if !p.tty {
		return ErrNoTTY
	}
	if !nonblock.Control(p.out[0].file, func(fd uintptr) { err = setSize(fd, size) }) {
		return nil // the PTY is closed: there is nothing left to resize
	}
	return err
}

func (p *process) Signal(sig syscall.Signal) error { return p.tree.Signal(sig) }

func (p *process) Kill() error { return p.Signal(syscall.SIGKILL) }

func (p *process) KillTree(done func(error)) { go func() { done(p.tree.Kill()) }() }

func (p *process) Abandon() {
	for _, s := range p.out {
		s.abandon()
	}
}

func (p *process) TreeEmpty() bool { return p.tree.Empty() }

func (p *process) SearchTree(done func(empty bool, err error)) { p.tree.SearchTo(done) }

func (p *process) Release() error {
	p.mu.Lock()
	released, closed := p.released, p.toldClosed
	p.mu.Unlock()
	switch {
	case released:
		return nil
	case !closed:
		return fmt.Errorf("%w: process %d has not closed", ErrInUse, p.PID())
	case !p.TreeEmpty():
		return fmt.Errorf("%w: process %d has left descendants behind", ErrInUse, p.PID())
	}
	if err := p.tree.Remove(); err != nil {
		return fmt.Errorf("child: containment of process %d: %w", p.PID(), err)
	}
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	p.host.forget(p)
	return nil
}

func (p *process) Usage(pressures bool, done func(*protocol.Usage)) {
	go func() { done(p.tree.Usage(pressures, p.isInit)) }()
}

func (p *process) Finish(done func(error)) {
	go func() { done(p.finish()) }()
}

func (p *process) finish() error {
	if err := p.tree.Kill(); err != nil {
		return err
	}
	p.in.Abort()
	p.Abandon()
	<-p.closed
	// The tree is gone. Removing its cgroup may take several tries, because rmdir can fail for lack
	// of memory.
	var pause trees.Backoff
	err := p.Release()
	for try := 1; err != nil && try < trees.KillTries; try++ {
		pause.Wait()
		err = p.Release()
	}
	return err
}
