package message

import "github.com/b6f6fdd7/troupe/supervision"

// MemberReady is from a process to its group: the run is ready. It comes again after a Report.
type MemberReady struct {
	ID  string // the client's
	Run int
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberReady) IgnoreDeadLetterLogging() {}

// MemberEnded is from a process to its group: the run has ended, and its whole tree is gone. It comes
// again after a Report.
type MemberEnded struct {
	ID      string // the client's
	Run     int
	End     supervision.End
	Restart supervision.Restart // the policy of the process
	Anew    bool                // a client has set the policy since the last end
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberEnded) IgnoreDeadLetterLogging() {}

// MemberGone is from a process to its group: the process has closed, and there will be no other run. It
// comes again after a Report.
type MemberGone struct {
	ID, Reason string // ID is the client's
	GivenUp    bool   // for Reason, although the policy asks for another run
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberGone) IgnoreDeadLetterLogging() {}

// MemberBack is from a process to its group: the actor of the process was restarted. An Order answers.
type MemberBack struct{ ID string }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (MemberBack) IgnoreDeadLetterLogging() {}

// StopGroup is from a session to a group: end all processes. A GroupReport tells when they have ended.
type StopGroup struct{ Reason string }
