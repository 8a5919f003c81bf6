package message

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Announce is from a restarted session to each process. ProcessStarted answers.
type Announce struct{}

// Forgotten is from a session to a process, and answers ProcessRetired: the client's id is free.
type Forgotten struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have ended.
func (Forgotten) IgnoreDeadLetterLogging() {}

// Stop is from a session to a process: end with the whole tree, and then stop the actor. Gone is the
// answer.
type Stop struct {
	Reason string
	// Shutdown is the longest time between the stop signal and SIGKILL. 0: SIGKILL at once. Negative: the
	// grace of the process counts.
	Shutdown time.Duration
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have ended.
func (Stop) IgnoreDeadLetterLogging() {}

// ViewerGone is from a session to each process: forget the cursor of PID, and its requests that wait.
type ViewerGone struct {
	PID *actor.PID
	// Evicted: PID lost its session to another owner, and may still send. The process ignores all
	// later messages of PID: the new owner repeats every request without an answer. Not
	// Evicted: PID has stopped.
	Evicted bool
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have ended.
func (ViewerGone) IgnoreDeadLetterLogging() {}

// KillTreeRequest are the Params of a Request to a process: process/terminate with tree, with an answer at
// once.
type KillTreeRequest struct{}

// Order is from the session to a process of a group: what to do. It comes after each change, and may come again.
type Order struct {
	Serial uint64 // the Order with the highest serial counts
	Status supervision.MemberStatus
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Order) IgnoreDeadLetterLogging() {}

// Report is from a session to a process of a group, after a failure of the session or of the group: repeat the last news.
// MemberReady, MemberEnded, MemberGone or MemberRejoins answers, or nothing.
type Report struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Report) IgnoreDeadLetterLogging() {}
