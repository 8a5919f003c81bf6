package env

import "github.com/asynkron/protoactor-go/actor"

// A Place is a point within a handler, between two changes of state that belong together. Tests have an
// actor fail at each Place: the next instance must finish the work, without losing or repeating a part.
type Place string

const (
	FactLogged     Place = "a fact is in the log, not settled"
	DeliveryRead   Place = "a delivery was read, not sent"
	DeliverySent   Place = "a delivery was sent, its cursor is where it was"
	ReadAnswered   Place = "a parked read was answered, and is still parked"
	StdinTaken     Place = "a write is in the queue of stdin, not answered"
	StdinAnswered  Place = "a write was answered, and is still parked"
	OwnerSet       Place = "the session has an owner, who was not told"
	Tabled         Place = "a process is in the table, its actor was not asked for"
	StartTold      Place = "who started a process was told, the table not"
	RetiredTold    Place = "a retired process was announced, and is in the table"
	GoneTold       Place = "a process that went was announced, and is in the table"
	OwnerGone      Place = "the session has no owner, its time does not run"
	ClosingSet     Place = "the session is closing, no process was told"
	GroupAnswered  Place = "group/start was answered, and may be again"
	GroupStateTold Place = "the state of a group was told, the table has the old one"
	GroupDecided   Place = "a group has decided, no process was told"
	GroupOrdered   Place = "a group has sent an order"
	SessionKnown   Place = "the registry knows a session, which was not asked for"
)

// At gives a test the chance to have the actor of ctx fail at the place p.
func (s *Env) At(ctx actor.Context, p Place) {
	if fault := s.Faults.Actor(); fault != nil {
		fault(ctx.Self(), p)
	}
}
