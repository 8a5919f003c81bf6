package protocol

// ServerWatchParams begin, change or end the watch of this connection: a connection has one at most. (Ours.)
type ServerWatchParams struct {
	// EveryMs is how often the server looks at numbers, and sends a change of numbers, in milliseconds: 200 (MinWatchMs) to 3,600,000 (MaxWatchMs). Nil: 1,000.
	// 0 ends the watch.
	EveryMs *uint64 `json:"everyMs,omitempty"`
}

// MinWatchMs and MaxWatchMs bound ServerWatchParams.EveryMs. DefaultWatchMs is for params without EveryMs.
const (
	MinWatchMs     = 200
	DefaultWatchMs = 1000
	MaxWatchMs     = 3_600_000
)

// ServerChangedNotification is a piece of the state that a client watches: of the sessions that the client may observe, with their
// processes and groups. A piece is taken over in the order Anew, Gone, Sessions. (Ours.)
type ServerChangedNotification struct {
	// Anew: the state begins anew with this piece. Forget what earlier pieces have told.
	Anew bool `json:"anew,omitempty"`
	// Whole: with this piece the state is whole, for the first time since Anew.
	Whole bool `json:"whole,omitempty"`
	// Gone are the ids of sessions that have ended.
	Gone []string `json:"gone,omitempty"`
	// Sessions are those that are new, or in which something has changed.
	Sessions []SessionChange `json:"sessions,omitempty"`
}

// SessionChange is a session in which something has changed. A change is taken over in the order Forgotten, ForgottenGroups, List, Groups: ids of
// forgotten processes and groups may be used again. (Ours.)
type SessionChange struct {
	SessionSummary
	List            []ProcessInfoResult `json:"list,omitempty"`            // processes that are new or have changed, each as a whole
	Groups          []GroupInfo         `json:"groups,omitempty"`          // groups that are new or have changed, each as a whole
	Forgotten       []string            `json:"forgotten,omitempty"`       // ids of processes that the session does not have any more
	ForgottenGroups []string            `json:"forgottenGroups,omitempty"` // ids of groups that the session does not have any more
}
