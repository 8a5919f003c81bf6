package message

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

type (
	Forgotten struct{} // session, to processRetired
	Announce  struct{} // session, after a restart: say again that you have started

)

type (
	// Stop is from the session; our Terminated is the answer.
	Stop struct {
		Reason string
		// shutdown is the server's grace at its own end: the default, and the most,
		// between SIGTERM and SIGKILL. Negative: only the process's own killGraceMs
		// counts.
		Shutdown time.Duration
	}
	// session: it has stopped; or it was evicted, and what it may still send comes
	// too late: its successor sends again what was not answered.
	ViewerGone struct {
		PID     *actor.PID
		Evicted bool
	}
)

type (
	// KillTreeRequest is process/terminate with tree, which is answered at once.
	KillTreeRequest struct{}
)
