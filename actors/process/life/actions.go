package life

import (
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// An Action is an instruction to the shell. An Action with a Run is about this run only.
type Action any

type (
	// Spawn asks for the child of a run. Spawned, StartFailed or NotStarted follows.
	Spawn struct{ Run int }
	// Begin watches the run, whose child is there now. Begin precedes all other actions of the run.
	Begin struct{ Run int }
	// Unwatch ends the watch of a run, after its end.
	Unwatch struct{ Run int }
	// Finish forgets the child of the run, whose tree is gone. A Spawn follows.
	Finish struct{ Run int }

	// Signal sends the stop signal to the program.
	Signal struct{ Run int }
	// Kill kills the process group of the program.
	Kill struct{ Run int }
	// KillTree kills all descendants of the child. TreeGone follows.
	KillTree struct{ Run int }
	// Abandon stops waiting for descendants with open streams. StreamsEnded follows.
	Abandon struct{ Run int }

	// LogExited puts the end of a run into the log.
	LogExited struct{ Status protocol.ExitStatus }
	// LogRestarted puts the begin of the next run into the log.
	LogRestarted struct {
		Run    int // the next one
		Reason string
		Delay  time.Duration
	}
	// LogEvicted puts the end of the process into the log, when the reason is not an end of a run.
	LogEvicted struct{ Reason string }
	// LogClosed ends the log. Nothing is logged afterwards, and no run follows, unless Reopen comes.
	LogClosed struct{}
	// Reopen takes LogClosed back: the process is run again after its end.
	Reopen struct{}
	// Unstarted logs for the operator: the server could not start a run, and tries again.
	Unstarted struct {
		Run int
		Err error
	}

	// Announce tells the session how the start went.
	Announce struct{}
	// AnswerTrees answers each waiting process/terminate with tree. A nil Err means: the tree is gone.
	AnswerTrees struct{ Err error }
	// TellReady tells the group: the run is ready.
	TellReady struct{ Run int }
	// TellEnded tells the group: a run is over, and its tree is gone.
	TellEnded struct {
		Run     int
		End     supervision.End
		Restart supervision.Restart
		Anew    bool // SetRestart was called since the last TellEnded
	}
	// TellGone tells the group: the process has closed, and the server is not killing anything of it.
	TellGone struct {
		Reason  string
		GivenUp bool
	}

	// TellRejoins tells the group: the process that has left wants to be run again, for the nth time.
	TellRejoins struct{ N int }

	// Cut ends the wait for viewers who have not fetched the end of the log: from now on they get the events alone.
	Cut struct{}
	// DropLog frees the log of a retired process.
	DropLog struct{}
	// TellRetired tells the session to forget the process. Forgotten follows.
	TellRetired struct{}
	// StopActor stops the actor.
	StopActor struct{}
)

// Next returns the oldest pending action; ok is false if there is none. A pending action survives
// a panic of the shell: the next instance of the actor begins with the pending actions.
func (l *Life) Next() (a Action, ok bool) {
	if len(l.pending) == 0 {
		return nil, false
	}
	return l.pending[0], true
}

// Done removes the oldest pending action. The shell calls Done right after the effect: a panic
// before Done repeats the action, and a panic after Done does not.
func (l *Life) Done() {
	l.pending[0] = nil
	if l.pending = l.pending[1:]; len(l.pending) == 0 {
		l.pending = nil // an idle process holds no memory for actions
	}
}

func (l *Life) do(a ...Action) { l.pending = append(l.pending, a...) }
