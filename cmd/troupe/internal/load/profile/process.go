//go:build unix

package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxTyped bounds the operations of a task without an answer in an open run.
	maxTyped = 16
	// maxBacklog bounds the output of a program that may still come after the request to end: more than a server keeps by default.
	maxBacklog = 4 << 20
	// pause is the wait of a task after a failed try to type.
	pause = 10 * time.Millisecond
)

// Tests have shorter times.
var (
	// patience is how long a request or the end of a program may take before it counts as lost. A session may take 90 s to resume.
	patience = 2 * time.Minute
	// killedFor is how long a killed program may take to end.
	killedFor = 10 * time.Second
	// viewersFor is how long an observer may take to see the end of a program after its owner, before that end counts as lost.
	viewersFor = 2 * time.Minute
	// lookEvery is how often a task waiting for the end of its program checks whether its session is lost.
	lookEvery = 2 * time.Second
	// exitedWithin is how long a closed process waits for an exited that has not come: an exited after closed is in the wrong order, and not
	// lost.
	exitedWithin = 2 * time.Second

	// How long a client of the profile attach stays, and how long it is away.
	minStay, maxStay = time.Second, 3 * time.Second
	minAway, maxAway = 20 * time.Millisecond, time.Second
)

// A process is the program of a Task, with the state of its events.
type process struct {
	*Task
	shape
	checker  *oracle.Checker
	watchers []*watcher
	calls    context.Context // for requests; not done at the end of the phase, because the program must still be ended
	acting   sync.WaitGroup  // running acts

	began  chan struct{} // closed at the first output: by then the program has set its terminal raw, and catches its signals
	closed chan struct{} // closed at the end of the process
	given  chan struct{} // closed when Run no longer waits for the end

	// starved: the machine had no thread left for the program, so the program ended before it did anything of its profile. Nothing that comes
	// of it is checked from then on.
	starved atomic.Bool

	news chan struct{} // has a token when an operation or a write has ended

	buf []byte // for typing; owned by Run

	mu       sync.Mutex
	has      oracle.State
	closedAt time.Time
	printed  time.Time // of the last line, by our clock
	lastRun  time.Time // when the client asked the server for no more runs; zero: not yet
	killed   bool
	typed    []operation // without an answer; at most maxTyped
	position int64       // in stdin, of the next operation
	accepted int64       // bytes of stdin
	writes   int         // without an answer
	refused  error       // why a write was refused
	freezing bool
}

// newProcess returns the process of a task.
func newProcess(ctx context.Context, t *Task) (*process, error) {
	p := &process{
		Task: t, shape: shapeOf(t), calls: context.WithoutCancel(ctx),
		began: make(chan struct{}), closed: make(chan struct{}), given: make(chan struct{}), news: make(chan struct{}, 1),
	}
	var err error
	p.checker, err = oracle.New(p.spec, oracle.Options{Began: t.Began, Found: t.Rec.Found, Cuts: t.Session.Cuts, Line: p.line, Ended: p.ended, Answer: p.answer})
	return p, err
}

// call sends a request and waits for its answer.
func (p *process) call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(p.calls, patience)
	defer cancel()
	return p.Session.Call(ctx, method, params, result)
}

// event takes an event, on a goroutine of the session.
func (p *process) event(e *oracle.Event, at time.Time) {
	p.starve(e)
	if !p.starved.Load() {
		p.checker.Event(e, at)
	}
	has := p.checker.State()
	if e.Kind != "resumed" {
		p.Rec.Add(result.Events, 1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(has)
	switch e.Kind {
	case "output":
		select {
		case <-p.began:
		default:
			close(p.began)
		}
		if p.operation == result.Echo {
			p.answered(has.Content[e.Stream], at)
		}
	case "closed":
		select {
		case <-p.closed:
		default:
			p.closedAt = at
			close(p.closed)
		}
	}
}

// starve marks the process as starved if e is the message of a Go runtime that got no thread.
func (p *process) starve(e *oracle.Event) {
	if e.Kind != "output" || e.Stream == protocol.Stdout {
		return
	}
	for _, message := range []string{"runtime/cgo: pthread_create failed", "runtime: failed to create new OS thread"} {
		if bytes.HasPrefix(e.Data, []byte(message)) && !p.starved.Swap(true) {
			p.Rec.Error(errStarved)
		}
	}
}

// errStarved is the error of each starved program.
var errStarved = errors.New("a program could not run: its machine had no thread left for it; raise kernel.pid_max or the limit of the server's user (ulimit -u), or start fewer programs")

// count adds the news since the last call to the counters.
func (p *process) count(has oracle.State) {
	p.Rec.Add(result.CheckedBytes, has.Checked-p.has.Checked)
	if runs := has.Run - p.has.Run; runs > 0 {
		p.Rec.Add(result.Runs, int64(runs))
		if p.end == endsRestarts {
			p.Rec.Add(result.Operations, int64(runs))
			p.tell()
		}
	}
	p.has = has
}

// ended takes the reason of a server that ended a run itself, as with --max-run-time or at its own end. Such a server is no liar, and nobody
// can check the end of such a run.
func (p *process) ended(reason string) {
	p.Rec.Problem("The server ended programs itself, and nobody checked their ends: " + show.Cut(reason, 200))
}

// line takes a line with a clock, during an event.
func (p *process) line(printed, received time.Time) {
	if !p.lag {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printed = printed.Add(p.Clock)
	p.latency(result.Lag, p.printed, received, 0)
}

// latency records a latency. A latency during which the client itself was away is left out, since it does not measure the server. A cut of
// the chaos counts. The caller holds p.mu, or no more events can arrive.
func (p *process) latency(name string, from, to time.Time, every time.Duration) {
	if p.Session.Away(from, to) {
		p.Rec.Note("Latencies of the time while a client of the profile attach was away are left out.")
		return
	}
	p.Rec.Latency(name, to.Sub(from), every)
}

// begin starts the program.
func (p *process) begin() error {
	p.Session.Follow(p.Name, p.event)
	began := time.Now()
	err := p.call(protocol.MethodProcessStart, p.start, &protocol.ProcessStartResult{})
	if err == nil {
		p.mu.Lock()
		p.latency(result.Start, began, time.Now(), 0)
		p.mu.Unlock()
		p.Rec.Add(result.Starts, 1)
		p.Rec.Gauge(figures.Processes, 1)
		return nil
	}
	p.checker.Abandon(time.Now())
	_, refused := errors.AsType[*protocol.Error](err)
	switch {
	case refused:
		p.Rec.Add(result.StartsRefused, 1)
		p.Rec.Error(err)
	case !errors.Is(err, ErrLost):
		p.Rec.Error(err)
		if p.calls.Err() == nil && !errors.Is(err, ErrAnswer) {
			p.Rec.Problem("A start had no answer, and nobody checked its program: see the errors.")
		}
		if !p.withdraw() {
			return err
		}
	}
	p.Session.Unfollow(p.Name)
	return err
}

// withdraw ends a program after a start without an answer, and reports whether the process has closed. The server may have started the
// program, or may start the program later. Until closed, the process keeps its follower: its events are no finding.
func (p *process) withdraw() (closed bool) {
	err := p.call(protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: p.Name, Tree: p.Session.Ours()}, nil)
	if err != nil {
		if _, unknown := errors.AsType[*protocol.Error](err); !unknown && !errors.Is(err, ErrLost) {
			p.Rec.Error(err)
		}
		return false
	}
	return p.awaitKilled()
}

// awaitKilled waits for the end of a killed program, and reports whether the process has closed.
func (p *process) awaitKilled() (closed bool) {
	select {
	case <-p.closed:
		return true
	case <-time.After(killedFor):
		return false
	}
}

// live plays the client's part of the profile until the program has ended, its life is over, or ctx is done.
func (p *process) live(ctx context.Context) {
	random := rand.New(rand.NewPCG(uint64(p.key), 1))
	var over, leave <-chan time.Time
	if p.Part.Life > 0 {
		over = time.After(time.Duration(p.Part.Life))
	}
	stay := func() { leave = time.After(minStay + time.Duration(random.Int64N(int64(maxStay-minStay)))) }
	if p.leaves {
		stay()
	}
	began := p.began
	next := time.Now() // when the next operation of a closed run is due
	for {
		var moments, tick <-chan time.Time
		switch may := p.mayType(); {
		case may && p.Moments != nil:
			moments = p.Moments
		case may:
			tick = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-p.closed:
			return
		case <-began:
			began = nil
		case a := <-p.Acts:
			p.act(a)
		case due := <-moments:
			p.typeOn(due)
		case <-tick:
			now := time.Now()
			next = now.Add(p.every)
			if !p.typeOn(now) {
				next = now.Add(max(p.every, pause))
			}
		case <-p.news:
			if p.end == endsRestarts && p.checker.State().Run >= p.Part.Restarts {
				return
			}
		case <-leave:
			p.leave(random)
			stay()
		}
	}
}

// finish ends the program and waits for its end. closed says that the process has closed.
func (p *process) finish(ctx context.Context) (closed bool) {
	lost := make(chan struct{}) // closed if the session was lost before the phase was over
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrLost) {
			close(lost)
		}
	})()
	var asked time.Time
	finished := make(chan struct{})
	unanswered := make(chan struct{}) // closed if the server owes the answer to the request that ends the program
	go func() {                       // a goroutine of its own, because requests wait while the session is away
		defer close(finished)
		select {
		case <-p.closed: // of its own accord
		case <-p.given:
		case <-p.began:
			var err error
			if asked, err = p.ask(); errors.Is(err, ErrAnswer) {
				close(unanswered)
			}
		}
	}()
	defer func() {
		close(p.given)
		<-finished
		p.acting.Wait()
		if closed && !asked.IsZero() && p.closedAt.After(asked) {
			p.latency(result.EndLag, asked, p.closedAt, 0)
		}
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	first := p.checker.State()
	last := first
	for {
		select {
		case <-p.closed:
			return true
		case <-unanswered:
			return p.terminate()
		case <-lost:
			return false
		case <-look.C:
			if p.lost() {
				return false
			}
		case <-late.C:
			now := p.checker.State()
			if !p.behind(&first, &last, &now) {
				return p.force()
			}
			last = now
			late.Reset(patience)
		}
	}
}

// behind reports whether what the program printed before its end is still coming, over a slow link or from a server with a limit of output.
// The states are those of the request that ends the program, of the last call, and of now.
func (p *process) behind(first, last, now *oracle.State) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	goesOn := p.lag && time.Since(p.printed) < patience
	return now.Events > last.Events && now.Checked-first.Checked <= maxBacklog && !goesOn
}

// checkRestarts reports a process that has closed before the client asked for its last run.
func (p *process) checkRestarts() {
	p.mu.Lock()
	early := p.end == endsRestarts && (p.lastRun.IsZero() || p.closedAt.Before(p.lastRun))
	p.mu.Unlock()
	if early && !p.checker.State().Told {
		p.checker.Report(oracle.Order, "closed came, but the server had to restart the program after each of its runs", p.closedAt)
	}
}

// awaitExited waits for the exited of a process that has closed. Usually exited has come before.
func (p *process) awaitExited() {
	for begun := time.Now(); !p.checker.State().Exited && time.Since(begun) < exitedWithin; {
		time.Sleep(time.Millisecond)
	}
}

// lost reports whether the session is lost.
func (p *process) lost() bool {
	ctx, cancel := context.WithTimeout(p.calls, lookEvery)
	defer cancel()
	return errors.Is(p.Session.Call(ctx, protocol.MethodEnvironmentStatus, protocol.Empty{}, nil), ErrLost)
}

// ask asks the program to end, and returns the time of the request. Zero means: the program ends by itself, or the request was impossible. The
// error is the reason why the server did not accept the request.
func (p *process) ask() (asked time.Time, err error) {
	p.acting.Wait() // a frozen program cannot end
	switch p.end {
	case endsItself:
	case endsBySignal:
		signal := protocol.SignalTerminate
		if !p.Session.Ours() {
			signal = protocol.SignalInterrupt
		}
		asked = time.Now()
		err = p.call(protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: p.Name, Signal: signal}, nil)
	case endsByStdin:
		if err = p.typedAll(); err == nil {
			asked = time.Now()
			err = p.endStdin()
		}
	case endsRestarts:
		p.mu.Lock()
		p.lastRun = time.Now()
		p.mu.Unlock()
		err = p.call(protocol.MethodProcessSetRestart, protocol.ProcessSetRestartParams{
			ProcessID: p.Name, Restart: protocol.Restart{Policy: protocol.RestartTemporary},
		}, nil)
		if _, refused := errors.AsType[*protocol.Error](err); refused {
			err = nil // its last run has ended
		}
	}
	p.mu.Lock()
	ended := p.killed || p.has.Exited
	p.mu.Unlock()
	if err != nil && !ended && !errors.Is(err, ErrLost) {
		p.Rec.Error(err)
	}
	return asked, err
}

// force kills a program that did not end in time, and reports whether the process has then closed.
func (p *process) force() bool {
	what := "exited and closed have not come"
	if p.checker.State().Exited {
		what = "closed has not come"
	}
	p.checker.Report(oracle.LostExit, fmt.Sprintf("%s within %v of the request that ends the program", what, patience), time.Now())
	return p.terminate()
}

// terminate kills the program, and reports whether the process has then closed.
func (p *process) terminate() bool {
	p.expectKill()
	err := p.call(protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: p.Name, Tree: p.Session.Ours()}, nil)
	if err != nil {
		if !errors.Is(err, ErrLost) {
			p.Rec.Error(err)
		}
		return false
	}
	return p.awaitKilled()
}
