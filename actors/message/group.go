package message

import (
	"github.com/b6f6fdd7/troupe/supervision"
)

// Messages to a group actor. The first four are from its processes, which repeat what
// may have been lost.
type (
	MemberReady struct {
		ID  string
		Run int
	}
	MemberEnded struct { // a run has, and all that it left is gone
		ID      string
		Run     int
		End     supervision.End
		Restart supervision.Restart
		Anew    bool // that has been set since the last end
	}
	MemberGone struct { // it has closed
		ID, Reason string
		GivenUp    bool // for that reason, although its policy asks for another run
	}
	MemberBack struct{ ID string }     // its actor has been restarted
	StopGroup  struct{ Reason string } // session; groupTold says when all have ended

)

// Messages of a group to its processes, and of the session to the group.
type (
	// Order is what a process is to do. It comes again when that changes, and may come
	// oftener; the one with the highest serial counts.
	Order struct {
		Serial uint64
		Status supervision.MemberStatus
	}
	// Report asks for what was last said: the other has been restarted.
	Report struct{}
)

func (MemberReady) IgnoreDeadLetterLogging() {}

func (MemberEnded) IgnoreDeadLetterLogging() {}

func (MemberGone) IgnoreDeadLetterLogging() {}

func (MemberBack) IgnoreDeadLetterLogging() {}

func (Order) IgnoreDeadLetterLogging() {}

func (Report) IgnoreDeadLetterLogging() {}
