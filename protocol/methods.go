package protocol

// Version of the wire that this package speaks, as initialize answers it.
const Version = "exec-server.v1+troupe.1"

// Methods a client may call. The comment names what is unmarshalled and answered.
const (
	// exec-server wire §2: the first request of a connection, once.
	MethodInitialize = "initialize" // InitializeParams → InitializeResult
	// exec-server wire §2: a notification; only now is the rest allowed.
	MethodInitialized = "initialized" // Empty

	// exec-server wire §8.
	MethodEnvironmentInfo   = "environment/info"   // NoParams → EnvironmentInfo
	MethodEnvironmentStatus = "environment/status" // anything, not unmarshalled → EnvironmentStatusResult

	// exec-server wire §3, §5 and §6.
	MethodProcessStart     = "process/start"     // ProcessStartParams → ProcessStartResult
	MethodProcessRead      = "process/read"      // ProcessReadParams → ProcessReadResult
	MethodProcessWrite     = "process/write"     // ProcessWriteParams → ProcessWriteResult
	MethodProcessSignal    = "process/signal"    // ProcessSignalParams → Empty
	MethodProcessTerminate = "process/terminate" // ProcessTerminateParams → ProcessTerminateResult

	// exec-server wire §8: the filesystem.
	MethodFsReadFile        = "fs/readFile"        // FsReadFileParams → FsReadFileResult
	MethodFsOpen            = "fs/open"            // FsOpenParams → FsOpenResult
	MethodFsReadBlock       = "fs/readBlock"       // FsReadBlockParams → FsReadBlockResult
	MethodFsWriteBlock      = "fs/writeBlock"      // FsWriteBlockParams → Empty
	MethodFsClose           = "fs/close"           // FsCloseParams → Empty
	MethodFsWriteFile       = "fs/writeFile"       // FsWriteFileParams → Empty
	MethodFsCreateDirectory = "fs/createDirectory" // FsCreateDirectoryParams → Empty
	MethodFsGetMetadata     = "fs/getMetadata"     // FsGetMetadataParams → FsGetMetadataResult
	MethodFsCanonicalize    = "fs/canonicalize"    // FsCanonicalizeParams → FsCanonicalizeResult
	MethodFsReadDirectory   = "fs/readDirectory"   // FsReadDirectoryParams → FsReadDirectoryResult
	MethodFsWalk            = "fs/walk"            // FsWalkParams → FsWalkResult
	MethodFsRemove          = "fs/remove"          // FsRemoveParams → Empty
	MethodFsCopy            = "fs/copy"            // FsCopyParams → Empty
	MethodFsWatchMissing    = "fs/watchMissing"    // FsWatchMissingParams → FsWatchMissingResult

	// exec-server wire §8.
	MethodHTTPRequest = "http/request" // HTTPRequestParams → HTTPRequestResult

	// Ours.
	MethodProcessCloseStdin = "process/closeStdin" // ProcessCloseStdinParams → Empty
	MethodProcessResize     = "process/resize"     // ProcessResizeParams → Empty
	MethodProcessWait       = "process/wait"       // ProcessWaitParams → ProcessWaitResult
	MethodProcessInfo       = "process/info"       // ProcessInfoParams → ProcessInfoResult
	MethodProcessList       = "process/list"       // Empty → ProcessListResult
	MethodProcessRestart    = "process/restart"    // ProcessRestartParams → Empty
	MethodProcessSetRestart = "process/setRestart" // ProcessSetRestartParams → Empty
	MethodGroupStart        = "group/start"        // GroupStartParams → GroupStartResult
	MethodGroupStop         = "group/stop"         // GroupStopParams → Empty
	MethodGroupList         = "group/list"         // Empty → GroupListResult
	MethodServerInfo        = "server/info"        // Empty → ServerInfoResult
	MethodSessionInfo       = "session/info"       // Empty → SessionInfoResult
	MethodSessionClose      = "session/close"      // SessionCloseParams → Empty
	MethodSessionAck        = "session/ack"        // SessionAckParams; a notification
)

// Notifications the server sends.
const (
	// exec-server wire §4; of processes a peer's client knows these three and no other.
	NotifyOutput = "process/output" // OutputNotification
	NotifyExited = "process/exited" // ExitedNotification
	NotifyClosed = "process/closed" // ClosedNotification

	// exec-server wire §8; only to who asked by fs/watchMissing.
	NotifyMissingChanged = "fs/missingChanged" // FsMissingChangedNotification
	// exec-server wire §8.
	NotifyHTTPBodyDelta = "http/request/bodyDelta" // HTTPBodyDeltaNotification

	// Ours.
	NotifyGap             = "process/gap"       // GapNotification, with capability gap
	NotifyRestarted       = "process/restarted" // RestartedNotification, with capability restarted
	NotifyReady           = "process/ready"     // ReadyNotification, with capability ready
	NotifyEvicted         = "process/evicted"   // EvictedNotification
	NotifyGroupChanged    = "group/changed"     // GroupChangedNotification, with capability groups
	NotifySessionEvicted  = "session/evicted"   // SessionEvictedNotification
	NotifySessionExpiring = "session/expiring"  // SessionExpiringNotification, to observers
)

// Empty is the result {}, and the params of a method that looks at none: absent,
// null or any object.
type Empty struct{}

// NoParams is the params of a method that takes none: absent, null or {}, while a
// member is refused. (exec-server wire §8, environment/info.)
type NoParams struct{}
