package message

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/supervision"
)

// MemberReady is from a process to its group: the run is ready. It comes again after a Report.
type MemberReady struct {
	ID, Name string // the client's, and the actor's: an extended group may have another process with the ID
	Run      int
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberReady) IgnoreDeadLetterLogging() {}

// MemberEnded is from a process to its group: the run has ended, and its whole tree is gone. It comes
// again after a Report.
type MemberEnded struct {
	ID, Name string // as in MemberReady
	Run      int
	End      supervision.End
	Restart  supervision.Restart // the policy of the process
	Anew     bool                // a client has set the policy since the last end
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberEnded) IgnoreDeadLetterLogging() {}

// MemberGone is from a process to its group: the process has closed, there will be no other run, and the server is not
// killing anything of the process. It comes again after a Report.
type MemberGone struct {
	ID, Name string // as in MemberReady
	Reason   string
	GivenUp  bool // for Reason, although the policy asks for another run
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberGone) IgnoreDeadLetterLogging() {}

// MemberRejoins is from a process to its group: the process is run again after MemberGone, for the nth time. It may come more than
// once.
type MemberRejoins struct {
	ID, Name string
	N        int
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the group may have ended.
func (MemberRejoins) IgnoreDeadLetterLogging() {}

// MemberBack is from a process to its group: the actor of the process was restarted. An Order answers.
type MemberBack struct{ ID, Name string }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberBack) IgnoreDeadLetterLogging() {}

// ExtendGroup is from a session to a group: these are all its members from now on. It comes when the actors of
// all processes have announced themselves, and may come again.
type ExtendGroup struct {
	Serial  uint64 // counts the extensions of the group
	Members []supervision.Member
	PIDs    map[string]*actor.PID // the actor of each member. The members with another actor than before begin anew
	Labels  map[string]string     // of the members that have one
}

// StopGroup is from a session to a group: end all processes. A GroupReport tells when they have ended.
type StopGroup struct{ Reason string }
