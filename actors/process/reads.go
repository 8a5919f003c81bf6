package process

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// reads are the waiting process/read and process/wait.
type reads struct {
	waiting     []*parked
	pausedUntil time.Time // see readPause; zero: there is no pause
	heldUntil   time.Time // see heldTime; zero: no process/wait waits for the output of an ended program

	// A goroutine reads the disk for a process/read: unspooled comes. The others wait for their turn.
	unspooling bool
	disk       []*parked
}

// wake returns when answerDue has something to do; zero: never.
func (r *reads) wake() (at time.Time) {
	at = earlier(r.pausedUntil, r.heldUntil)
	for _, w := range r.waiting {
		at = earlier(at, w.until)
	}
	return at
}

// earlier returns the earlier of two times. The zero Time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// due reports whether the time at has come. The zero Time is never.
func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// pause begins a readPause. A pause under way is not prolonged.
func (r *reads) pause() {
	if r.pausedUntil.IsZero() {
		r.pausedUntil = time.Now().Add(readPause)
	}
}

// drop forgets the requests for which gone returns true.
func (r *reads) drop(gone func(*parked) bool) {
	r.waiting = slices.DeleteFunc(r.waiting, gone)
	r.disk = slices.DeleteFunc(r.disk, gone)
}

// park answers r if there is something to say. Otherwise park keeps r for at most ms milliseconds;
// nil ms: for ever.
func (p *process) park(ctx actor.Context, r *parked, ms *uint64) {
	if now := ms != nil && *ms == 0; p.answer(ctx, r, now) {
		if !now {
			p.reads.pause()
		}
		return
	}
	if ms != nil {
		r.until = time.Now().Add(protocol.FromMillis(*ms))
	}
	p.reads.waiting = append(p.reads.waiting, r)
}

// answerDue answers the requests whose time is up, and looks at the others when a pause is over.
func (p *process) answerDue(ctx actor.Context, now time.Time) {
	over := false
	for _, at := range []*time.Time{&p.reads.pausedUntil, &p.reads.heldUntil} {
		if due(*at, now) {
			*at, over = time.Time{}, true
		}
	}
	for i := 0; i < len(p.reads.waiting); {
		if r := p.reads.waiting[i]; due(r.until, now) {
			p.answer(ctx, r, true)
			p.env.At(ctx, env.ReadAnswered)
			p.reads.waiting = slices.Delete(p.reads.waiting, i, i+1)
			continue
		}
		i++
	}
	if over {
		p.answerReads(ctx)
	}
}

// answerReads answers the waiting requests for which there is something to say.
func (p *process) answerReads(ctx actor.Context) {
	waited := len(p.reads.waiting)
	p.reads.waiting = slices.DeleteFunc(p.reads.waiting, func(r *parked) bool { return p.answer(ctx, r, false) })
	if len(p.reads.waiting) < waited {
		p.reads.pause()
	}
}

const (
	// readPause is how long, after the answer to a process/read that could wait, the next such read waits for more than a
	// little output. A program that writes a line at a time thus costs one answer for each readPause, not for each line, and the
	// echo of a keystroke, which comes long after the last answer, does not wait. Timers may be late by half a millisecond.
	readPause = 500 * time.Microsecond
	// littleOutput is how much is a little output, in bytes, as in feed.After.
	littleOutput = 32 << 10
)

// readable reports whether the log has enough output for the answer to a process/read that may wait.
func (p *process) readable(params protocol.ProcessReadParams) bool {
	switch phase := p.life.Phase(); {
	case phase >= life.Closed:
		return true
	case !p.feed.Has(params.AfterSeq):
		return false
	case phase >= life.Exited || p.reads.pausedUntil.IsZero():
		return true
	}
	enough := uint64(littleOutput)
	if params.MaxBytes != nil {
		enough = min(enough, *params.MaxBytes)
	}
	return uint64(p.feed.After(params.AfterSeq)) >= enough
}

// answer answers a process/read or process/wait if there is something to say,
// or if the time of the request is up.
func (p *process) answer(ctx actor.Context, r *parked, now bool) bool {
	if params, ok := r.params.(protocol.ProcessReadParams); ok {
		return p.read(ctx, r, params, now)
	}
	st, ended := p.ended()
	if !ended && !now {
		return false
	}
	res := protocol.ProcessWaitResult{Exited: ended, Closed: p.life.Phase() >= life.Closed}
	if ended {
		res.Status = &st
	}
	p.reply(ctx, r, res, nil)
	return true
}

// heldTime is how long the output of an ended program must have waited for room before process/wait no longer waits for the output.
// While somebody reads, the answer comes after all output from before the exit.
const heldTime = 250 * time.Millisecond

// ended returns how the last run ended, also if the log does not have the exit yet, because output from before waits for room.
func (p *process) ended() (st protocol.ExitStatus, ok bool) {
	if p.life.Phase() >= life.Exited {
		return p.life.Status(), true
	}
	st, unread := p.life.Unread(p.now())
	if !unread {
		return st, false
	}
	if since, _ := p.run.intake.Starved(); since.IsZero() || time.Since(since) < heldTime {
		p.reads.heldUntil = time.Now().Add(heldTime)
		return st, false
	}
	return st, true
}

// read answers a process/read, unless it must wait.
func (p *process) read(ctx actor.Context, r *parked, params protocol.ProcessReadParams, now bool) bool {
	if !now && !p.readable(params) {
		return false
	}
	if p.feed.Log.Spooled() > 0 && p.reads.unspooling {
		p.reads.disk = append(p.reads.disk, r) // its turn comes
		return true
	}
	read := p.feed.Read(params.AfterSeq, params.MaxBytes, params.Detail)
	res := read.Result
	res.Exited, res.Closed = p.life.Phase() >= life.Exited, p.life.Phase() >= life.Closed
	if code := p.life.Status().ExitCode; res.Exited {
		res.ExitCode, res.SandboxDenied = &code, p.run.sandbox.Denied()
	}
	if params.Detail != "" {
		res.Instance = p.instance()
	}
	reply := message.Reply{Token: r.token, Result: res, From: read.From, To: read.To}
	if !read.Spooled {
		ctx.Send(r.sender, reply)
		return true
	}
	// On a goroutine, because a disk may be slow. One at a time, because a read takes memory.
	p.reads.unspooling = true
	sender, self, root := r.sender, ctx.Self(), ctx.ActorSystem().Root
	p.env.Run(root, self, "spool", func() {
		root.Send(sender, unspool(reply, res.Chunks, read.Entries))
		root.Send(self, unspooled{})
	})
	return true
}

// unspooled lets the next have its turn.
func (p *process) unspooled(ctx actor.Context) {
	p.reads.unspooling = false
	for len(p.reads.disk) > 0 && !p.reads.unspooling {
		r := p.reads.disk[0]
		p.answer(ctx, r, true)
		p.reads.disk = p.reads.disk[1:]
	}
}

// unspool reads the chunks on disk into the reply.
func unspool(reply message.Reply, chunks []protocol.Chunk, entries []outlog.Entry) message.Reply {
	for i := range entries {
		if e := &entries[i]; e.Spooled != nil {
			data, err := e.Spooled.Read(nil)
			if err != nil {
				return message.Reply{Token: reply.Token, Err: protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "%v", err)}
			}
			chunks[0].Chunk = data
		}
		if entries[i].Kind == outlog.Output && entries[i].Len() > 0 { // the others have no chunk
			chunks = chunks[1:]
		}
		entries[i].Spooled.Release() // not its slab: the reply still uses the slab
	}
	return reply
}
