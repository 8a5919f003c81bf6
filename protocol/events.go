package protocol

// ServerEventsParams asks for events of all sessions that the client may observe. (Ours.)
type ServerEventsParams struct {
	// AfterUs asks for events later than a time, in microseconds since the Unix epoch on the clock of the server: the NextUs of the last
	// answer, to read on. 0 asks for all events that the server still has. Nil asks for events from now on.
	AfterUs *uint64 `json:"afterUs,omitempty"`
	// WaitMs is how long the server waits for an event if there is none, in milliseconds. 0: the answer comes at once.
	WaitMs uint64 `json:"waitMs,omitempty"`
	// Instance, if not empty, limits the answer to events of one process: those with this Instance.
	Instance string `json:"instance,omitempty"`
	// Last, if not 0, limits the answer to the newest Last events. With 0 the answer begins with the oldest event.
	Last uint64 `json:"last,omitempty"`
}

// ServerEventsResult has the events after AfterUs, the oldest first. An answer need not have all of them. (Ours.)
type ServerEventsResult struct {
	Events []ServerEvent `json:"events"`
	// NextUs is the AfterUs of the next request.
	NextUs uint64 `json:"nextUs"`
	// WholeUs is a time after which no event of these sessions is forgotten. If WholeUs is later than AfterUs, events between the
	// two may be missing from Events.
	WholeUs uint64 `json:"wholeUs"`
}

// ServerEvent is an event of a session, of a process, of a group or of the server. (Ours.)
type ServerEvent struct {
	AtUs        uint64          `json:"atUs"` // microseconds since the Unix epoch; no two events of a server have the same
	Kind        ServerEventKind `json:"kind"`
	SessionID   string          `json:"sessionId"`             // "": of replaced
	SessionName string          `json:"sessionName,omitempty"` // at that time
	ProcessID   string          `json:"processId,omitempty"`   // "": the event is about the session, or a group
	Instance    string          `json:"instance,omitempty"`    // as in ProcessInfo
	GroupID     string          `json:"groupId,omitempty"`     // of a group, or of the process
	Run         int             `json:"run,omitempty"`         // of started, ready, exited and restarted
	Argv        []string        `json:"argv,omitempty"`        // of started; a long one is cut
	State       string          `json:"state,omitempty"`       // of group: as in GroupInfo
	Reason      string          `json:"reason,omitempty"`      // of restarted, evicted, group and gone, for people; a long one is cut. Of replaced: as in Replacement
	GapMs       uint64          `json:"gapMs,omitempty"`       // of replaced: as in Replacement
	Status      *ExitStatus     `json:"status,omitempty"`      // of exited
}

// ServerEventKind says what happened. A later server may have other kinds. (Ours.)
type ServerEventKind string

// Kinds of events.
const (
	ServerOpened   ServerEventKind = "opened"   // a session starts its first process
	ServerAttached ServerEventKind = "attached" // a session has an owner again
	ServerDetached ServerEventKind = "detached" // a session has lost its owner
	ServerClosing  ServerEventKind = "closing"  // the server ends the processes of a session
	ServerGone     ServerEventKind = "gone"     // a session has ended

	ServerStarted   = ServerEventKind("started") // the first run of a process
	ServerReady     = ServerEventKind(EventReady)
	ServerExited    = ServerEventKind(EventExited)
	ServerRestarted = ServerEventKind(EventRestarted)
	ServerEvicted   = ServerEventKind(EventEvicted)
	ServerClosed    = ServerEventKind(EventClosed)

	ServerGroup ServerEventKind = "group" // a group has another state

	// ServerReplaced is the only event of no session: everybody gets it.
	ServerReplaced ServerEventKind = "replaced" // another server has gone on with all sessions
)
