package message

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to the registry, beside Attach and sessionSpawned.
type (
	// sessions: what listSessions asked for, or that it could not be answered
	SessionList       struct{ Supervisors []*actor.PID }
	SessionListFailed struct{}
)

type (
	// Shutdown: let no session live
	DrainAll struct{}
)

// Messages to the sessions actor, beside spawnRequest.
type (
	// registry, behind each spawnRequest: comes back
	SessionSpawned struct{ ID string }
	ListSessions   struct{} // registry, when it is new
	BudgetLow      struct{} // budget; to every process: keep nothing that your owner has had

)

func (ListSessions) Failed(*protocol.Error) any { return SessionListFailed{} }

func (ListSessions) Unheard(*actor.PID) any { return nil }
