package protocol

// Version of the wire that this package speaks, as initialize answers it.
const Version = "exec-server.v1+troupe.1"

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
