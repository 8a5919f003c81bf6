// Package message has the messages that the actors of a troupe send to each other, and Conn,
// through which a connection reaches its client. A message is a value: nobody changes it after
// it was sent.
package message

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

type (
	// Attach is for the troupe. The sender becomes owner or observer of a session
	// and is answered with Attached, or with a Reply that has an error. It is
	// watched: when it stops, it is detached.
	Attach struct {
		Token uint64 // comes back in the answer
		// SessionID is the session to resume; "" opens a new one.
		SessionID string
		Role      protocol.Role // "" means owner
		Takeover  bool          // an owner that is still attached is evicted
		// Options of a new session.
		Options protocol.SessionOptions
		// From is whom a new session counts for: Config.MaxSessionsEach. An address now, and an
		// identity where there is authentication.
		From string
		// Ephemeral: a new session ends as soon as it has no owner, and forgets a process
		// once that has had its end.
		Ephemeral bool
	}
	// Attached answers an Attach.
	Attached struct {
		Token     uint64
		SessionID string
		Session   *actor.PID // for Request
		Role      protocol.Role
		Processes []ProcessRef // those that have started
		// Removed are those that the server had to give up not long ago: who did not hear
		// of it then does now.
		Removed []ProcessRemoved
	}
	// ProcessRef names a process: by the client's id, and by its actor.
	ProcessRef struct {
		ID  string
		PID *actor.PID
	}
	// Request is a call of the wire. Params is one of the protocol's params types,
	// as a value. A session answers ProcessStartParams (with Started),
	// SessionInfoRequest, SessionCloseParams, GroupStartParams (with GroupStarted),
	// GroupStopParams and GroupListRequest; a process all that is about it.
	Request struct {
		Token  uint64 // comes back in the Reply
		Params any
	}
	// Reply answers a Request. Result is the protocol's result type, as a value.
	Reply struct {
		Token  uint64
		Result any
		Err    *protocol.Error // nil: it succeeded
		// From and To say which entries of the log a ProcessReadResult has: after
		// From, up to To. They are for an Ack once the client has it.
		From, To uint64
	}
	// Started is the Result of a ProcessStartParams.
	Started struct {
		protocol.ProcessStartResult
		Process ProcessRef
	}
	// GroupStarted is the Result of a GroupStartParams.
	GroupStarted struct {
		protocol.GroupStartResult
		Processes []ProcessRef
	}
	// SessionInfoRequest asks a session for its protocol.SessionInfoResult.
	SessionInfoRequest struct{}
	// DescribeRequest asks a process for its protocol.ProcessInfo.
	DescribeRequest struct{}
	// ProcessAdded tells all who are attached, except those who started it.
	ProcessAdded struct{ Process ProcessRef }
	// ProcessRemoved tells all who are attached that a process can no longer be
	// asked. Reason is "" when it had closed and its retention is over. Else Last is
	// the last seq there was, and Closed says that it was the one of closed: who
	// has all up to there has missed nothing. Zero Last: unknown.
	ProcessRemoved struct {
		ID, Reason string
		Last       uint64
		Closed     bool
	}
	// GroupListRequest asks a session for its protocol.GroupListResult.
	GroupListRequest struct{}
	// GroupChanged tells all who are attached that a group is in another state.
	GroupChanged struct {
		protocol.GroupChangedNotification
	}
	// Evicted tells one who was attached that it is no longer.
	Evicted struct{ Reason string }
	// Expiring tells an observer that its session has lost its owner, and all who
	// are attached that it has reached its age, or the server shuts down.
	Expiring struct {
		InMs   uint64
		Reason string
	}
)

type (
	// Subscribe is for a process: the sender becomes a viewer, or moves its cursor.
	// It gets a Delivery for each Pull. Pull below is the first one.
	Subscribe struct {
		Pull  int    // as Pull.Bytes; 0: none yet
		After uint64 // the cursor starts behind this seq
		Now   bool   // it starts behind all that has happened; After does not count
		// Owner: what it has not acknowledged is kept for it.
		Owner bool
		// Explicit: of an owner only an Ack acknowledges, neither where it starts nor
		// what it reads.
		Explicit bool
		// Resumed: it answers a Resubscribe. The owner goes on with the acknowledgements
		// it owes; else, but with Now, it acknowledges all up to After.
		Resumed bool
	}
	// Pull asks for one Delivery of at most Bytes of output, at least one entry. It
	// is answered when there is something. A second one replaces the first.
	Pull struct{ Bytes int }
	// Delivery answers a Pull. Entries continue where the last one ended, or behind
	// Gap. Neither may be changed: all viewers share them. An Entry whose process has a
	// spool may be Spooled: then its output is on disk, and reading it blocks.
	Delivery struct {
		Process string
		Gap     outlog.Gap
		Entries []outlog.Entry
		// AckEvery is after how many bytes an owner should say that it has them, lest the
		// program wait: what is kept for it is a few times that.
		AckEvery int64
	}
	// Ack is from an owner: it has made all entries after From up to To its own.
	Ack struct{ From, To uint64 }
	// Refused answers a Subscribe that starts after the last entry.
	Refused struct {
		Process string
		Err     *protocol.Error
	}
	// Unsubscribe ends what Subscribe began.
	Unsubscribe struct{}
	// Resubscribe tells a viewer that the process's actor has been restarted: it
	// should Subscribe after the last entry it had, and Pull;
	// or after After if it had none yet.
	Resubscribe struct {
		Process ProcessRef
		After   uint64
	}
)

// Release says that the output of m was written or copied, and is not looked at any
// more: its memory, and where it lies on disk, may be used again. It may be left out,
// which leaves that to the collector, and be called once.
func (m *Delivery) Release() {
	for i := range m.Entries {
		m.Entries[i].Release()
	}
}

func (m Attach) Failed(e *protocol.Error) any { return Reply{Token: m.Token, Err: e} }

func (m Request) Failed(e *protocol.Error) any { return Reply{Token: m.Token, Err: e} }

func (m Attach) Unheard(*actor.PID) any {
	if m.SessionID != "" {
		return m.Failed(wireerr.UnknownSession(m.SessionID))
	}
	return m.Failed(wireerr.ErrShutdown)
}

func (m Request) Unheard(to *actor.PID) any {
	path := strings.Split(to.Id, "/")
	switch name := path[len(path)-1]; {
	case strings.HasPrefix(name, CommandPrefix):
		return nil // its connection answers when it ends
	case strings.HasPrefix(name, "p-"):
		id := ""
		if about, ok := m.Params.(protocol.AboutProcess); ok {
			id = about.Process()
		}
		return m.Failed(wireerr.UnknownProcess(id))
	case name == SessionName && len(path) > 1:
		return m.Failed(protocol.Errorf(protocol.CodeInvalidRequest, "session %s has ended", path[len(path)-2]))
	default:
		return m.Failed(wireerr.ErrShutdown)
	}
}

func (m Delivery) GiveBack() { m.Release() }

// What reaches nobody, because it was on its way when its actor ended, is no news.

func (Pull) IgnoreDeadLetterLogging() {}

func (Delivery) IgnoreDeadLetterLogging() {}

func (Ack) IgnoreDeadLetterLogging() {}

func (Subscribe) IgnoreDeadLetterLogging() {}

func (Unsubscribe) IgnoreDeadLetterLogging() {}

func (Reply) IgnoreDeadLetterLogging() {}

func (Resubscribe) IgnoreDeadLetterLogging() {}
