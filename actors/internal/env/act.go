package env

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// A Machine decides what its actor does. Its inputs are methods of its own, and each input may add actions. Pending actions belong to
// the record of the actor: the next instance begins with them.
type Machine[A any] interface {
	// Next returns the oldest pending action; ok is false if there is none.
	Next() (a A, ok bool)
	// Done removes the oldest pending action.
	Done()
}

// Act does the pending actions of m, and those that come meanwhile. If the actor fails before Done, the next instance does the action
// again. So do has the effect of an action once, however often it is called with it.
func Act[A any](e *Env, ctx actor.Context, m Machine[A], do func(A)) {
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		do(a)
		if e.Faults.Actor() != nil {
			e.At(ctx, Undone(a))
		}
		m.Done()
	}
}

// Undone is the Place between the effect of an action and its Done.
func Undone(a any) Place { return Place(fmt.Sprintf("%T is not done", a)) }
