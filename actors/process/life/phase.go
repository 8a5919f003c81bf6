package life

import (
	"fmt"
	"slices"
)

// Phase is where a process is in its life.
//
//	             restarting ── given up, terminated ──────────────▶ ┐
//	               ▲   ▲ │ └◀───── run again after the end ─────────┤
//	               │   └─│────────────────────┤                     ▼
//	starting ─▶ running ◀┘─ leader exits ─▶ exited ─ streams end ─▶ closed ─▶ retired
//	    └──────────┴─────────── stop: any phase, and then gone ──────┴──────────┘
type Phase int

const (
	Starting   Phase = iota // the first child was asked for
	Running                 // a run has a child, and its exit is not logged
	Restarting              // between two runs, or before the first run of a process of a group
	Exited                  // the last run is over, and its streams are open
	Closed                  // the log is complete, unless the process is run again
	Retired                 // the log was dropped; the actor waits for its session and for the tree
)

func (p Phase) String() string {
	return [...]string{"starting", "running", "restarting", "exited", "closed", "retired"}[p]
}

// follows has, for each phase, the phases that may come next.
var follows = [...][]Phase{
	Starting:   {Running, Restarting},
	Running:    {Restarting, Exited},
	Restarting: {Running, Closed},
	Exited:     {Closed, Restarting},
	Closed:     {Retired, Restarting},
	Retired:    {},
}

// A TransitionError means: an input asked for a phase that may not follow the current phase.
// The input changed nothing.
type TransitionError struct{ From, To Phase }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("life: a process that is %v cannot become %v", e.From, e.To)
}

// may returns a TransitionError if phase to cannot follow the current phase.
func (l *Life) may(to Phase) error {
	if slices.Contains(follows[l.phase], to) {
		return nil
	}
	return &TransitionError{l.phase, to}
}

// enter changes the phase.
func (l *Life) enter(to Phase) error {
	err := l.may(to)
	if err == nil {
		l.phase = to
	}
	return err
}
