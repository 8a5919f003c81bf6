package registry

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/estate"
)

// leaves is the drain of the server: the server opens no session, and all sessions end at Until. The next server goes on with the drain.
type leaves struct {
	kept  struct{ Until time.Time } // zero: the server stays
	owner *estate.Owner             // of kept; nil: nothing outlives this server
	left  func()                    // may be called again
}

// keptAs is the name of the record of leaves.
const keptAs = "leaves"

func newLeaves(e *env.Env, left func()) leaves {
	l := leaves{left: sync.OnceFunc(left)}
	for name := range e.Estate.Names(keptAs) {
		if err := e.Estate.Revive(name, &l.kept); err != nil {
			e.Log.Error("the last server was being drained, and this one does not know until when", "err", err)
		}
	}
	l.owner = e.Estate.Owner(keptAs)
	l.tell(e)
	return l
}

func (l *leaves) on() bool { return !l.kept.Until.IsZero() }

// keep takes a Leave, also for the next server.
func (l *leaves) keep(e *env.Env, m message.Leave) {
	l.kept.Until = m.Until
	l.owner.Keep(&l.kept)
	l.tell(e)
}

// tell publishes until when the server is drained.
func (l *leaves) tell(e *env.Env) {
	at := int64(0)
	if l.on() {
		at = l.kept.Until.UnixNano()
	}
	e.Counts.Leaves.Store(at)
}

// news returns the message for a session; ok is false if the server stays.
func (l *leaves) news() (m message.Leave, ok bool) { return message.Leave{Until: l.kept.Until}, l.on() }

// leave tells every session its end, and refuses the wanted sessions. May be repeated.
func (r *registry) leave(ctx actor.Context) {
	for _, s := range r.known {
		ctx.Send(s, message.Leave{Until: r.leaves.kept.Until})
	}
	r.seat(ctx)
	r.mayEnd(ctx)
}
