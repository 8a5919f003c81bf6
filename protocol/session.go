package protocol

import "errors"

// Methods about the connection, the session and the server. The comments name the params and the result.
const (
	// exec-server wire §2: the first request of a connection, once.
	MethodInitialize = "initialize" // InitializeParams → InitializeResult
	// exec-server wire §2: a notification; only now is the rest allowed.
	MethodInitialized = "initialized" // Empty

	// exec-server wire §8.
	MethodEnvironmentInfo   = "environment/info"   // NoParams → EnvironmentInfo
	MethodEnvironmentStatus = "environment/status" // anything, not unmarshalled → EnvironmentStatusResult

	// Ours.
	MethodServerInfo   = "server/info"   // Empty → ServerInfoResult
	MethodSessionInfo  = "session/info"  // Empty → SessionInfoResult
	MethodSessionClose = "session/close" // SessionCloseParams → Empty
	MethodSessionAck   = "session/ack"   // SessionAckParams; a notification
	MethodProcessList  = "process/list"  // Empty → ProcessListResult
)

// InitializeParams opens a session or resumes one. All but the first three are ours.
type InitializeParams struct {
	// ClientName is for logs and listings; it may be empty. (exec-server wire §2.)
	ClientName string `json:"clientName" wire:"required"`

	// ClientInfo is of the app-server wire, which has it in place of ClientName.
	ClientInfo *ClientInfo `json:"clientInfo,omitempty"`

	// ResumeSessionID is the session to go on with; nil opens a new one, "" is a
	// session that does not exist. (exec-server wire §7.)
	ResumeSessionID *string `json:"resumeSessionId,omitempty"`

	// Capabilities are the notifications and acknowledgements the client knows.
	Capabilities Capabilities `json:"capabilities,omitzero"`

	// ResumeFrom asks for replay: by process id, the last seq that the client has;
	// what follows is sent again, 0 for everything. A process that is not named is
	// not replayed, as with the peer. Only with ResumeSessionID.
	ResumeFrom map[string]uint64 `json:"resumeFrom,omitempty"`

	// Takeover evicts the connection that the session is attached to. Without it
	// an attached session answers CodeAlreadyAttached.
	Takeover bool `json:"takeover,omitempty"`

	// Role is what the connection may do in the session; absent means owner.
	Role Role `json:"role,omitempty"`

	// Session sets up a new session; it is not looked at when one is resumed.
	Session SessionOptions `json:"session,omitzero"`
}

// Validate refuses a replay of nothing.
func (p InitializeParams) Validate() error {
	if len(p.ResumeFrom) > 0 && p.ResumeSessionID == nil {
		return errors.New("resumeFrom needs resumeSessionId: a new session has nothing to replay")
	}
	return nil
}

// Capabilities are what a client asks for beyond the peer's wire. (Ours.)
type Capabilities struct {
	Gap       bool `json:"gap,omitempty"`       // send NotifyGap
	Restarted bool `json:"restarted,omitempty"` // send NotifyRestarted
	Ready     bool `json:"ready,omitempty"`     // send NotifyReady
	Groups    bool `json:"groups,omitempty"`    // send NotifyGroupChanged

	// Ack: only session/ack says what was received. Otherwise the Pongs do.
	Ack bool `json:"ack,omitempty"`
}

// Role is what a connection may do in its session. (Ours.)
type Role string

const (
	RoleOwner    Role = "owner"    // all; one connection at a time
	RoleObserver Role = "observer" // see everything, change nothing (CodeObserver)
)

// Validate refuses what is none of the constants.
func (r Role) Validate() error { return oneOf(r, RoleOwner, RoleObserver) }

// SessionOptions set up a new session. (Ours.)
type SessionOptions struct {
	Name string `json:"name,omitempty"` // for listings; need not be unique

	// DetachedTTLMs is how long the session may be without an owner, in
	// milliseconds. Nil means the server's default; 0 means for ever, if the
	// server allows it.
	DetachedTTLMs *uint64 `json:"detachedTtlMs,omitempty"`

	// IdleMs is how long the session lives while nobody is attached and nothing in it
	// writes, MaxAgeMs how long at all, both in milliseconds. Nil means the server's
	// default; 0 means for ever, if the server allows it.
	IdleMs   *uint64 `json:"idleMs,omitempty"`
	MaxAgeMs *uint64 `json:"maxAgeMs,omitempty"`
}

// InitializeResult: exec-server wire §2; Server and what follows are ours.
type InitializeResult struct {
	SessionID       string           `json:"sessionId"`
	EnvironmentInfo *EnvironmentInfo `json:"environmentInfo,omitempty"` // nil: ask environment/info
	Server          ServerInfo       `json:"server"`
	ProtocolVersion string           `json:"protocolVersion"` // Version; FirstVersion to who names no capability
	Limits          Limits           `json:"limits"`

	// Of the app-server wire, to clients that gave a ClientInfo.
	UserAgent      string `json:"userAgent,omitempty"` // name/version of this server
	PlatformFamily string `json:"platformFamily,omitempty"`
	PlatformOS     string `json:"platformOs,omitempty"`
}

// ServerInfo names the program that answers. (Ours.)
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Limits of this server; in bytes or milliseconds where the name says so. (Ours.)
type Limits struct {
	MaxFrameBytes      int64  `json:"maxFrameBytes"`      // of one websocket frame
	MaxMessageBytes    int64  `json:"maxMessageBytes"`    // of one message, which may have many frames
	MaxProcesses       int    `json:"maxProcesses"`       // of one session
	MaxPendingRequests int    `json:"maxPendingRequests"` // of one connection; then its socket is not read
	WindowBytes        int64  `json:"windowBytes"`        // of one connection: sent and not acknowledged
	RetentionBytes     int64  `json:"retentionBytes"`     // of one process, when it does not ask
	MaxRetentionBytes  int64  `json:"maxRetentionBytes"`  // of one process, when it does
	MaxSpoolBytes      int64  `json:"maxSpoolBytes"`      // of one process, on disk; 0: there is no spool
	StdinQueueBytes    int64  `json:"stdinQueueBytes"`    // of one process: accepted and not yet written
	DetachedTTLMs      uint64 `json:"detachedTtlMs"`      // default for a session; 0: for ever
	ClosedRetentionMs  uint64 `json:"closedRetentionMs"`  // how long a process is known after closed
	PingIntervalMs     uint64 `json:"pingIntervalMs"`
	DeadConnectionMs   uint64 `json:"deadConnectionMs"` // without a Pong; then the session is detached
}

// ServerInfoResult is how a server does. (Ours.)
type ServerInfoResult struct {
	Server          ServerInfo `json:"server"`
	ProtocolVersion string     `json:"protocolVersion"`
	Limits          Limits     `json:"limits"`
	Containment     string     `json:"containment"` // as in ProcessInfo
	StartedAtMs     int64      `json:"startedAtMs"` // since the Unix epoch

	Connections  int64 `json:"connections"`
	Sessions     int64 `json:"sessions"`
	Children     int   `json:"children"`     // of the operating system; ended ones with descendants left included
	ClientBytes  int64 `json:"clientBytes"`  // of messages, requests and answers, beyond what each connection may hold
	HeldBytes    int64 `json:"heldBytes"`    // of output, beyond what each process may hold without asking
	SpooledBytes int64 `json:"spooledBytes"` // on disk

	// ChildLimit is how many processes and threads all programs together may have; absent: it
	// is not limited. Notes say what the server could not arrange for here, for people.
	ChildLimit int64    `json:"childLimit,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	// FileCallsHung is how many calls about files have had no answer from their filesystem for 10 s.
	// Each holds a thread, also when its connection has ended.
	FileCallsHung int `json:"fileCallsHung"`

	// The server's own use of the Go runtime. A number that stays high at rest is a leak.
	Goroutines int   `json:"goroutines"`
	HeapBytes  int64 `json:"heapBytes"` // live objects, and dead ones that were not collected yet

	// Failures of the server itself, since it started. Each is in its log, with a stack.
	Panics        int64 `json:"panics"`
	ActorRestarts int64 `json:"actorRestarts"`
	ActorsGivenUp int64 `json:"actorsGivenUp"` // they failed too often; or were connections, which resume
}

// Shell is the user's shell on the server.
type Shell struct {
	Name string `json:"name"` // "bash"
	Path string `json:"path"` // "/bin/bash": a path, not a URI
}

// EnvironmentInfo is the machine that programs run on. (exec-server wire §8.)
type EnvironmentInfo struct {
	Shell                Shell    `json:"shell"`
	ExecutorVersion      string   `json:"executorVersion"`
	ProviderID           string   `json:"providerId"`           // stable for one installation
	Cwd                  string   `json:"cwd"`                  // file URI
	UserHomeDir          string   `json:"userHomeDir"`          // file URI
	PlatformOS           string   `json:"platformOs"`           // as GOOS
	PrependPathDirs      []string `json:"prependPathDirs"`      // file URIs put before an inherited PATH
	TemporaryDirectories []string `json:"temporaryDirectories"` // file URIs, beside TempDir
	TempDir              string   `json:"tempDir"`              // file URI

	// Capabilities are what the server can do, by the peer's names; httpRequest is ours. A client
	// calls a method that belongs to one only if it is true. (exec-server wire §9.)
	Capabilities map[string]bool `json:"capabilities"`
}

// EnvironmentStatusResult: exec-server wire §8.
type EnvironmentStatusResult struct {
	Status string `json:"status"` // "ready"
}

// SessionInfoResult is the session of the connection that asks. (Ours.)
type SessionInfoResult struct {
	SessionID     string `json:"sessionId"`
	Name          string `json:"name,omitempty"`
	CreatedAtMs   int64  `json:"createdAtMs"`    // since the Unix epoch
	Role          Role   `json:"role,omitempty"` // of the connection
	Attached      bool   `json:"attached"`       // has an owner
	Observers     int    `json:"observers"`
	Processes     int    `json:"processes"`     // closed ones that are still known included
	DetachedTTLMs uint64 `json:"detachedTtlMs"` // 0: for ever
	IdleMs        uint64 `json:"idleMs"`        // 0: for ever
	MaxAgeMs      uint64 `json:"maxAgeMs"`      // 0: for ever
}

// SessionCloseParams ends a session and all that runs in it. (Ours.)
type SessionCloseParams struct {
	SessionID *string `json:"sessionId,omitempty"` // nil: the connection's own
}

// SessionAckParams say what a client with capability ack has made its own: by
// process id, the last seq. Lower than before is ignored. (Ours.)
type SessionAckParams struct {
	Processes map[string]uint64 `json:"processes" wire:"required"`
}

// SessionEvictedNotification is the last message on a connection whose session
// was taken over, or has ended. (Ours.)
type SessionEvictedNotification struct {
	Reason string `json:"reason"`
}

// SessionExpiringNotification tells those who are attached that the session will end:
// observers, if no owner comes; all, by its age or because the server stops. (Ours.)
type SessionExpiringNotification struct {
	InMs   uint64 `json:"inMs"`             // from now
	Reason string `json:"reason,omitempty"` // for people
}
