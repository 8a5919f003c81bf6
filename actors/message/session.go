package message

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Gauge is what the processes of one session count together. The session, its processes and the
// registry share it; any goroutine may use it.
type Gauge struct {
	Account   *budget.Account // of kept, with the server; closed when the session has ended
	Wrote     atomic.Int64    // when a process last did, as Unix nanoseconds
	HeldBytes atomic.Int64    // what all of them keep for the owner, in bytes
	Looks     atomic.Int64    // at files, that wait for a filesystem
	KeptBytes atomic.Int64    // what they are started from, in bytes; see maxKept
}

// LastWrite returns when a process of the session last wrote something.
func (g *Gauge) LastWrite() time.Time { return time.Unix(0, g.Wrote.Load()) }

// Held is how much the session's processes keep for its owner, in bytes.
func (g *Gauge) Held() int64 { return g.HeldBytes.Load() }

type (
	// session: it has had no owner since then; the zero Time: it has one
	Standing struct {
		ID    string
		Since time.Time
		From  string // see Attach
		Empty bool   // nor a process
		Gauge *Gauge
	}
)

// LastName is the name of an actor under its parent: for the supervisor of a
// session, the session's id.
func LastName(pid *actor.PID) string { return pid.Id[strings.LastIndexByte(pid.Id, '/')+1:] }

// Messages to a session actor, beside those of messages.go; a connection sends
// itself gone, too.
type (
	// ProcessStarted is from a process, or from the supervisor that could not
	// spawn one; once, and again after an announce.
	ProcessStarted struct {
		ID, Name string
		Ref      ProcessRef
		Err      *protocol.Error // it could not be started
	}
	// process: its retention is over; last is the seq of closed. Answered with forgotten.
	ProcessRetired struct {
		ID, Name string
		Last     uint64
	}
	// ProcessEnded is a process's last word: how far its log came, whether that
	// ended with closed, and what of the process was not seen gone.
	ProcessEnded struct {
		Name   string
		Last   uint64
		Closed bool
		Left   error
	}
	Drain        struct{}                 // registry: the server shuts down
	Gone         struct{ Who *actor.PID } // itself: Terminated, in its turn; supervisor: of any
	GroupSpawned struct{ Name string }    // supervisor
	// group: how it stands now
	GroupReport struct {
		Name string
		Info protocol.GroupInfo
	}
)

type (
	// registry: end this session, because the server holds too much output, or needs its place
	Evict struct {
		Reason string
		IfIdle bool // only if it has no process; else the session answers with detached
	}
	// registry, when it is new: answered with detached
	TellStanding struct{}
	// An ephemeral session that has lost its owner sends this to the registry, which sends it back: so
	// it comes after a drain that is on its way.
	Abandoned struct{ ID string }
)

// AttachRequest is an Attach with its sender.
type AttachRequest struct {
	Attach
	Sender *actor.PID
}

// SessionName is the name of a session actor, under the supervisor that is named
// by the session's id.
const SessionName = "session"
