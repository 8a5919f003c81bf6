package message

import "github.com/b6f6fdd7/troupe/supervision"

// News of the processes of a group: the session has the groups.

// MemberReady is from a process of a group to the session: the run is ready. It comes again after a Report.
type MemberReady struct {
	ID, Name string // the client's, and the actor's: another process may have the ID since
	Run      int
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberReady) IgnoreDeadLetterLogging() {}

// MemberEnded is from a process of a group to the session: the run has ended, and its whole tree is gone. It comes
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

// MemberGone is from a process of a group to the session: the process has closed, there will be no other run, and the server is not
// killing anything of the process. It comes again after a Report.
type MemberGone struct {
	ID, Name string // as in MemberReady
	Reason   string
	GivenUp  bool // for Reason, although the policy asks for another run
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberGone) IgnoreDeadLetterLogging() {}

// MemberRejoins is from a process of a group to the session: the process is run again after MemberGone, for the nth time. It may come more than
// once.
type MemberRejoins struct {
	ID, Name string
	N        int
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the group may have ended.
func (MemberRejoins) IgnoreDeadLetterLogging() {}

// MemberBack is from a process of a group to the session: the actor of the process was restarted. An Order answers.
type MemberBack struct{ ID, Name string }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberBack) IgnoreDeadLetterLogging() {}
