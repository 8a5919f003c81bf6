package message

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// SessionName is the name of a session actor. The name of its parent, the session's supervisor, is the
// id of the session.
const SessionName = "session"

// Gauge is what the processes of one session count together. The session, its processes and the
// registry share it; any goroutine may use it.
type Gauge struct {
	// Account has KeptBytes, of the server's budget for starts. It closes with the session.
	Account *budget.Account
	// Wrote is when a process last wrote something, in Unix nanoseconds.
	Wrote atomic.Int64
	// HeldBytes is how much output all processes keep for the owner, in bytes.
	HeldBytes atomic.Int64
	// ScreenBytes is how much all screens of processes take, in bytes.
	ScreenBytes atomic.Int64
	// Looks counts the looks at files, for readiness, that wait for a filesystem.
	Looks atomic.Int64
	// KeptBytes is the size of the arguments and environments that processes are started from, in bytes.
	KeptBytes atomic.Int64
}

// LastWrite returns when a process of the session last wrote something.
func (g *Gauge) LastWrite() time.Time { return time.Unix(0, g.Wrote.Load()) }

// Held returns how much output all processes keep for the owner, in bytes.
func (g *Gauge) Held() int64 { return g.HeldBytes.Load() }

// AttachRequest is an Attach with its sender.
type AttachRequest struct {
	Attach
	Sender *actor.PID
}

// ProcessStarted is from a process to its session: the process can be asked. The session's supervisor sends
// it with an error, if the actor of the process could not be spawned. It comes again after an
// Announce.
type ProcessStarted struct {
	ID, Name string // the client's id, and the name of the actor
	Ref      ProcessRef
	Err      *protocol.Error // nil: the process was started
	Sandbox  string          // the sandboxType of the answer; empty if Err is set
}

// Lost is from a connection to its session: the connection has ended, and the client has not closed it.
type Lost struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the session may have ended.
func (Lost) IgnoreDeadLetterLogging() {}

// ProcessClosed is from a process to its session: its last run has ended, and its log is complete. It may come more
// than once.
type ProcessClosed struct{ Name string } // of the actor

// ProcessReopened is from a process to its session: the process is run again after ProcessClosed. It may come more than once.
type ProcessReopened struct{ Name string } // of the actor

// GiveWay is from a session to a closed process: the session needs its place. The retention is over once the owner has had everything.
type GiveWay struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have retired.
func (GiveWay) IgnoreDeadLetterLogging() {}

// ProcessRetired is from a process to its session: the retention is over, and the client's id is free.
// Forgotten answers.
type ProcessRetired struct {
	ID, Name string // the client's id, and the name of the actor
	Last     uint64 // the seq of closed
	Acked    uint64 // as in ProcessEnded
}

// ProcessEnded is the last message of a process to its session.
type ProcessEnded struct {
	Name   string // of the actor
	Last   uint64 // the last seq of the log
	Acked  uint64 // the owner has acknowledged all entries up to this seq
	Closed bool   // Last is the seq of closed
	Left   error  // names programs of the process that were not seen gone; nil: none
}

// Gone is the answer to Watch: the actor Who has stopped. Gone does not overtake earlier messages of Who. Of an actor of
// the host, whose Terminated does overtake, the watcher sends itself a Gone. A session also gets Gone from its supervisor.
type Gone struct{ Who *actor.PID }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: a session may end at the same time.
func (Gone) IgnoreDeadLetterLogging() {}

// Look asks any actor of a troupe how it stands. Its gate takes the Look, and answers with a Sight.
type Look struct{}

// Failed implements Answerable. The gate contains a panic over a Look.
func (Look) Failed(*protocol.Error) any { return Sight{} }

// Unheard implements Answerable: the actor has stopped.
func (Look) Unheard(*actor.PID) any { return Sight{Stopped: true} }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the actor may have stopped.
func (Look) IgnoreDeadLetterLogging() {}

// Sight is how an actor stands.
type Sight struct {
	Type    string   // of Go
	State   string   // in words of the actor; "": it has none
	Waits   []string // for what; empty: for its next message
	Behind  int      // messages in its mailbox
	Stopped bool     // or about to stop
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: whoever has asked may be gone.
func (Sight) IgnoreDeadLetterLogging() {}

// Watch asks any actor of a troupe for a Gone when it stops. Its gate (actors/internal/env) takes the Watch, and
// answers at once if the actor has stopped.
type Watch struct{}

// Failed implements Answerable. No actor receives a Watch, so none panics.
func (Watch) Failed(*protocol.Error) any { return nil }

// Unheard implements Answerable.
func (Watch) Unheard(to *actor.PID) any { return Gone{to} }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the actor may have stopped.
func (Watch) IgnoreDeadLetterLogging() {}

// Captured is from the capture of a shell's state to the session: the state is there. The session calls Known once the next server would know the state.
type Captured struct{ Known func() }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Captured) IgnoreDeadLetterLogging() {}

// CaptureOver is from the capture of a shell's state to the session: the capture has no programs any more.
type CaptureOver struct {
	Left error // names programs that were not seen gone; nil: none
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (CaptureOver) IgnoreDeadLetterLogging() {}

// Drain is from the registry to a session: the server shuts down.
type Drain struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the session may end at the same time.
func (Drain) IgnoreDeadLetterLogging() {}

// Evict is from the registry to a session: give way to others. A session with an owner stays.
type Evict struct {
	Reason string
	// IfIdle: a session with processes stays, too. A session that stays answers with Standing.
	IfIdle bool
}

// TellStanding is from a new registry to each session. Standing answers.
type TellStanding struct{}

// Standing is from a session to the registry: what the registry must know in order to choose a session that
// gives way. A session sends Standing when it loses its owner, when an owner is back, and whenever
// Empty changes meanwhile.
type Standing struct {
	ID    string
	Since time.Time // when the session lost its owner; zero: it has an owner
	From  string    // the owner key, as in Attach
	Empty bool      // the session has no process
	Gauge *Gauge
}

// Abandoned is from an ephemeral session that has lost its owner to the registry, and back: close. The way
// through the registry makes Abandoned come after a Drain that was sent before.
type Abandoned struct{ ID string }
