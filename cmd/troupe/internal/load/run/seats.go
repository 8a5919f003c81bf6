//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// A phase is a phase of the plan, with its times.
type phase struct {
	plan.Phase
	n          int
	begin, end time.Time
	during     context.Context    // of the tasks; done at the end, and in an open run when its last moment has a task, or beginWithin after the end
	over       context.CancelFunc // ends during
	weights    int
	moments    chan time.Time // nil: a closed run, or no profile has operations
	ramp       time.Duration  // the rate rises over this time
}

// beginWithin is how long after the end of its phase a due operation may still begin, before it is missed. A shorter stall of the machine at
// the end of a phase is no fault of the server. A server that is too slow for the rate has more than that to do.
const beginWithin = 2 * time.Second

func makePhases(ctx context.Context, e *engine, start time.Time) (phases []*phase) {
	ramp := time.Duration(e.plan.Ramp)
	for n, p := range e.plan.Phases {
		ph := &phase{Phase: p, n: n, begin: start, end: start.Add(time.Duration(p.Duration)), ramp: ramp}
		ramp = max(0, ramp-time.Duration(p.Duration))
		for _, part := range p.Mix {
			ph.weights += part.Weight
			if p.Rate > 0 && profile.Operation(part.Profile) != "" && ph.moments == nil {
				ph.moments = make(chan time.Time) // no buffer: a moment without a free task stays in deal
			}
		}
		if p.Rate > 0 && ph.moments == nil {
			e.rec.Note(fmt.Sprintf("phase %d has a rate, and no profile with operations: the rate has no effect", n+1))
		}
		until := ph.end
		if ph.moments != nil {
			until = until.Add(e.beginWithin)
		}
		ph.during, ph.over = context.WithDeadline(ctx, until)
		phases = append(phases, ph)
		start = ph.end
	}
	return phases
}

// pick chooses a part by weight.
func (ph *phase) pick(r *rand.Rand) plan.Part {
	n := r.IntN(max(1, ph.weights))
	for _, part := range ph.Mix {
		if n -= part.Weight; n < 0 {
			return part
		}
	}
	return ph.Mix[len(ph.Mix)-1]
}

// lateBy is the delay at which an operation counts as late.
const lateBy = 10 * time.Millisecond

// deal gives each moment of an open phase to a task, when the moment is due. A moment without a free task waits, and so do all later
// moments. Waiting moments keep their times, so their latencies include the wait.
func (ph *phase) deal(e *engine) {
	ctx := ph.during
	defer ph.over()
	next := ph.schedule(rand.New(rand.NewPCG(e.plan.Seed, uint64(ph.n)<<32|0xa1)))
	random := rand.New(rand.NewPCG(e.plan.Seed, uint64(ph.n)<<32|0xa2))
	waited := false      // a moment had to wait for a task since the last moment on time
	var behind time.Time // when the load generator last woke up late: it is itself the reason for the delay of all moments before
	at := next()
	for ; at.Before(ph.end); at = next() {
		wait := time.Until(at)
		if sleep(ctx, wait) != nil {
			break
		}
		late := time.Since(at) > lateBy
		if !late {
			waited = false
		} else if wait > 0 {
			behind = time.Now()
		}
		own := at.Before(behind)
		if own {
			e.rec.Add(result.Late, 1)
		}
		select {
		case ph.moments <- at:
			if late && !waited && !own {
				e.rec.Add(result.Late, 1) // the load generator itself was late, too
			}
			e.rec.Add(result.Due, 1)
			continue
		default:
			waited = true
		}
		select {
		case ph.moments <- at:
			e.rec.Add(result.Due, 1)
			continue
		case <-ctx.Done():
		}
		break
	}
	until := time.Now().Add(-e.beginWithin) // earlier than the end of the phase only if the run ends early
	for ; at.Before(ph.end) && at.Before(until); at = next() {
		e.rec.Add(result.Due, 1)
		e.rec.Miss(ph.operation(random), 1)
	}
	sleep(ctx, time.Until(ph.end))
}

// operation returns the name of the latency of an operation without a task. As nobody knows which task it would have had, the weights decide.
func (ph *phase) operation(r *rand.Rand) string {
	for {
		if name := profile.Operation(ph.pick(r).Profile); name != "" {
			return name
		}
	}
}

// schedule returns a function that returns a moment at each call. While the sessions begin, the rate rises evenly.
func (ph *phase) schedule(r *rand.Rand) func() time.Time {
	ramp := ph.ramp.Seconds()
	x := 0.0 // operations so far
	return func() time.Time {
		if ph.Arrival == plan.Even {
			x++
		} else {
			x += r.ExpFloat64()
		}
		t := ramp/2 + x/ph.Rate
		if t < ramp { // x = Rate*t²/2/ramp
			t = math.Sqrt(2 * x * ramp / ph.Rate)
		}
		return ph.begin.Add(time.Duration(t * float64(time.Second)))
	}
}

// A seat has a session at all times: after a lost session, the seat opens another session.
type seat struct {
	*engine
	n     int
	slots []*slot

	mu         sync.Mutex
	session    *session      // nil: no session at the moment
	tried      bool          // keep has begun
	opened     bool          // a session was open once
	failed     bool          // an attempt to open a session has failed, and the table of errors says why
	changed    chan struct{} // closed when session changes
	generation int
}

func newSeat(e *engine, n int) *seat {
	s := &seat{engine: e, n: n, changed: make(chan struct{})}
	for i := range e.plan.Processes {
		s.slots = append(s.slots, &slot{
			seat: s,
			n:    i,
			rand: rand.New(rand.NewPCG(e.plan.Seed, uint64(n)<<32|uint64(i)<<4|0x3)),
			acts: make(chan chaos.Act),
		})
	}
	return s
}

// now returns the session; nil: no session at the moment.
func (s *seat) now() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// await waits for a session, and returns the session.
func (s *seat) await(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		now, changed := s.session, s.changed
		s.mu.Unlock()
		if now != nil && now.ctx.Err() == nil {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *seat) set(now *session) {
	s.mu.Lock()
	s.session = now
	s.opened = s.opened || now != nil
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

// neverOpen reports whether the seat tried to open a session and never had one, and whether an attempt has failed.
func (s *seat) neverOpen() (tried, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried && !s.opened, s.failed && !s.opened
}

// abandon ends the session at once.
func (s *seat) abandon(why error) {
	if now := s.now(); now != nil {
		now.cancel(why)
	}
}

// run keeps a session open, and runs the programs of all phases in the session. The last session stays open for the check for remains.
func (s *seat) run(ctx context.Context, begin <-chan struct{}, ready chan<- bool) {
	at := time.Duration(s.n) * time.Duration(s.plan.Ramp) / time.Duration(len(s.seats))
	if sleep(ctx, at) != nil {
		return
	}
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { s.keep(keeping, ready) })
	defer keeper.Wait()
	defer stop()

	select {
	case <-begin:
	case <-ctx.Done():
		return
	}
	for _, ph := range s.phases {
		if sleep(ctx, time.Until(ph.begin)) != nil {
			return
		}
		var slots sync.WaitGroup
		for _, sl := range s.slots {
			slots.Go(func() { sl.run(ph.during, ph) })
		}
		slots.Wait()
	}
}

// keep opens a session, and another session after each loss. keep tells ready whether the first attempt has succeeded.
func (s *seat) keep(ctx context.Context, ready chan<- bool) {
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	var delay time.Duration
	for {
		session := s.newSession(sessionOptions{
			name:   s.newName(s.n, s.generation),
			server: s.plan.Servers[s.n%len(s.plan.Servers)],
			chaos:  s.plan.Chaos,
			seed:   s.plan.Seed ^ uint64(s.n+1)*0x9e3779b97f4a7c15 + uint64(s.generation),
		})
		s.generation++
		select {
		case <-session.opened:
			delay = 0
			s.set(session)
		case <-session.ctx.Done():
			s.fail(session)
		case <-ctx.Done():
			s.fail(session)
			session.cancel(errDone)
			return
		}
		if ready != nil {
			ready <- isOpen(session) // has room for all seats
			ready = nil
		}
		select {
		case <-session.ctx.Done():
		case <-ctx.Done():
			return // the session stays open for the check for remains
		}
		s.set(nil)
		s.lost(session)
		if delay = min(max(firstDelay, 2*delay), maxDelay); sleep(ctx, delay) != nil {
			return
		}
	}
}

// fail remembers whether an attempt to open a session has failed.
func (s *seat) fail(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.failed || session.failed.Load()
}

// lost records why a session has ended, unless the run itself has ended the session.
func (e *engine) lost(s *session) {
	why := context.Cause(s.ctx)
	if errors.Is(why, errStopped) || errors.Is(why, errDone) {
		return
	}
	e.rec.Error(why)
	if isOpen(s) {
		e.rec.Add(result.LostSessions, 1)
	}
}

func isOpen(s *session) bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

// A slot has a program at all times.
type slot struct {
	seat *seat
	n    int
	rand *rand.Rand // owned by run
	acts chan chaos.Act
	runs int // programs until now; owned by run
}

// act gives an act to the program, and reports whether the program takes it.
func (sl *slot) act(a chaos.Act) bool {
	select {
	case sl.acts <- a:
		return true
	default:
		return false
	}
}

// run runs a program after the other until ctx is done.
func (sl *slot) run(ctx context.Context, ph *phase) {
	e := sl.seat.engine
	var delay time.Duration
	for {
		session, err := sl.seat.await(ctx)
		if err != nil || sleep(ctx, delay) != nil {
			return
		}
		part := ph.pick(sl.rand)
		task := &profile.Task{
			Plan:    e.plan,
			Part:    part,
			Session: session,
			Name:    "p" + strconv.Itoa(sl.n) + "." + strconv.Itoa(sl.runs),
			RunID:   e.runID,
			Rec:     e.rec,
			Began:   e.began,
			Acts:    sl.acts,
			Clock:   e.clocks[session.server],
		}
		if ph.moments != nil && profile.Operation(part.Profile) != "" {
			task.Moments = ph.moments
		}
		sl.runs++
		during, cancel := context.WithCancelCause(ctx)
		unhook := context.AfterFunc(session.ctx, func() { cancel(context.Cause(session.ctx)) })
		err = profile.Run(during, task)
		unhook()
		cancel(nil)
		if delay = 0; err != nil && session.ctx.Err() == nil {
			delay = min(max(firstDelay, 2*delay), maxDelay) // a program that cannot run now cannot run a moment later
		}
	}
}
