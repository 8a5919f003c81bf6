package protocol

// Methods a client may call. Source: wire/exec-server §2–8; the rest are ours.
const (
	MethodInitialize        = "initialize"
	MethodInitialized       = "initialized"
	MethodEnvironmentInfo   = "environment/info"
	MethodEnvironmentStatus = "environment/status"
	MethodProcessStart      = "process/start"
	MethodProcessRead       = "process/read"
	MethodProcessWrite      = "process/write"
	MethodProcessCloseStdin = "process/closeStdin"
	MethodProcessResize     = "process/resize"
	MethodProcessSignal     = "process/signal"
	MethodProcessTerminate  = "process/terminate"
	MethodProcessWait       = "process/wait"
	MethodProcessList       = "process/list"
	MethodSessionInfo       = "session/info"
	MethodSessionClose      = "session/close"
	MethodSessionAck        = "session/ack"
)

// Notifications the server sends.
const (
	NotifyOutput          = "process/output"
	NotifyExited          = "process/exited"
	NotifyClosed          = "process/closed"
	NotifyGap             = "process/gap"
	NotifySessionEvicted  = "session/evicted"
	NotifySessionExpiring = "session/expiring"
)

type Stream uint8

const (
	Stdout Stream = iota + 1
	Stderr
	PTY
)

type Signal string

type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

type InitializeParams struct {
	ClientName      string            `json:"clientName" wire:"required"`
	ResumeSessionID *string           `json:"resumeSessionId,omitempty"`
	Capabilities    Capabilities      `json:"capabilities,omitzero"`
	ResumeFrom      map[string]uint64 `json:"resumeFrom,omitempty"`
	Takeover        bool              `json:"takeover,omitempty"`
	Role            Role              `json:"role,omitempty"`
	Session         SessionOptions    `json:"session,omitzero"`
}

type Capabilities struct {
	Gap bool `json:"gap,omitempty"`
	Ack bool `json:"ack,omitempty"`
}

type Role string

const (
	RoleOwner    Role = "owner"
	RoleObserver Role = "observer"
)

type SessionOptions struct {
	Name          string  `json:"name,omitempty"`
	DetachedTTLMs *uint64 `json:"detachedTtlMs,omitempty"`
}

type InitializeResult struct {
	SessionID       string           `json:"sessionId"`
	EnvironmentInfo *EnvironmentInfo `json:"environmentInfo,omitempty"`
	Server          ServerInfo       `json:"server"`
	ProtocolVersion string           `json:"protocolVersion"`
	Limits          Limits           `json:"limits"`
}

type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Limits of this server; bytes unless the name says otherwise.
type Limits struct {
	MaxFrameBytes       int64  `json:"maxFrameBytes"`
	MaxMessageBytes     int64  `json:"maxMessageBytes"`
	MaxProcesses        int    `json:"maxProcesses"` // of one session
	MaxPendingRequests  int    `json:"maxPendingRequests"`
	WindowBytes         int64  `json:"windowBytes"`
	RetentionBytes      int64  `json:"retentionBytes"`
	MaxRetentionBytes   int64  `json:"maxRetentionBytes"`
	StdinQueueBytes     int64  `json:"stdinQueueBytes"`
	DetachedTTLMs       uint64 `json:"detachedTtlMs"`
	ClosedRetentionMs   uint64 `json:"closedRetentionMs"`
	PingIntervalMs      uint64 `json:"pingIntervalMs"`
	DeadConnectionMs    uint64 `json:"deadConnectionMs"`
}

type Shell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

type EnvironmentInfo struct {
	Shell                Shell           `json:"shell"`
	ExecutorVersion      string          `json:"executorVersion"`
	ProviderID           string          `json:"providerId"`
	Cwd                  string          `json:"cwd"`
	UserHomeDir          string          `json:"userHomeDir"`
	PlatformOS           string          `json:"platformOs"`
	PrependPathDirs      []string        `json:"prependPathDirs"`
	TemporaryDirectories []string        `json:"temporaryDirectories"`
	TempDir              string          `json:"tempDir"`
	Capabilities         map[string]bool `json:"capabilities"`
}

type ProcessStartParams struct {
	ProcessID   string            `json:"processId" wire:"required"`
	Argv        []string          `json:"argv" wire:"required"`
	Cwd         string            `json:"cwd" wire:"required"` // file URI
	Env         map[string]string `json:"env" wire:"required"`
	TTY         bool              `json:"tty" wire:"required"`
	PipeStdin   bool              `json:"pipeStdin,omitempty"`
	Arg0        *string           `json:"arg0,omitempty"`
	EnvPolicy   *EnvPolicy        `json:"envPolicy,omitempty"`
	Size        *Size             `json:"size,omitempty"`
	Retention   *Retention        `json:"retention,omitempty"`
	TimeoutMs   *uint64           `json:"timeoutMs,omitempty"`
	KillGraceMs *uint64           `json:"killGraceMs,omitempty"`
	StartToken  string            `json:"startToken,omitempty"`
	// sandbox, enforceManagedNetwork, managedNetwork, networkProxy, shellSnapshot and metadata too: helper
}

type EnvPolicy struct {
	Inherit               string            `json:"inherit" wire:"required"`
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes" wire:"required"`
	Exclude               []string          `json:"exclude" wire:"required"`
	Set                   map[string]string `json:"set" wire:"required"`
	IncludeOnly           []string          `json:"includeOnly" wire:"required"`
}

type OnFull string

const (
	OnFullBlock OnFull = "block"
	OnFullEvict OnFull = "evict"
	OnFullSpool OnFull = "spool"
)

type Retention struct {
	Bytes  *uint64 `json:"bytes,omitempty"`
	OnFull OnFull  `json:"onFull,omitempty"`
}

type ProcessStartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"`
}

type ProcessReadParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	AfterSeq  uint64  `json:"afterSeq,omitempty"`
	MaxBytes  *uint64 `json:"maxBytes,omitempty"`
	WaitMs    uint64  `json:"waitMs,omitempty"`
}

type Chunk struct {
	Seq    uint64 `json:"seq"`
	Stream Stream `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

type ProcessReadResult struct {
	Chunks        []Chunk `json:"chunks"`
	NextSeq       uint64  `json:"nextSeq"`
	Exited        bool    `json:"exited"`
	ExitCode      *int    `json:"exitCode"`
	Closed        bool    `json:"closed"`
	Failure       *string `json:"failure"`
	SandboxDenied bool    `json:"sandboxDenied"`
	FirstSeq      uint64  `json:"firstSeq"`
}

type ProcessWriteParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"`
	WriteID   string `json:"writeId" wire:"required"`
}

type WriteStatus string

const (
	WriteAccepted       WriteStatus = "accepted"
	WriteUnknownProcess WriteStatus = "unknownProcess"
	WriteStdinClosed    WriteStatus = "stdinClosed"
)

type ProcessWriteResult struct {
	Status WriteStatus `json:"status"`
}

type ProcessCloseStdinParams struct {
	ProcessID string `json:"processId" wire:"required"`
}

type ProcessResizeParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Size      Size   `json:"size" wire:"required"`
}

type ProcessSignalParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Signal    Signal `json:"signal" wire:"required"`
}

type ProcessTerminateParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	GraceMs   *uint64 `json:"graceMs,omitempty"`
	Tree      bool    `json:"tree,omitempty"`
}

type ProcessTerminateResult struct {
	Running bool `json:"running"`
}

type ProcessWaitParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`
}

// ExitStatus tells how one run of a process ended.
type ExitStatus struct {
	ExitCode   int    `json:"exitCode"`
	Signal     string `json:"signal,omitempty"` // "SIGKILL"; empty: it exited
	CoreDumped bool   `json:"coreDumped,omitempty"`
	TimedOut   bool   `json:"timedOut,omitempty"`
	OOMKilled  bool   `json:"oomKilled,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Run        int    `json:"run,omitempty"`
	Rusage     Rusage `json:"rusage,omitzero"`
}

type Rusage struct {
	UserMs      uint64 `json:"userMs"`
	SystemMs    uint64 `json:"systemMs"`
	MaxRSSBytes uint64 `json:"maxRssBytes"`
}

type ProcessWaitResult struct {
	Exited bool        `json:"exited"` // false: timeoutMs passed first
	Closed bool        `json:"closed"`
	Status *ExitStatus `json:"status,omitempty"`
}

type ProcessInfo struct {
	ProcessID   string      `json:"processId"`
	State       string      `json:"state"` // starting, running, exited, closed
	PID         int         `json:"pid,omitempty"`
	Argv        []string    `json:"argv"`
	Cwd         string      `json:"cwd"`
	TTY         bool        `json:"tty"`
	StartedAtMs int64       `json:"startedAtMs"`
	Containment string      `json:"containment"`
	FirstSeq    uint64      `json:"firstSeq"`
	NextSeq     uint64      `json:"nextSeq"`
	Retained    int64       `json:"retainedBytes"`
	Unacked     int64       `json:"unackedBytes"`
	Status      *ExitStatus `json:"status,omitempty"`
}

type ProcessListResult struct {
	Processes []ProcessInfo `json:"processes"`
}

type SessionInfoResult struct {
	SessionID     string `json:"sessionId"`
	Name          string `json:"name,omitempty"`
	CreatedAtMs   int64  `json:"createdAtMs"`
	Role          Role   `json:"role"`
	Attached      bool   `json:"attached"` // has an owner
	Observers     int    `json:"observers"`
	Processes     int    `json:"processes"`
	DetachedTTLMs uint64 `json:"detachedTtlMs"`
}

type SessionCloseParams struct {
	SessionID *string `json:"sessionId,omitempty"` // nil: the connection's own
}

type SessionAckParams struct {
	Processes map[string]uint64 `json:"processes" wire:"required"`
}

// Empty is the result {}.
type Empty struct{}

type OutputNotification struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    Stream `json:"stream"`
	Chunk     []byte `json:"chunk"`
}

type ExitedNotification struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	SandboxDenied bool   `json:"sandboxDenied"`
	ExitStatus
}

type ClosedNotification struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

type GapNotification struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"` // = ToSeq: a gap stands in place of what it lost
	FromSeq   uint64 `json:"fromSeq"`
	ToSeq     uint64 `json:"toSeq"`
	Bytes     uint64 `json:"bytes,omitempty"` // 0: unknown
	Reason    string `json:"reason"`
}

type SessionEvictedNotification struct {
	Reason string `json:"reason"`
}

type SessionExpiringNotification struct {
	InMs uint64 `json:"inMs"`
}
