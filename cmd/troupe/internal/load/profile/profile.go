//go:build unix

// Package profile has the client's side of each profile. The client starts a program, plays its part of the profile, and checks the events
// of the program. Package program has the program's side.
package profile

import (
	"context"
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// A Session is a session of the run. The session survives cuts.
type Session interface {
	Name() string   // in the report: s0, s1, …
	ID() string     // the id on the server
	Server() string // its URL
	Ours() bool     // the server has the extensions of troupe
	Cuts() int      // until now

	// Call sends a request and waits for its answer. After a cut, Call resumes the session and sends the request again. A server without
	// requestId may refuse the repetition of a request that it has carried out ("already exists"); Call then reports success.
	Call(ctx context.Context, method string, params, result any) error

	// Write writes to the stdin of a process, and also repeats the request after a cut. done is called once, on another goroutine, when the
	// server has accepted or refused the bytes. Write copies data. If MaxWrites writes have no answer yet, Write fails.
	Write(process string, data []byte, done func(error)) error

	// Follow makes the session call f with the events of a process, one at a time and in their order, from any goroutine of the session. The
	// event is valid until f returns. Call Follow before starting the process. Unfollow ends the calls.
	Follow(process string, f func(e *oracle.Event, at time.Time))
	Unfollow(process string)

	// Observe opens a second connection, which watches the session and calls f with its own events. close ends the connection. ended is closed
	// when the connection has ended and f has had the last event. If the server has no observers, Observe fails.
	Observe(ctx context.Context, f func(process string, e *oracle.Event, at time.Time)) (close func(), ended <-chan struct{}, err error)

	// Leave cuts the connection, and resumes the session after away. Away reports whether the client was away at any time between from and to
	// because of a Leave: from the Leave to the resume. to is a time of the last moments.
	Leave(away time.Duration)
	Away(from, to time.Time) bool
}

// MaxWrites bounds the writes of a session without an answer.
const MaxWrites = 1024

// A Task is a program of a profile, to be run once.
type Task struct {
	Plan    *plan.Plan // names the Program
	Part    plan.Part
	Session Session
	Name    string // of the process, unique in its session
	RunID   string // of the load run; the program's environment has it as TROUPE_LOAD
	Rec     *figures.Recorder
	Began   time.Time // of the load run

	// Moments are the times at which the operations of an open run are due. Moments is nil in a closed run, and for profiles without
	// an Operation. All Tasks of a phase share the channel: the first free Task takes the next moment, and measures from the due time. A Task
	// takes a moment only when it can begin its operation at once. The engine counts result.Due and result.Late, and counts the moments without a Task as
	// result.Missed. A Task counts a moment as result.Missed if its operation fails or gets no answer.
	Moments <-chan time.Time

	// Acts are Kill and Freeze of the chaos for this program. The Task sends the signals itself, because the Task must then expect another
	// exit. The Task also counts Kills and Freezes.
	Acts <-chan chaos.Act

	// Clock is the difference between the clocks: the time in a line plus Clock is the time of this machine.
	Clock time.Duration
}

// ErrLost means that a session cannot be resumed. Every Call and Write of the session fails with ErrLost. ErrLost is also the cause of the
// end of the ctx of the session's Tasks. The checks of a Task end there: events that can no longer arrive are no finding.
var ErrLost = errors.New("the session is lost")

// ErrAnswer means that a request had no answer in time, or an answer that cannot be right. The session has reported the finding.
var ErrAnswer = errors.New("the server owes the answer")

// Operation returns the name of the latency of the operations of p; "": the programs of p have no operations. An open run deals out operations
// by Moments.
func Operation(p plan.Profile) string {
	return map[plan.Profile]string{plan.Spawn: result.Spawned, plan.Echo: result.Echo, plan.Upload: result.Block}[p]
}

// miss counts n operations of an open run that were due and get no latency. A closed run has no due operations.
func (t *Task) miss(n int) {
	if t.Moments != nil && n > 0 {
		t.Rec.Miss(Operation(t.Part.Profile), int64(n))
	}
}

// Run runs the program until Part.Life is over or ctx is done, ends the program, and waits for its end. When Run returns, nothing of the
// program is left, or there is a finding. Run's error is the reason why the program could not run; Run has recorded the error.
func Run(ctx context.Context, t *Task) error {
	due := time.Now()
	if t.Part.Profile == plan.Spawn && t.Moments != nil {
		select {
		case due = <-t.Moments:
		case <-ctx.Done():
			return nil
		}
	}
	spawned := t.Part.Profile != plan.Spawn
	defer func() {
		if !spawned {
			t.miss(1)
		}
	}()
	p, err := newProcess(ctx, t)
	if err != nil {
		t.Rec.Error(err)
		return err
	}
	p.watch(ctx)
	defer func() {
		for _, w := range p.watchers {
			w.end()
		}
	}()
	if err := p.begin(); err != nil {
		return err
	}
	defer t.Rec.Gauge(figures.Processes, -1)
	defer p.missRest()
	p.live(ctx)
	closed := p.finish(ctx)
	whole := closed && !p.starved.Load()
	if whole {
		p.awaitExited()
		p.checkRestarts()
	}
	if closed { // otherwise more events may come, and are no finding
		t.Session.Unfollow(t.Name) // from here on, the session reports events of the process
	}
	if !whole {
		p.checker.Abandon(time.Now())
		if closed {
			t.Rec.Add(result.Ends, 1)
		}
		return nil
	}
	p.checker.End(time.Now())
	t.Rec.Add(result.Ends, 1)
	if t.Part.Profile == plan.Spawn {
		spawned = true
		t.Rec.Add(result.Operations, 1)
		p.latency(result.Spawned, due, p.closedAt, 0)
	}
	p.awaitWatchers()
	return nil
}
