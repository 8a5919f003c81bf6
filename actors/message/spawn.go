package message

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An actor that has children holds no logic: it spawns the Props that it is sent, and knows nothing
// else of its children. Whoever wants a child there has the Props made by the child's constructor.

// Spawn asks for a child. If its handler fails, the guard has it done again.
type Spawn struct {
	Name  string
	Props *actor.Props
	Label string // the child, in errors
	// Done is the answer when the child was spawned, or could not be; nil: no answer.
	// Watching a child that is not there tells the difference.
	Done any
}

// SpawnRequest asks for a child whose sender is told if it does not come to be.
type SpawnRequest struct {
	Spawn
	Refused func(*protocol.Error) any // makes that answer
	Ended   *protocol.Error           // what the answer says if the parent has ended
	Unused  func()                    // gives back what the Props hold; any number of times
}

func (m SpawnRequest) Failed(err *protocol.Error) any { return m.Refused(err) }
func (m SpawnRequest) Unheard(*actor.PID) any         { return m.Refused(m.Ended) }
func (m SpawnRequest) GiveBack()                      { m.Unused() }

// Under spawns the child under ctx.
func (m Spawn) Under(ctx actor.Context) *protocol.Error {
	if _, err := ctx.SpawnNamed(m.Props, m.Name); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "spawn %s: %v", m.Label, err)
	}
	return nil
}

// Under spawns the child under ctx, or tells the sender.
func (m SpawnRequest) Under(ctx actor.Context) {
	if err := m.Spawn.Under(ctx); err != nil {
		m.Unused()
		ctx.Respond(m.Refused(err))
	}
}

// ToChildren sends m to all children of an actor.
func ToChildren(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}
