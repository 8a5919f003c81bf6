package actors

import "github.com/asynkron/protoactor-go/actor"

// A place is a point within a handler, between two changes of state that belong together.
// Tests have an actor fail at each of them: the next instance finishes what was begun, and
// neither loses nor repeats what was done.
type place string

const (
	factLogged     place = "a fact is in the log, not settled"
	exitLogged     place = "exited is in the log, the phase is running"
	exitPhase      place = "the phase is exited, what follows is not done"
	runOver        place = "the next run is decided, what the last one left is there"
	closeLogged    place = "closed is in the log, the phase is not closed"
	closePhase     place = "the phase is closed, nobody was told"
	spawnPrepared  place = "a run has its intake, the spawner was not asked"
	spawnAsked     place = "the spawner was asked, nothing else is done"
	runningSet     place = "a child is there, its start was not announced"
	runBegun       place = "the start was announced, the run is not watched"
	restartLogged  place = "restarted is in the log, the next run was not asked for"
	runCounted     place = "the next run counts, the spawner was not asked"
	deliveryRead   place = "a delivery was read, not sent"
	deliverySent   place = "a delivery was sent, its cursor is where it was"
	readAnswered   place = "a parked read was answered, and is still parked"
	stdinTaken     place = "a write is in the queue of stdin, not answered"
	stdinAnswered  place = "a write was answered, and is still parked"
	stopSet        place = "the process is to stop, nothing was signalled"
	runEnding      place = "a run is to end, nothing was signalled"
	orderTaken     place = "an order was taken, not followed"
	treeGoneSet    place = "the tree is gone, what follows is not done"
	retiredPhase   place = "the phase is retired, the log holds its memory"
	ownerSet       place = "the session has an owner, who was not told"
	tabled         place = "a process is in the table, its actor was not asked for"
	startTold      place = "who started a process was told, the table not"
	retiredTold    place = "a retired process was announced, and is in the table"
	goneTold       place = "a process that went was announced, and is in the table"
	ownerGone      place = "the session has no owner, its time does not run"
	closingSet     place = "the session is closing, no process was told"
	groupTabled    place = "a group is in the table, its actor was not asked for"
	groupAnswered  place = "group/start was answered, and may be again"
	groupGoneTold  place = "the end of a group's actor was told, the group is in the table"
	groupStateTold place = "the state of a group was told, the table has the old one"
	groupDecided   place = "a group has decided, no process was told"
	groupOrdered   place = "a group has sent an order"
	groupStateSaid place = "a group has told its state, and may tell it again"
	sessionKnown   place = "the registry knows a session, which was not asked for"
)

// at is where a handler comes by a place.
func (s *shared) at(ctx actor.Context, p place) {
	if s.Faults.Actor != nil {
		s.Faults.Actor(ctx.Self(), p)
	}
}
