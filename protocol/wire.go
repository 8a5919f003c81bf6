package protocol

// Version is the version of the wire, as answered by initialize.
const Version = "exec-server.v1+troupe.1"

// Notifications sent by the server.
const (
	// exec-server wire §4. Clients of exec-server know only these three notifications about
	// processes.
	NotifyOutput = "process/output" // OutputNotification
	NotifyExited = "process/exited" // ExitedNotification
	NotifyClosed = "process/closed" // ClosedNotification

	// exec-server wire §8; only for clients that called fs/watchMissing.
	NotifyMissingChanged = "fs/missingChanged" // FsMissingChangedNotification
	// exec-server wire §8.
	NotifyHTTPBodyDelta = "http/request/bodyDelta" // HTTPBodyDeltaNotification

	// Ours.
	NotifyGap             = "process/gap"       // GapNotification, with capability gap
	NotifyRestarted       = "process/restarted" // RestartedNotification, with capability restarted
	NotifyReady           = "process/ready"     // ReadyNotification, with capability ready
	NotifyEvicted         = "process/evicted"   // EvictedNotification
	NotifyGroupChanged    = "group/changed"     // GroupChangedNotification, with capability groups
	NotifySessionChanged  = "session/changed"   // SessionChangedNotification, with capability changes
	NotifySessionEvicted  = "session/evicted"   // SessionEvictedNotification
	NotifySessionExpiring = "session/expiring"  // SessionExpiringNotification, to observers
	NotifyServerChanged   = "server/changed"    // ServerChangedNotification, to clients that watch the server
)

// Notifications are all notifications sent by the server, by their methods, each with a zero value of every type that its params have.
var Notifications = map[string][]any{
	NotifyOutput:                 {OutputNotification{}},
	NotifyExited:                 {ExitedNotification{}, SpawnExitedNotification{}}, // the second has NotifySpawnExited, the same method
	NotifyClosed:                 {ClosedNotification{}},
	NotifyMissingChanged:         {FsMissingChangedNotification{}},
	NotifyFsChanged:              {FsChangedNotification{}},
	NotifyHTTPBodyDelta:          {HTTPBodyDeltaNotification{}},
	NotifyGap:                    {GapNotification{}},
	NotifyRestarted:              {RestartedNotification{}},
	NotifyReady:                  {ReadyNotification{}},
	NotifyEvicted:                {EvictedNotification{}},
	NotifyGroupChanged:           {GroupChangedNotification{}},
	NotifySessionChanged:         {SessionChangedNotification{}},
	NotifySessionEvicted:         {SessionEvictedNotification{}},
	NotifySessionExpiring:        {SessionExpiringNotification{}},
	NotifyServerChanged:          {ServerChangedNotification{}},
	NotifyProcessOutputDelta:     {ProcessOutputDeltaNotification{}},
	NotifyCommandExecOutputDelta: {CommandExecOutputDeltaNotification{}, FirstExecOutputDeltaNotification{}},
	NotifyCommandExecExited:      {FirstExecExitedNotification{}},
}

// Empty is the result {}. As params, Empty accepts absent params, null, and any object.
type Empty struct{}

// NoParams are the params of a method without params. Absent params, null and {} are accepted; any
// member is refused. (exec-server wire §8, environment/info.)
type NoParams struct{}
