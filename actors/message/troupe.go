package message

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Reasons for the end of a session. Clients are told.
const (
	ReasonShutdown = "server shutdown"
	ReasonClosed   = "session closed by request"
)

// Connect is from Troupe.Accept to the root, which passes it to the connections actor: serve Conn.
type Connect struct {
	Conn  Conn
	About identity.About
}

// GiveBack closes the connection.
func (m Connect) GiveBack() { go m.Conn.Close(protocol.CloseGoingAway, ReasonShutdown) } // it may wait for the peer a little

// DrainAll is from Troupe.Shutdown, through the root, to the registry: end every session, open none.
type DrainAll struct{}

// DisconnectAll is from Troupe.Shutdown, through the root, to the connections actor, when no session is
// left: end every connection, accept none.
type DisconnectAll struct{}

// Leave is from Troupe.Drain, through the root, to the registry, which opens no session from now on, and passes Leave on to each session: the session
// ends at Until. A Leave with the zero Until takes an earlier one back.
type Leave struct{ Until time.Time }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the session may end at the same time.
func (Leave) IgnoreDeadLetterLogging() {}

// ReasonLeaves is the reason of sessions that a Leave ends.
const ReasonLeaves = "the server is being drained, and ends"

// RoundTrip is from Troupe.RoundTrip, through the root, to the connections actor, the registry and the sessions actor, each of which passes it on to the
// next. The last one calls Done.
type RoundTrip struct{ Done func() }

// Retire is from Troupe.RetireWhenIdle, through the root, to the connections actor, which passes Retire on to the
// registry if it has had no connection for For. The registry answers with Retiring. Answer is called once, with how
// long to wait before the next Retire; 0: the troupe has retired.
type Retire struct {
	For    time.Duration // how long nothing has to be there
	Answer func(again time.Duration)
}

// Failed implements Answerable.
func (m Retire) Failed(*protocol.Error) any { return Retiring{Retire: m, Again: m.For} }

// Unheard implements Answerable.
func (m Retire) Unheard(*actor.PID) any { return m.Failed(nil) }

// Retiring is from the registry to the connections actor. Again is 0 if for Retire.For every session had neither an
// owner nor a process. Otherwise Again is how long to wait before the next Retire.
type Retiring struct {
	Retire Retire
	Again  time.Duration
}

// BudgetLow is from the budget of output, through the root and the sessions, to every process: keep nothing
// that the owner has acknowledged. The registry gets BudgetLow too, and may have a session give way. From is the owner key
// whose share of the budget is short; "": the whole budget is.
type BudgetLow struct{ From string }

// ListSessions is from a new registry to the sessions actor. A SessionList answers, or a
// SessionListFailed.
type ListSessions struct{}

// Failed implements Answerable.
func (ListSessions) Failed(*protocol.Error) any { return SessionListFailed{} }

// Unheard implements Answerable.
func (ListSessions) Unheard(*actor.PID) any { return nil }

// SessionSpawned is from the registry to the sessions actor, after each SpawnRequest, and comes back: the
// session was spawned, or could not be.
type SessionSpawned struct {
	ID string
	// Again repeats the Attach that has opened the session. Again waited for the spawn. Its Sender is nil if there was none.
	Again AttachRequest
}

// SessionList is from the sessions actor to the registry.
type SessionList struct{ Supervisors []*actor.PID }

// SessionListFailed says that the sessions actor failed over ListSessions.
type SessionListFailed struct{}
