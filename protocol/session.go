package protocol

import "errors"

// Methods for the connection, the session and the server. The comments name the params and the
// result.
const (
	// exec-server wire §2: the first request of a connection, sent once.
	MethodInitialize = "initialize" // InitializeParams → InitializeResult
	// exec-server wire §2: a notification; other requests are allowed only after it.
	MethodInitialized = "initialized" // Empty

	// exec-server wire §8.
	MethodEnvironmentInfo   = "environment/info"   // NoParams → EnvironmentInfo
	MethodEnvironmentStatus = "environment/status" // anything, not unmarshalled → EnvironmentStatusResult

	// Ours.
	MethodServerInfo   = "server/info"   // Empty → ServerInfoResult
	MethodServerEvents = "server/events" // ServerEventsParams → ServerEventsResult
	MethodServerWatch  = "server/watch"  // ServerWatchParams → Empty
	MethodSessionInfo  = "session/info"  // Empty → SessionInfoResult
	MethodSessionList  = "session/list"  // SessionListParams → SessionListResult, SessionProcessesResult, SessionDetailsResult
	MethodSessionClose = "session/close" // SessionCloseParams → Empty
	MethodSessionAck   = "session/ack"   // SessionAckParams; a notification

	MethodSessionUpdate = "session/update" // SessionUpdateParams → Empty

	MethodProcessList = "process/list" // ProcessListParams → ProcessListResult

	// Ours.
	MethodSessionShare   = "session/share"   // SessionShareParams → SessionShareResult
	MethodSessionShares  = "session/shares"  // Empty → SessionSharesResult
	MethodSessionUnshare = "session/unshare" // SessionUnshareParams → SessionUnshareResult
)

// InitializeParams opens a session or resumes an existing session. ClientName and ResumeSessionID
// are exec-server wire, and the other members are ours. The app-server wire has ClientInfoParams
// instead.
type InitializeParams struct {
	// ClientName is for logs and listings; it may be empty. (exec-server wire §2.)
	ClientName string `json:"clientName" wire:"required"`

	// ResumeSessionID is the session to resume. Nil opens a new session; "" names a session that
	// does not exist. (exec-server wire §7.)
	ResumeSessionID *string `json:"resumeSessionId,omitempty"`

	// Capabilities are the notifications and acknowledgements known to the client.
	Capabilities Capabilities `json:"capabilities,omitzero"`

	// ResumeFrom asks for replay. It has the last seq received by the client, by process id; later
	// messages are sent again, 0 means all. Of a process missing in ResumeFrom the owner gets what it has
	// not acknowledged. Nil: no replay, as in exec-server. Only with ResumeSessionID.
	ResumeFrom map[string]uint64 `json:"resumeFrom,omitempty"`

	// Takeover evicts the connection of an attached session. Without Takeover, resuming an attached
	// session fails with code -32010.
	Takeover bool `json:"takeover,omitempty"`

	// Role is the role of the connection in the session; absent means owner.
	Role Role `json:"role,omitempty"`

	// Session sets up a new session; ignored when resuming.
	Session SessionOptions `json:"session,omitzero"`

	// Placement says which server of a cluster gets a new session; ignored when resuming. (Ours.)
	Placement *Placement `json:"placement,omitempty"`

	// Token is the bearer token of a client at a socket with length-prefixed frames. See TokenIn.
	Token string `json:"token,omitempty"`
}

// Validate refuses a replay without a session to resume.
func (p InitializeParams) Validate() error {
	if len(p.ResumeFrom) > 0 && p.ResumeSessionID == nil {
		return errors.New("resumeFrom needs resumeSessionId: a new session has nothing to replay")
	}
	return nil
}

// Placement is a wish for the server of a new session, in a cluster. Without wishes, the cluster looks for room. A wish that no server meets is refused. (Ours.)
type Placement struct {
	// Labels are those that the server has to have: at most 16, of at most 63 bytes each.
	Labels map[string]string `json:"labels,omitempty"`
	// Node is the name of the server.
	Node string `json:"node,omitempty"`
	// Key keeps sessions together: those with the same key go to the same server, as long as it is there and has room. At most 256 bytes.
	Key string `json:"key,omitempty"`
}

// TokenIn returns the request id and the member token of a frame of codec c, if the frame is a request
// initialize of either wire. token is nil if there is none. The id of all other frames without one is
// InvalidID. ok is false if the token is not a string.
func TokenIn(c Codec, frame []byte) (id ID, token *string, ok bool) {
	m, err := c.Decode(frame)
	if err != nil || m.Kind != Request {
		return InvalidID, nil, true
	}
	if m.Method != MethodInitialize || !HasMember(c, m.Payload, "token") {
		return m.ID, nil, true
	}
	var p struct {
		Token *string `json:"token"`
	}
	err = c.Unmarshal(m.Payload, &p)
	return m.ID, p.Token, err == nil
}

// Capabilities are the extensions of exec-server's wire a client asks for. (Ours.)
type Capabilities struct {
	Gap       bool `json:"gap,omitempty"`       // send NotifyGap
	Restarted bool `json:"restarted,omitempty"` // send NotifyRestarted
	Ready     bool `json:"ready,omitempty"`     // send NotifyReady
	Groups    bool `json:"groups,omitempty"`    // send NotifyGroupChanged

	// Ack says the client acknowledges with session/ack only. Without Ack, Pongs acknowledge.
	Ack bool `json:"ack,omitempty"`

	// OnlyNamed says the client wants notifications only of the processes in ResumeFrom and of those that it starts
	// itself. The owner gets all, with or without OnlyNamed.
	OnlyNamed bool `json:"onlyNamed,omitempty"`

	Changes bool `json:"changes,omitempty"` // send NotifySessionChanged

	// Times says OutputNotification has AtMs.
	Times bool `json:"times,omitempty"`
}

// Role says what a connection may do in its session. (Ours.)
type Role string

const (
	RoleOwner    Role = "owner"    // everything; one connection at a time
	RoleObserver Role = "observer" // see everything, change nothing (CodeObserver)
	// RoleTypist is an observer that also writes to stdin, and resizes. Only the guests of a share with
	// AccessType are typists.
	RoleTypist Role = "typist"
	// RoleController may send everything that the owner may, beside the owner. A controller acknowledges no
	// output, and does not keep the session attached.
	RoleController Role = "controller"
)

// Commands reports whether the role may send every request.
func (r Role) Commands() bool { return r == RoleOwner || r == RoleController }

// Validate refuses values other than the constants.
func (r Role) Validate() error { return oneOf(r, RoleOwner, RoleObserver, RoleTypist, RoleController) }

// SessionOptions set up a new session. (Ours.)
type SessionOptions struct {
	Name string `json:"name,omitempty"` // for listings; need not be unique

	// DetachedTTLMs is how long the session may be without an owner, in milliseconds. Nil means the
	// server's default; 0 means no limit, if the server allows it.
	DetachedTTLMs *uint64 `json:"detachedTtlMs,omitempty"`

	// KeepRunning stops the clock of DetachedTTLMs while a process has not closed.
	KeepRunning bool `json:"keepRunning,omitempty"`

	// Ephemeral ends the session with the connection of its owner, and keeps it out of lists. The members
	// above and KeepRunning then have no meaning, except for Name.
	Ephemeral bool `json:"ephemeral,omitempty"`

	// IdleMs is how long the session lives while no connection is attached and no process writes.
	// MaxAgeMs is how long the session lives at all. Both are in milliseconds. Nil means the
	// server's default; 0 means no limit, if the server allows it.
	IdleMs   *uint64 `json:"idleMs,omitempty"`
	MaxAgeMs *uint64 `json:"maxAgeMs,omitempty"`

	// MaxChunkBytes bounds the output in one process/output of this session, in bytes: 1,024 (MinChunk) to 131,072 (MaxChunk). Nil means the most.
	MaxChunkBytes *uint64 `json:"maxChunkBytes,omitempty"`
}

// MinChunk and MaxChunk bound SessionOptions.MaxChunkBytes.
const (
	MinChunk = 1 << 10
	MaxChunk = 128 << 10
)

// InitializeResult is the answer to initialize (exec-server wire §2). Server and the members after
// it are ours.
type InitializeResult struct {
	SessionID       string           `json:"sessionId"`
	EnvironmentInfo *EnvironmentInfo `json:"environmentInfo,omitempty"` // nil: ask environment/info
	Server          ServerInfo       `json:"server"`
	ProtocolVersion string           `json:"protocolVersion"` // Version; FirstVersion for clients naming no capability
	Limits          Limits           `json:"limits"`

	// UserAgent and the members after it belong to the app-server wire. Only clients sending a
	// ClientInfo get them.
	UserAgent      string `json:"userAgent,omitempty"` // begins with name/version of the client
	CodexHome      string `json:"codexHome,omitempty"` // the directory of the peer's files; a path
	PlatformFamily string `json:"platformFamily,omitempty"`
	PlatformOS     string `json:"platformOs,omitempty"`
}

// ServerInfo names the server program. (Ours.)
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Limits of this server, in bytes or milliseconds if the name says so. (Ours.)
type Limits struct {
	MaxFrameBytes      int64  `json:"maxFrameBytes"`      // of one websocket frame
	MaxMessageBytes    int64  `json:"maxMessageBytes"`    // of one message, which may have many frames
	MaxProcesses       int    `json:"maxProcesses"`       // of one session
	MaxPendingRequests int    `json:"maxPendingRequests"` // of one connection; beyond it, the server stops reading the socket
	WindowBytes        int64  `json:"windowBytes"`        // of one connection: sent and not acknowledged
	RetentionBytes     int64  `json:"retentionBytes"`     // of one process, by default
	MaxRetentionBytes  int64  `json:"maxRetentionBytes"`  // of one process, on request
	MaxSpoolBytes      int64  `json:"maxSpoolBytes"`      // of one process, on disk; 0: there is no spool
	StdinQueueBytes    int64  `json:"stdinQueueBytes"`    // of one process: accepted and not yet written
	DetachedTTLMs      uint64 `json:"detachedTtlMs"`      // default for a session; 0: no limit
	ClosedRetentionMs  uint64 `json:"closedRetentionMs"`  // how long a process is known after closed
	PingIntervalMs     uint64 `json:"pingIntervalMs"`
	DeadConnectionMs   uint64 `json:"deadConnectionMs"` // without a Pong; then the session is detached
}

// AboutServer describes a server. It is the whole answer to server/info for a client that is not an operator,
// if the server asks for credentials. (Ours.)
type AboutServer struct {
	Server          ServerInfo `json:"server"`
	ProtocolVersion string     `json:"protocolVersion"`
	Limits          Limits     `json:"limits"`
	Containment     string     `json:"containment"` // as in ProcessInfo
	StartedAtMs     int64      `json:"startedAtMs"` // since the Unix epoch
	// Sandbox says whether the server can confine programs; nil: it could not find out yet.
	Sandbox *SandboxInfo `json:"sandbox,omitempty"`
	// Holder says whether programs outlive the server; nil: an older server, and they do not.
	Holder *HolderInfo `json:"holder,omitempty"`
}

// HolderInfo says whether programs outlive a server that is killed or upgraded, and how the server was replaced last. (Ours.)
type HolderInfo struct {
	Available bool         `json:"available"`
	Why       string       `json:"why,omitempty"`      // why programs end with the server, and what helps; for people. Absent if they do not
	Servers   int          `json:"servers,omitempty"`  // how many servers the holder has had, with this one
	Replaced  *Replacement `json:"replaced,omitempty"` // how this server came; nil: it is the first
}

// ReplacedByUpgrade is the Reason of a Replacement on purpose.
const ReplacedByUpgrade = "upgrade"

// Replacement says how a server took the place of another one. (Ours.)
type Replacement struct {
	AtMs   int64  `json:"atMs"`   // since the Unix epoch: when the new server began to serve
	Reason string `json:"reason"` // ReplacedByUpgrade, or for people how the old server ended, as in "killed by SIGKILL" and "exit code 2"
	GapMs  uint64 `json:"gapMs"`  // how long no server served
}

// SandboxInfo says whether a server can confine programs, as its machine is. (Ours.)
type SandboxInfo struct {
	Available bool     `json:"available"`
	Why       string   `json:"why,omitempty"`   // which step fails, and what helps; for people. Absent if sandboxes are possible
	Level     string   `json:"level,omitempty"` // SandboxComplete or SandboxOldProc; later servers may have others. Empty: not available
	Landlock  int      `json:"landlock"`        // the ABI of Landlock; 0: none
	Notes     []string `json:"notes,omitempty"` // protections that are missing in every sandbox; for people
}

// ServerInfoResult is the state of a server: what it has and uses, for all identities together. (Ours.)
type ServerInfoResult struct {
	AboutServer

	Connections  int64 `json:"connections"`
	Sessions     int64 `json:"sessions"`
	Children     int   `json:"children"`     // processes of the operating system, including ended ones with living descendants
	ClientBytes  int64 `json:"clientBytes"`  // of messages, requests and answers, beyond 64 KiB of each connection
	HeldBytes    int64 `json:"heldBytes"`    // of output, in memory, beyond 64 KiB of each process and of each program of the sister APIs
	SpooledBytes int64 `json:"spooledBytes"` // output on disk

	ChildLimit    int64          `json:"childLimit,omitempty"`    // processes and threads that all programs together may have; absent: no limit
	HolderProcess *HolderProcess `json:"holderProcess,omitempty"` // absent: the server has no holder

	// Notes, for people, name what the server could not set up on this machine, and trouble with its audit log: starts may
	// then fail with -32603 and advice.
	Notes []string `json:"notes,omitempty"`
	// FileCallsHung is how many file calls have waited for their filesystem for more than 10 s.
	// Each holds a thread, even after its connection has ended.
	FileCallsHung int `json:"fileCallsHung"`

	// Goroutines and HeapBytes are the server's own use of the Go runtime. A number staying high at
	// rest is a leak.
	Goroutines int   `json:"goroutines"`
	HeapBytes  int64 `json:"heapBytes"` // live objects, and dead objects not collected yet

	// Panics, ActorRestarts and ActorsGivenUp count failures of the server itself since its start.
	// Each failure is in the server's log, with a stack.
	Panics        int64 `json:"panics"`
	ActorRestarts int64 `json:"actorRestarts"`
	ActorsGivenUp int64 `json:"actorsGivenUp"` // failed too often; or were connections, which resume
}

// HolderProcess names the process that holds the programs of a server: SIGHUP to this process asks for an upgrade. (Ours.)
type HolderProcess struct {
	PID        int    `json:"pid"`        // as the server sees it
	StartTicks uint64 `json:"startTicks"` // its start as in proc_pid_stat(5): no other process of the machine has both
	// Refused is the last upgrade that this server has survived; nil: there was none.
	Refused *RefusedUpgrade `json:"refused,omitempty"`
}

// RefusedUpgrade says why the present server was not replaced. (Ours.)
type RefusedUpgrade struct {
	AtMs   int64  `json:"atMs"`   // since the Unix epoch
	Reason string `json:"reason"` // for people
}

// Shell is the user's shell on the server.
type Shell struct {
	Name string `json:"name" wire:"required"` // "bash"
	Path string `json:"path" wire:"required"` // "/bin/bash": a path, not a URI
}

// EnvironmentInfo describes the machine running the programs. (exec-server wire §8.)
type EnvironmentInfo struct {
	Shell                Shell    `json:"shell"`
	ExecutorVersion      string   `json:"executorVersion"`
	ProviderID           string   `json:"providerId"`           // stable for one installation
	Cwd                  string   `json:"cwd"`                  // file URI
	UserHomeDir          string   `json:"userHomeDir"`          // file URI
	PlatformOS           string   `json:"platformOs"`           // such as "linux"
	PrependPathDirs      []string `json:"prependPathDirs"`      // file URIs, put before an inherited PATH
	TemporaryDirectories []string `json:"temporaryDirectories"` // file URIs, besides TempDir
	TempDir              string   `json:"tempDir"`              // file URI

	// Capabilities are the server's abilities, by exec-server's names; httpRequest is ours. A
	// client may call the methods of a capability only if its value is true. (exec-server wire
	// §9.)
	Capabilities map[string]bool `json:"capabilities"`
}

// EnvironmentStatusResult is the answer to environment/status. (exec-server wire §8.)
type EnvironmentStatusResult struct {
	Status string `json:"status"` // "ready"
}

// SessionInfoResult describes the session of the asking connection. (Ours.)
type SessionInfoResult struct {
	SessionID     string `json:"sessionId"`
	Name          string `json:"name,omitempty"`
	CreatedAtMs   int64  `json:"createdAtMs"`    // since the Unix epoch
	Role          Role   `json:"role,omitempty"` // of the connection
	Attached      bool   `json:"attached"`       // has an owner
	Observers     int    `json:"observers"`
	Processes     int    `json:"processes"`     // including closed processes not forgotten yet
	DetachedTTLMs uint64 `json:"detachedTtlMs"` // 0: no limit
	KeepRunning   bool   `json:"keepRunning,omitempty"`
	Ephemeral     bool   `json:"ephemeral,omitempty"`
	IdleMs        uint64 `json:"idleMs"`   // 0: no limit
	MaxAgeMs      uint64 `json:"maxAgeMs"` // 0: no limit
}

// SessionListParams says how much to tell of each session. (Ours.)
type SessionListParams struct {
	Detail Detail `json:"detail,omitempty"`
	// Here leaves out the sessions of other nodes of the cluster.
	Here bool `json:"here,omitempty"`
}

// Detail says what session/list tells of processes. Absent means nothing. (Ours.)
type Detail string

const (
	DetailProcesses Detail = "processes" // as process/list does; the answer is a SessionProcessesResult
	DetailInfo      Detail = "info"      // as process/info does; the answer is a SessionDetailsResult
)

// Validate refuses values other than the constants.
func (d Detail) Validate() error { return oneOf(d, DetailProcesses, DetailInfo) }

// SessionListResult has the sessions that the client may observe, the oldest first. (Ours.)
type SessionListResult struct {
	Sessions []SessionSummary `json:"sessions"`
	// Unanswered are the names of the nodes of a cluster that did not answer: their sessions are left out.
	Unanswered []string `json:"unanswered,omitempty"`
}

// SessionSummary describes a session for a client that need not be attached. (Ours.)
type SessionSummary struct {
	SessionID   string `json:"sessionId"`
	Name        string `json:"name,omitempty"`
	Identity    string `json:"identity,omitempty"` // that opened the session; "": the server asks for no credential
	CreatedAtMs int64  `json:"createdAtMs"`        // since the Unix epoch
	Observers   int    `json:"observers"`          // everybody attached but the owner
	Processes   int    `json:"processes"`          // including closed processes not forgotten yet, and those that are being started
	KeepRunning bool   `json:"keepRunning,omitempty"`
	State       string `json:"state"` // SessionAttached, SessionDetached or SessionClosing

	// Of a detached session. DetachedAtMs is when it has lost its owner, and Left how, in words for people; "": the owner has closed its
	// connection. EndsAtMs is when the session ends if nobody attaches; 0: it has no such time, or not yet, since a program runs.
	DetachedAtMs int64  `json:"detachedAtMs,omitempty"` // since the Unix epoch, like EndsAtMs
	Left         string `json:"left,omitempty"`
	EndsAtMs     int64  `json:"endsAtMs,omitempty"`
}

// SessionProcessesResult is SessionListResult for DetailProcesses. (Ours.)
type SessionProcessesResult struct {
	Sessions []SessionProcesses `json:"sessions"`
	// Unanswered are the names of the nodes of a cluster that did not answer: their sessions are left out.
	Unanswered []string `json:"unanswered,omitempty"`
}

// SessionProcesses is a session with its processes. (Ours.)
type SessionProcesses struct {
	SessionSummary
	List        []ProcessInfo `json:"list"`                  // the first started first; without processes that are being started
	ListOmitted bool          `json:"listOmitted,omitempty"` // List is empty: the answer would have more than 8 MiB. Attach to the session, and send process/list
}

// SessionDetailsResult is SessionListResult for DetailInfo. (Ours.)
type SessionDetailsResult struct {
	Sessions []SessionDetails `json:"sessions"`
	// Unanswered are the names of the nodes of a cluster that did not answer: their sessions are left out.
	Unanswered []string `json:"unanswered,omitempty"`
}

// SessionDetails is a session with the state of its processes. (Ours.)
type SessionDetails struct {
	SessionSummary
	List        []ProcessInfoResult `json:"list"`                  // the first started first; without processes that are being started
	ListOmitted bool                `json:"listOmitted,omitempty"` // List is empty: the answer would have more than 8 MiB. Attach to the session, and send process/list
}

// States of a session.
const (
	SessionAttached = "attached" // has an owner
	SessionDetached = "detached" // waits for an owner
	SessionClosing  = "closing"  // its processes are ending
)

// SessionCloseParams ends a session and all its processes. (Ours.)
type SessionCloseParams struct {
	SessionID *string `json:"sessionId,omitempty"` // nil: the connection's own
}

// SessionUpdateParams changes the session of the connection. What is nil stays as it is. (Ours.)
type SessionUpdateParams struct {
	Name          *string `json:"name,omitempty"`
	DetachedTTLMs *uint64 `json:"detachedTtlMs,omitempty"` // as in SessionOptions
	KeepRunning   *bool   `json:"keepRunning,omitempty"`
	// Left is how the owner is about to leave, in words for whoever comes next: the Left of a SessionSummary until somebody attaches as
	// owner. At most 1,024 bytes.
	Left *string `json:"left,omitempty"`
	Repeatable
}

// SessionAckParams has the last seq processed by a client with capability ack, by process id. A seq
// lower than before is ignored. (Ours.)
type SessionAckParams struct {
	Processes map[string]uint64 `json:"processes" wire:"required"`
}

// Access says what the guests of a share may do. (Ours.)
type Access string

const (
	AccessRead Access = "read" // as RoleObserver
	AccessType Access = "type" // as RoleTypist
)

// Validate refuses values other than the constants.
func (a Access) Validate() error { return oneOf(a, AccessRead, AccessType) }

// SessionShareParams makes a token with which somebody else reaches the session. (Ours.)
type SessionShareParams struct {
	Access      Access  `json:"access" wire:"required"`
	ExpiresInMs *uint64 `json:"expiresInMs,omitempty"` // 1 to the server's maximum (--max-share-time, a week); nil: an hour, or that maximum if it is less
	Name        string  `json:"name,omitempty"`        // for listings, at most 1,024 bytes; need not be unique
}

// SessionShareResult has the only copy of the token. (Ours.)
type SessionShareResult struct {
	ShareID     string `json:"shareId"`
	Token       string `json:"token"` // a bearer token; the server has only its digest
	Access      Access `json:"access,omitempty"`
	ExpiresAtMs int64  `json:"expiresAtMs"` // since the Unix epoch
}

// SessionSharesResult has the shares of the session, the oldest first. (Ours.)
type SessionSharesResult struct {
	Shares []ShareInfo `json:"shares"`
}

// ShareInfo describes a share. (Ours.)
type ShareInfo struct {
	ShareID     string `json:"shareId"`
	Name        string `json:"name,omitempty"`
	Access      Access `json:"access,omitempty"`
	CreatedAtMs int64  `json:"createdAtMs"` // since the Unix epoch
	ExpiresAtMs int64  `json:"expiresAtMs"` // since the Unix epoch
	Guests      int    `json:"guests"`      // connections that are attached with its token
}

// SessionUnshareParams ends a share, and the connections of its guests. (Ours.)
type SessionUnshareParams struct {
	ShareID string `json:"shareId" wire:"required"`
}

// SessionUnshareResult is the answer to session/unshare. (Ours.)
type SessionUnshareResult struct {
	Ended bool `json:"ended"` // false: the session has no such share
}

// SessionChangedNotification says that process/list has another answer: the session has started a process for somebody else, or
// has forgotten a process. A notification stands for all such changes since the last. (Ours.)
type SessionChangedNotification struct{}

// SessionEvictedNotification is the last message on a connection whose session was taken over, or
// has ended. (Ours.)
type SessionEvictedNotification struct {
	Reason string `json:"reason"`
}

// SessionExpiringNotification says the session will end. If the session lacks an owner, observers
// get the notification; if the session is too old or the server stops, every attached connection
// gets it. (Ours.)
type SessionExpiringNotification struct {
	InMs   uint64 `json:"inMs"`             // from now
	Reason string `json:"reason,omitempty"` // for people
}
