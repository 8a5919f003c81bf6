package actors

import (
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/internal/budget"
)

// gauge is what the processes of one session count together. The session, its processes and the
// registry share it; any goroutine may use it.
type gauge struct {
	account *budget.Account // of kept, with the server; closed when the session has ended
	wrote   atomic.Int64    // when a process last did, as Unix nanoseconds
	held    atomic.Int64    // what all of them keep for the owner, in bytes
	looks   atomic.Int64    // at files, that wait for a filesystem
	kept    atomic.Int64    // what they are started from, in bytes; see maxKept
}

// lastWrite returns when a process of the session last wrote something.
func (g *gauge) lastWrite() time.Time { return time.Unix(0, g.wrote.Load()) }

// Held is how much the session's processes keep for its owner, in bytes.
func (g *gauge) Held() int64 { return g.held.Load() }
