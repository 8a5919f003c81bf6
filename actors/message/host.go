package message

import (
	"cmp"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Identity is who a client is. The zero Identity is every client of a server that asks for no credential.
type Identity = identity.Identity

// Guest is what the owner of a session allows to whoever has the token of a share.
type Guest = identity.Guest

// Attach is from a connection, or from an actor of the host, to the troupe. The sender becomes owner or
// observer of a session, and is detached when it stops. The session answers with Attached; a Reply with
// an error is the answer if the sender was not attached.
type Attach struct {
	Token uint64 // comes back in the answer
	// SessionID is the session to resume; "" opens a new session.
	SessionID string
	Role      protocol.Role // "" means owner
	Takeover  bool          // from an owner that is still attached
	// OpenToken makes the opening of a session repeatable: while the session lives that a sender has opened with a token, an
	// Attach of this sender with the token attaches it to this session. "" means none.
	OpenToken string
	// Options are for a new session.
	Options protocol.SessionOptions
	// From is the owner key of a new session: Config.MaxSessionsEach counts the sessions of each key.
	// Connections use the identity of the client, or else its address. "" means the name of Identity. If Identity has a name,
	// any other From is refused.
	From string
	// Identity is who the client is. A session belongs to the identity that opened the session. For
	// clients that may not reach it, the session does not exist.
	Identity Identity
	// Ephemeral is for a new session. An ephemeral session ends as soon as it has no owner, and
	// forgets a process as soon as the owner has had the end of that process.
	Ephemeral bool
}

// Failed implements Answerable.
func (m Attach) Failed(e *protocol.Error) any { return Reply{Token: m.Token, Err: e} }

// Wrong implements Checked, with the rules of initialize.
func (m Attach) Wrong() *protocol.Error {
	if name := m.Identity.Name; name != "" && m.From != "" && m.From != name {
		return protocol.WrongParams("From is %q, and the sessions of the identity %q count for its name: leave From empty", wireerr.Clip(m.From), wireerr.Clip(name))
	}
	if m.OpenToken != "" && m.SessionID != "" {
		return protocol.WrongParams("OpenToken is %q and SessionID %q, expected one of them: OpenToken opens a session", wireerr.Clip(m.OpenToken), wireerr.Clip(m.SessionID))
	}
	return cmp.Or(wireerr.BadName("OpenToken", m.OpenToken), protocol.Check(protocol.InitializeParams{Role: m.Role, Session: m.Options}))
}

// Unheard implements Answerable.
func (m Attach) Unheard(*actor.PID) any {
	if m.SessionID != "" {
		return m.Failed(wireerr.UnknownSession(m.SessionID))
	}
	return m.Failed(wireerr.ErrShutdown)
}

// Attached is from a session to the sender of an Attach.
type Attached struct {
	Token     uint64 // of the Attach
	SessionID string
	Session   *actor.PID // gets Requests about the session
	Role      protocol.Role
	Processes []ProcessRef // all processes that have started
	// Starting are the ids of the processes that are being started: for each a ProcessAdded or a ProcessRemoved follows.
	Starting []string
	// Removed are processes that the server gave up not long ago, the oldest first: a client that
	// was not attached then hears of them now.
	Removed []ProcessRemoved
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (Attached) IgnoreDeadLetterLogging() {}

// ProcessRef names a process: by the client's id, and by the actor.
type ProcessRef struct {
	ID  string
	PID *actor.PID // gets Requests about the process, and Subscribe
}

// Request is from whoever is attached, to a session or to a process; a Reply answers, with an error if a client could not
// send such Params. Params is the value of a params type of package protocol, or of a request type of this package. A session answers
// protocol.ProcessStartParams (Result: StartResult), protocol.GroupStartParams (GroupStarted),
// protocol.GroupStopParams, protocol.SessionCloseParams, protocol.SessionUpdateParams, protocol.SessionShareParams,
// protocol.SessionUnshareParams, SharesRequest, SessionInfoRequest, SummaryRequest and GroupListRequest. A
// process answers all params that name a process, DescribeRequest and InspectRequest.
type Request struct {
	Token  uint64 // comes back in the Reply
	Params any
	// Guest is the identity of a guest that asks; "": not a guest. A process keeps the writeIds of each guest
	// apart, and ignores their requestIds. So a guest cannot use up, or push out, an id of the owner.
	Guest string
}

// Failed implements Answerable.
func (m Request) Failed(e *protocol.Error) any { return Reply{Token: m.Token, Err: e} }

// Wrong implements Checked, with the rules that the params of a client have.
func (m Request) Wrong() *protocol.Error { return protocol.Check(m.Params) }

// Unheard implements Answerable.
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
		return m.Failed(protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "session %s has ended", path[len(path)-2]))
	default:
		return m.Failed(wireerr.ErrShutdown)
	}
}

// Reply answers a Request, and an Attach that failed.
type Reply struct {
	Token  uint64          // of the Request
	Result any             // a value of the method's result type
	Err    *protocol.Error // nil: the request has succeeded
	// From and To are set with a protocol.ProcessReadResult. The result has the entries of the log
	// after From, up to To: an owner acknowledges them with an Ack of the same From and To.
	From, To uint64
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Reply) IgnoreDeadLetterLogging() {}

// StartResult is the Result for protocol.ProcessStartParams.
type StartResult struct {
	protocol.ProcessStartResult
	Process ProcessRef
}

// GroupStarted is the Result for protocol.GroupStartParams.
type GroupStarted struct {
	protocol.GroupStartResult
	Processes []ProcessRef // the processes of the group that are still there
}

// SessionListRequest are the Params of a Request to the troupe. Result: []*actor.PID, the sessions that
// Identity may observe, and perhaps others.
type SessionListRequest struct{ Identity Identity }

// SummaryRequest are the Params of a Request to a session. Result: Summary, or nil if the session does not
// exist for Identity or belongs to a program of the sister APIs.
type SummaryRequest struct {
	Identity Identity
	Started  bool // Summary.Started is wanted
	Groups   bool // Summary.Groups is wanted
}

// Summary is the Result for SummaryRequest.
type Summary struct {
	protocol.SessionSummary
	Started []ProcessRef // all processes that have started
	Groups  []protocol.GroupInfo
}

// SessionInfoRequest are the Params of a Request to a session. Result: protocol.SessionInfoResult.
type SessionInfoRequest struct{}

// SharesRequest are the Params of a Request to a session. Result: protocol.SessionSharesResult.
type SharesRequest struct{}

// GroupListRequest are the Params of a Request to a session. Result: protocol.GroupListResult.
type GroupListRequest struct{}

// DescribeRequest are the Params of a Request to a process. Result: protocol.ProcessInfo.
type DescribeRequest struct{}

// InspectRequest are the Params of a Request to a process. Result: protocol.ProcessInfoResult, whose Usage is
// without the pressures.
type InspectRequest struct{ Usage bool } // is wanted

// ProcessStarting is from a session to all who are attached, except who starts the process: the id is taken. A ProcessAdded
// or a ProcessRemoved follows.
type ProcessStarting struct{ ID string }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (ProcessStarting) IgnoreDeadLetterLogging() {}

// ProcessAdded is from a session to all who are attached, except those who started the process.
type ProcessAdded struct{ Process ProcessRef }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (ProcessAdded) IgnoreDeadLetterLogging() {}

// ProcessRemoved is from a session to all who are attached: the process does not answer any more, or could not be started.
type ProcessRemoved struct {
	ID string
	// Reason is "" if the process had closed and its retention is over. Otherwise the server gave the
	// process up.
	Reason string
	Last   uint64 // the last seq of the log; 0: unknown
	Acked  uint64 // the owner has acknowledged all entries up to this seq
	Closed bool   // Last is the seq of closed: a viewer that has Last has missed nothing
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (ProcessRemoved) IgnoreDeadLetterLogging() {}

// GroupChanged is from a session to all who are attached: the group has another state.
type GroupChanged struct {
	protocol.GroupChangedNotification
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (GroupChanged) IgnoreDeadLetterLogging() {}

// Evicted tells the receiver that it is not attached any more. A session sends Evicted when another owner
// takes over, and when the session ends. The troupe sends Evicted to its connections at shutdown.
type Evicted struct {
	Reason string
	Over   bool // the session has ended: its processes have sent everything
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (Evicted) IgnoreDeadLetterLogging() {}

// Expiring is from a session to all who are attached: the session ends after InMs milliseconds, unless an
// owner attaches (if the owner was lost). The session may also have reached its maximum age, or the
// server shuts down.
type Expiring struct {
	InMs   uint64
	Reason string
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (Expiring) IgnoreDeadLetterLogging() {}

// Subscribe is to a process: the sender becomes a viewer, or a viewer moves its cursor. The process
// answers each Pull with a Delivery, and a Subscribe beyond the end of the log with Refused.
type Subscribe struct {
	Pull  int    // the first Pull, in bytes; 0: none yet
	After uint64 // the cursor starts after this seq
	Now   bool   // the cursor starts after the last entry; After does not count
	Acked bool   // of an owner: the cursor starts after the last acknowledged entry; After does not count
	Owner bool   // the log keeps all entries that this viewer has not acknowledged
	Hold  bool   // the log keeps all entries that this viewer has not acknowledged, whatever Retention.OnFull says
	// Role is told in process/info, and changes nothing else. "": owner or observer, as Owner says.
	Role protocol.Role
	// Explicit: only an Ack acknowledges. Otherwise an owner acknowledges also where it starts (After), and
	// by process/read.
	Explicit bool
	// Resumed: this is the answer to a Resubscribe. The start of the cursor acknowledges nothing.
	Resumed bool
}

// Wrong returns why the process refuses m; nil: it does not.
func (m Subscribe) Wrong() *protocol.Error {
	switch {
	case m.Pull < 0:
		return protocol.WrongParams("Pull is %d, expected at least 0", m.Pull)
	case m.Now && m.Acked:
		return protocol.WrongParams("Now and Acked are true, expected one of them: each says where the cursor starts")
	}
	return protocol.Check(protocol.InitializeParams{Role: m.Role})
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Subscribe) IgnoreDeadLetterLogging() {}

// Pull is from a viewer to a process: send the next Delivery, of at most Bytes of output, but of at least
// one entry. The process waits until there is an entry. A second Pull replaces the first.
type Pull struct{ Bytes int } // at least 1

// Wrong returns why the process refuses m; nil: it does not.
func (m Pull) Wrong() *protocol.Error {
	if m.Bytes < 1 {
		return protocol.WrongParams("Bytes of a Pull is %d, expected at least 1", m.Bytes)
	}
	return nil
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Pull) IgnoreDeadLetterLogging() {}

// Delivery is from a process to a viewer, and answers a Pull. The entries continue where the last Delivery
// ended, or after Gap. All viewers share the entries: nobody changes them. If the process has a spool, an
// Entry may be Spooled: its output is on disk, and reading it blocks.
type Delivery struct {
	Process string // the client's id
	// Again means: the entries begin after the last entry that the owner has acknowledged or read after, and not where the
	// last Delivery ended. Of the entries that come again, an owner knows the seq. Again comes at most once for each Subscribe
	// with Owner and Now, when the owner has output to read from before, and cannot hold more of the output after.
	Again bool
	// Cut means: the process ends, and its viewers have fetched nothing for too long. The Delivery comes without a Pull. It has
	// a Gap in place of the output, and the events of the log. Others may follow.
	Cut     bool
	Gap     outlog.Gap
	Entries []outlog.Entry
	// AckEvery is how many bytes an owner may leave without an Ack, so that the program need not wait:
	// the retention is a few times as large.
	AckEvery int64
	// At is when the server had the first output of the Delivery. Zero: a Pull was late, and the output has waited for it.
	At time.Time
}

// Release says that the output of m was written or copied, and nobody looks at it any more: its memory,
// and its place on disk, may be used again. Release is called once, or never; in that case the garbage
// collector frees the memory.
func (m *Delivery) Release() {
	for i := range m.Entries {
		m.Entries[i].Release()
	}
}

// GiveBack implements Holder.
func (m Delivery) GiveBack() { m.Release() }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Delivery) IgnoreDeadLetterLogging() {}

// Ack is from an owner to a process: the owner keeps all entries after From up to To from now on.
type Ack struct{ From, To uint64 }

// Wrong returns why the process refuses m; nil: it does not.
func (m Ack) Wrong() *protocol.Error {
	if m.From > m.To {
		return protocol.WrongParams("an Ack is from %d to %d, expected From up to To", m.From, m.To)
	}
	return nil
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Ack) IgnoreDeadLetterLogging() {}

// Refused answers a Subscribe that starts after the last entry of the log, and a wrong Subscribe, Pull or Ack.
type Refused struct {
	Process string // the client's id
	Err     *protocol.Error
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the receiver may have left.
func (Refused) IgnoreDeadLetterLogging() {}

// Unsubscribe is from a viewer to a process, and ends the Subscribe.
type Unsubscribe struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Unsubscribe) IgnoreDeadLetterLogging() {}

// Resubscribe is from a process to each viewer: the actor of the process was restarted. The viewer answers
// with a Subscribe after its last entry, or after After if it has none, and with a Pull.
type Resubscribe struct {
	Process ProcessRef
	After   uint64
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (Resubscribe) IgnoreDeadLetterLogging() {}
