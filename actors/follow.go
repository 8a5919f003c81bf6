package actors

import (
	"bytes"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
)

// followBytes is how much output a Followed has at most, unless a single entry has more.
const followBytes = 64 << 10

type (
	// Followed comes from the actor of Follow: the next entries of the log of a process, in order, without a hole and
	// without a double. The receiver owns them. Nothing further comes until the receiver answers with FollowOn. An entry of
	// the kind outlog.Output with nil Data was on a disk that did not give the output back; empty Data stands where the log was
	// closed before the process was run again (protocol.Restart.AfterEnd).
	Followed struct {
		Process string     // the client's id
		Gap     outlog.Gap // output before Entries that the log no longer held; From is 0 without a gap
		Entries []outlog.Entry
		// Lost: the process does not answer any more, and its end is not in the log. This Followed is the last.
		// Otherwise the last is the one with an entry of the kind outlog.Closed.
		Lost bool
	}
	// FollowOn answers Followed: the receiver has these entries, and the log need not keep them.
	FollowOn struct{}
)

// Follow spawns an actor, a child of the actor of ctx, that follows a process and sends Followed to its parent. Of from
// the members After and Owner count; an Owner acknowledges with each FollowOn. At most one Followed is on its way: a parent
// that does not answer lets the log of the process fill up, and no other queue. The actor stops with its parent, or after
// its last Followed.
func Follow(ctx actor.Context, process ProcessRef, from Subscribe) *actor.PID {
	f := &follower{to: ctx.Self(), process: process, owner: from.Owner, last: from.After}
	return ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return f })) // a restarted actor goes on where it was
}

// follower is the actor of Follow.
type follower struct {
	// Fixed at spawn.
	to      *actor.PID
	process ProcessRef
	owner   bool

	// Owned by Receive.
	last  uint64 // the last entry sent to the parent
	begun bool   // the process has had a Subscribe
	busy  bool   // a Followed has no answer, or is read from disk
	ended bool   // the last Followed was sent
	gone  bool   // the process does not answer any more
	// rest are the deliveries of a process that ends without waiting for the parent; bounded by the events in its log.
	rest []Delivery
}

// unspooled is a Followed whose output was read from disk.
type unspooled struct{ Followed Followed }

// Receive implements actor.Actor.
func (f *follower) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Watch(f.process.PID)
		f.subscribe(ctx)
	case *actor.Stopping:
		env.Unwatch(ctx, f.process.PID)
		ctx.Request(f.process.PID, Unsubscribe{})
	case Delivery:
		f.delivery(ctx, m)
	case unspooled:
		f.tell(ctx, m.Followed)
	case FollowOn:
		f.goOn(ctx)
	case Resubscribe:
		f.subscribe(ctx)
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes deliveries, and Gone does not
	case message.Gone, Refused:
		f.gone = true
		if len(f.rest) == 0 {
			f.lost(ctx)
		}
	}
}

// lost ends the actor of a process that has gone.
func (f *follower) lost(ctx actor.Context) {
	if !f.ended {
		f.ended = true
		ctx.Request(f.to, Followed{Process: f.process.ID, Lost: true})
	}
	ctx.Stop(ctx.Self())
}

// subscribe asks for the entries after the last one.
func (f *follower) subscribe(ctx actor.Context) {
	m := Subscribe{After: f.last, Owner: f.owner, Explicit: true, Resumed: f.begun, Pull: followBytes}
	if f.busy {
		m.Pull = 0 // FollowOn pulls
	}
	f.begun = true
	ctx.Request(f.process.PID, m)
}

func (f *follower) delivery(ctx actor.Context, m Delivery) {
	if m.Cut && f.busy {
		f.rest = append(f.rest, m)
		return
	}
	first := m.Gap.From
	if first == 0 && len(m.Entries) > 0 {
		first = m.Entries[0].Seq
	}
	if f.busy || f.ended || first != f.last+1 { // the actor of the process has failed, and sends this again
		m.Release()
		f.subscribe(ctx)
		return
	}
	f.busy = true
	next := Followed{Process: f.process.ID, Gap: m.Gap, Entries: slices.Clone(m.Entries)}
	if !slices.ContainsFunc(m.Entries, func(e outlog.Entry) bool { return e.Spooled != nil }) {
		copied(next.Entries)
		m.Release()
		f.tell(ctx, next)
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() { // a disk may take long
		copied(next.Entries)
		m.Release()
		root.Send(self, unspooled{next})
	}()
}

// copied gives entries memory of their own.
func copied(entries []outlog.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Spooled != nil {
			e.Data, _ = e.Spooled.Read(nil)
		} else {
			e.Data = bytes.Clone(e.Data)
		}
		e.Slab, e.Spooled = nil, nil
	}
}

func (f *follower) tell(ctx actor.Context, next Followed) {
	if n := len(next.Entries); n > 0 {
		f.last = next.Entries[n-1].Seq
		f.ended = next.Entries[n-1].Kind == outlog.Closed
	} else {
		f.last = next.Gap.To
	}
	ctx.Request(f.to, next)
}

func (f *follower) goOn(ctx actor.Context) {
	if !f.busy {
		return
	}
	f.busy = false
	if f.owner {
		ctx.Request(f.process.PID, Ack{To: f.last})
	}
	switch {
	case f.ended:
		ctx.Stop(ctx.Self())
	case len(f.rest) > 0:
		next := f.rest[0]
		f.rest = f.rest[1:]
		f.delivery(ctx, next)
	case f.gone:
		f.lost(ctx)
	default:
		ctx.Request(f.process.PID, Pull{Bytes: followBytes})
	}
}
