package message

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Spawn asks the receiver for a child. Actors that have children hold no logic: they spawn the Props in the
// message, and know nothing else of the child. The constructor of the child makes the Props. If the
// receiver panics, the guard sends it the Spawn again.
type Spawn struct {
	Name  string
	Props *actor.Props
	Label string // names the child in errors: "process web"
}

// Under spawns the child under the actor of ctx.
func (m Spawn) Under(ctx actor.Context) *protocol.Error {
	if _, err := ctx.SpawnNamed(m.Props, m.Name); err != nil {
		return protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "spawn %s: %v", m.Label, err)
	}
	return nil
}

// SpawnRequest asks the receiver for a child, and gets an answer only if there will be no child.
type SpawnRequest struct {
	Spawn
	Refused func(*protocol.Error) any // makes the answer
	Ended   *protocol.Error           // the error in the answer if the receiver has ended
	Unused  func()                    // gives back the resources of the Props; may be called repeatedly
}

// Failed implements Answerable.
func (m SpawnRequest) Failed(err *protocol.Error) any { return m.Refused(err) }

// Unheard implements Answerable.
func (m SpawnRequest) Unheard(*actor.PID) any { return m.Refused(m.Ended) }

// GiveBack implements Holder.
func (m SpawnRequest) GiveBack() { m.Unused() }

// Under spawns the child under the actor of ctx. If that fails, Under answers the sender.
func (m SpawnRequest) Under(ctx actor.Context) {
	if err := m.Spawn.Under(ctx); err != nil {
		m.Unused()
		ctx.Respond(m.Refused(err))
	}
}

// ToChildren sends m to all children of the actor of ctx.
func ToChildren(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}

// ForgetEnded lets go of the child whose Terminated the actor of ctx receives. protoactor keeps a pointer to an
// ended child behind the end of its list, and so the memory of the child, until another child takes the place.
func ForgetEnded(ctx actor.Context) {
	if children := ctx.Children(); len(children) < cap(children) {
		children[:len(children)+1][len(children)] = nil
	}
}
