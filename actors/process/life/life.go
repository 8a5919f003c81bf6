// Package life decides about the life of a managed process: when a run starts, gets a signal and
// is killed, which events are logged, and when the process is forgotten.
//
// A Life has no clock, no goroutine and no actor. Its owner, the shell, reports each event with an
// input (Exited, Terminate, Tick, …), does the actions of Next, and calls Tick at Wake.
package life

import (
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Now is the time of an input, with the facts around the process at this time.
type Now struct {
	Time   time.Time
	Chance float64 // at random from [0, 1), for the jitter of a backoff

	Child     bool                // the current or last run has a child
	Exited    bool                // the child has ended; its exit may wait in the intake after unread output
	Status    protocol.ExitStatus // of the child; set only with Exited
	Ready     bool                // the current run is ready
	Probing   bool                // a probe, perhaps of an older run, has not ended
	Full      bool                // the log has no room for another run until the owner has received some of it
	Paced     time.Time           // the earliest time for another run that the rate of starts allows; zero: now
	Watched   bool                // a viewer has not received the whole log
	Alone     bool                // there is no viewer
	Served    bool                // owner and viewers have received the log of a closed process, or have had the time to
	Trees     bool                // a process/terminate waits for AnswerTrees
	TreeEmpty bool                // there is no child, or the child and all its descendants are gone
}

// Config is fixed when the process is started.
type Config struct {
	// Grouped: a group decides when a run starts (Order), not the restart policy.
	Grouped bool
	// AfterEnd: Restart runs the process again after its end, too.
	AfterEnd bool
	// Restart is the restart policy. Nil: a single run.
	Restart *supervision.Restart
	// KillGrace is the time between the stop signal and SIGKILL, whoever ends a run. 0: SIGKILL at once. Only
	// Terminate has a grace of its own.
	KillGrace time.Duration
	// ShutdownGrace is the least grace when the server shuts down. Zero: KillGrace counts.
	ShutdownGrace time.Duration
	// Timeout bounds each run. 0 or less: no bound.
	Timeout time.Duration
	// Keep is how long a closed process can be read.
	Keep time.Duration
	// Drain is how long viewers that go on reading may take for the end of the log, after the tree of a stopped process is gone.
	Drain time.Duration
}

const (
	// StallTime is how long the viewers of a stopped process may fetch nothing before Config.Drain is over. If there is no viewer, Config.Drain
	// is over at once.
	StallTime = 5 * time.Second
	// StartRetry is the pause before the next try, if the server could not start a run.
	StartRetry = time.Second
	// A retired process looks whether its tree has ended after minLinger, and then after pauses.
	// Each pause doubles, up to maxLinger.
	minLinger = 50 * time.Millisecond
	maxLinger = 10 * time.Second
)

// reasonTerminated is the reason of an end by process/terminate.
const reasonTerminated = "terminated by request"

// maxReason is how much of an error the reason of an end has, in bytes.
const maxReason = 1024

const (
	reasonRestarted  = "restarted by request"
	reasonNotStarted = "it could not be started"
	reasonTreeLeft   = "what the last run left could not be killed"
)

// Errors of Restart and SetRestart; a sentence begins with the name of the process.
var (
	ErrOnce  = errors.New("was started without restart: nothing is kept to start it from")
	ErrEnded = errors.New("has ended: start it anew")
	ErrHeld  = errors.New("waits for its group, which says when it is run")
)

// Life is the life of a process. A single goroutine at a time may use a Life.
type Life struct {
	config Config

	begun bool  // Start was called
	over  bool  // End was called: there are no actions any more
	phase Phase // changes only along follows
	run   int   // the current or last run. Each number has a single Spawn, unless NotStarted took the number back

	pending []Action // emitted and not done, oldest first

	ending    ending              // of the current run; zero when a run begins
	between   *between            // nil in every phase but Restarting
	timeoutAt time.Time           // zero: none. Set only while Running
	status    protocol.ExitStatus // of the last ended run

	history    supervision.History
	terminated bool // by process/terminate: no run starts, until process/restart

	order *order // the newest of the group; nil: none has come
	anew  bool   // SetRestart was called since the group was last told an end
	// rejoins is how often the process came back to its group after its end.
	rejoins int32
	gaveUp  string // why the policy gave the process up; "": not given up

	stopping *stopping // nil until Stop; then no run starts, and everything is killed
	leaving  bool      // StopActor was emitted, and is not emitted again

	closedAt  time.Time
	retireAt  time.Time     // the next look whether the process can be forgotten; zero before Closed
	lingers   time.Duration // the last pause between two looks at the tree
	forgotten bool          // the session has forgotten the process
	gaveWay   bool          // GiveWay was called since the end
}

// ending says how the current run is being ended.
type ending struct {
	reason   string // why; "": nobody ends the run. Only an explicit request replaces an earlier reason
	fault    string // the first reason, if the program failed; else ""
	timedOut bool
	again    bool // by process/restart: another run follows, whatever the policy
	rest     bool // the descendants of the program are killed, too
	ordered  bool // the group has ordered the end; a second order does nothing
	stopped  bool // Stop has sent the stop signal; a second Stop sends none
	unread   bool // the group was told the end while output waited for the owner
	killing  bool // KillTree was emitted, and TreeGone has not come
	// killAt is when the run is killed; zero: no kill is due. killAt only moves earlier.
	killAt time.Time
}

// between is the time between two runs, or before the first run of a process of a group. The time
// ends when the old tree is gone, its streams have ended, its probe is over, and the next child is there.
type between struct {
	verdict  supervision.Verdict // Over: somebody has ended the process meanwhile
	reason   string
	delay    time.Duration // in the log
	at       time.Time     // no start before; zero: at once
	ended    time.Time     // the last run; zero: there was none
	treeGone bool          // also if the tree could not be killed: then left says why, and no run follows
	left     error         // nil: nothing is left of the tree
	closed   bool          // the streams of the last run have ended
	logged   bool          // LogRestarted was emitted, or is not due: there was no run
	reopened bool          // Reopen was emitted: the process had ended
	next     int           // the number of the next run; 0: run+1
	last     int           // while spawning: the last run with a begin
	spawning bool          // Spawn was emitted; only with treeGone, closed and logged
	waitAt   time.Time     // Tick is needed then; zero: something else is waited for
	// unstarted: the server could not start the run and tries again; because is the reason before.
	unstarted bool
	because   string

	// Of a process of a group:
	held bool             // the group has not ordered the next run
	told int              // the run whose end the group was told
	end  *supervision.End // of the last run; nil: there was none
}

// stopping is the end of the process by Stop.
type stopping struct {
	// The newest Stop. shutdown is the longest KillGrace. Negative: no bound.
	reason   string
	shutdown time.Duration

	treeDone  bool      // the tree was seen gone, or could not be killed
	survivors error     // why the tree could not be killed; then the log may never close
	drained   time.Time // Config.Drain is over then; zero: the tree is not gone yet
	cutAt     time.Time // until then viewers may fetch the end of the log, never after drained; zero: not yet, or no longer
}

// New returns the life of a process before Start.
func New(c Config) Life { return Life{config: c} }

// Start is the first input. A process of a group waits for an order; any other asks for a child.
func (l *Life) Start() {
	if l.begun {
		return
	}
	l.begun = true
	if l.config.Grouped {
		l.phase = Restarting
		l.between = &between{verdict: supervision.Again, held: true, treeGone: true, closed: true, logged: true}
		l.do(Announce{})
		return
	}
	l.run = 1
	l.do(Spawn{l.run})
}

// Resume is the first input after a panic: replies on their way may be lost.
func (l *Life) Resume(now Now) {
	l.leaving = false
	switch {
	case l.over:
	case l.ending.killing && now.Child:
		l.do(KillTree{l.run})
	case now.Trees:
		l.killTree(now)
	}
}

// End is the last input: the actor stops.
func (l *Life) End() {
	l.over, l.pending, l.between = true, nil, nil
}

// Tick does everything due at now or newly possible. The shell calls Tick at Wake, and
// after every other event unless the Life is Idle. Tick may be repeated.
func (l *Life) Tick(now Now) error {
	if l.over {
		return nil
	}
	if due(&l.ending.killAt, now) {
		l.killNow(now)
	}
	if due(&l.timeoutAt, now) {
		l.timeout(now)
	}
	if l.stopping != nil && due(&l.stopping.cutAt, now) {
		l.do(Cut{})
	}
	if due(&l.retireAt, now) {
		l.Retire(now)
	}
	if err := l.advance(now); err != nil {
		return err
	}
	l.mayStop(now)
	return nil
}

// due reports whether a time has come, and clears it then.
func due(at *time.Time, now Now) bool {
	if at.IsZero() || now.Time.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// sooner moves at to t, if at is later or zero.
func sooner(at *time.Time, t time.Time) {
	if at.IsZero() || t.Before(*at) {
		*at = t
	}
}

// Wake returns when Tick is next due; zero: only after another input.
func (l *Life) Wake() (at time.Time) {
	if l.over {
		return at
	}
	times := [5]time.Time{l.ending.killAt, l.timeoutAt, l.retireAt}
	if l.between != nil {
		times[3] = l.between.waitAt
	}
	if l.stopping != nil {
		times[4] = l.stopping.cutAt
	}
	for _, t := range times {
		if !t.IsZero() {
			sooner(&at, t)
		}
	}
	return at
}

// Idle reports whether Tick does nothing before Wake, whatever else the shell sees. Then the shell
// need not call Tick after each event.
func (l *Life) Idle() bool {
	return len(l.pending) == 0 && l.between == nil && l.stopping == nil
}

// Begun reports whether Start was called.
func (l *Life) Begun() bool { return l.begun }

// Over reports whether End was called.
func (l *Life) Over() bool { return l.over }

// Phase returns the current phase.
func (l *Life) Phase() Phase { return l.phase }

// Run returns the number of the current or last run; 0 before the first.
func (l *Life) Run() int { return l.run }

// Status returns how the last run ended; zero before the first end.
func (l *Life) Status() protocol.ExitStatus { return l.status }

// Reason returns why the current run is being ended; "" if nobody ends the run.
func (l *Life) Reason() string { return l.ending.reason }

// KillAt returns when the current run will be killed; zero if no kill is due.
func (l *Life) KillAt() time.Time { return l.ending.killAt }

// ClosedAt returns when the log was closed; zero before Closed.
func (l *Life) ClosedAt() time.Time { return l.closedAt }

// Kills reports whether the tree is being killed, or the process stops.
func (l *Life) Kills() bool { return l.ending.killing || l.stopping != nil }

// Restartable reports whether the process has a restart policy.
func (l *Life) Restartable() bool { return l.config.Restart != nil }

// Survivors says why the tree could not be killed after Stop; nil if the tree is gone, or not yet.
func (l *Life) Survivors() error {
	if l.stopping == nil {
		return nil
	}
	return l.stopping.survivors
}

// Spawning reports whether a Spawn has had no answer.
func (l *Life) Spawning() bool {
	return !l.over && (l.begun && l.phase == Starting || l.between != nil && l.between.spawning)
}

// Wait describes why a process is not running, while it is Restarting.
type Wait struct {
	Held   bool // for its group
	Reason string
	At     time.Time // no start before; zero: not known
	Ended  time.Time // the last run; zero: there was none
}

// Waits returns the Wait of a Restarting process; ok is false in other phases.
func (l *Life) Waits() (w Wait, ok bool) {
	if n := l.between; n != nil {
		return Wait{n.held, n.reason, n.at, n.ended}, true
	}
	return w, false
}
