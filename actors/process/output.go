package process

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/feed"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

type (
	// processFeed is the log of a process with its viewers.
	processFeed = feed.Feed[message.Key, *actor.PID]
	viewer      = feed.Viewer[*actor.PID]
)

// feedOf returns an empty feed with a retention in bytes. r.OnFull says what happens when the log
// is full; nil r: block.
func feedOf(r *protocol.Retention, retention int64, ephemeral bool) processFeed {
	return processFeed{Retention: retention, Evicts: r != nil && r.OnFull == protocol.OnFullEvict, Ephemeral: ephemeral}
}

// holds returns how many bytes the log holds, and how many of them for the owner. holds brings the
// gauge of the session up to date.
func (p *process) holds() (retained, pinned int64) {
	retained, pinned = p.feed.Held()
	p.gauge.HeldBytes.Add(pinned - p.gauged)
	p.gauged = pinned
	return retained, pinned
}

// held drops the entries that go, and tells the pumps how much the log holds. Call held whenever the log may hold less.
func (p *process) held() {
	most := int64(math.MaxInt64)
	if p.budget().Short() || p.feed.Log.Spooled() > 0 && p.spool.Short() {
		most = child.ShortLog
	}
	p.feed.Trim(most)
	p.intake.Hold(p.holds())
}

// awaitHolder has the log hold everything until a viewer with Hold comes, for the time that the client has asked for.
func (p *process) awaitHolder() {
	if r := p.params.Retention; r != nil && r.HoldMs != nil {
		p.feed.Await(time.Now(), env.FromMillis(*r.HoldMs))
	}
}

// refuses answers a viewer whose message is wrong; nil err: the message is right.
func (p *process) refuses(ctx actor.Context, err *protocol.Error) bool {
	if err != nil {
		ctx.Respond(message.Refused{Process: p.id, Err: err})
	}
	return err != nil
}

// notYet refuses a seq that the log does not have yet.
func (p *process) notYet(seq uint64) *protocol.Error {
	if last := p.feed.Log.Last(); seq > last {
		return protocol.WrongParams("process %s has no seq %d yet, the last is %d", p.id, seq, last)
	}
	return nil
}

func (p *process) subscribe(ctx actor.Context, m message.Subscribe) {
	if p.refuses(ctx, cmp.Or(m.Wrong(), env.FromFuture(ctx, ctx.Sender()))) {
		return
	}
	if !m.Now && !m.Acked && p.life.Phase() < life.Retired && p.refuses(ctx, p.notYet(m.After)) {
		return
	}
	key := message.KeyOf(ctx.Sender())
	p.feed.Subscribe(time.Now(), key, ctx.Sender(), feed.Subscription{After: m.After, Now: m.Now, Acked: m.Acked, Owner: m.Owner, Hold: m.Hold, Role: string(m.Role), Explicit: m.Explicit, Resumed: m.Resumed})
	if m.Owner || m.Hold {
		p.held()
	}
	p.pulled(ctx, key, m.Pull)
}

// pulled records a Pull of up to n bytes.
func (p *process) pulled(ctx actor.Context, key message.Key, n int) {
	if v := p.feed.Pull(key, n); v != nil {
		p.deliver(ctx, v)
	}
}

func (p *process) acked(ctx actor.Context, m message.Ack) {
	if !p.refuses(ctx, m.Wrong()) && p.feed.Ack(message.KeyOf(ctx.Sender()), m.From, m.To) {
		p.held()
	}
}

// deliver sends v the next delivery, if v waits and there is a delivery. After the cut, deliver sends all deliveries.
func (p *process) deliver(ctx actor.Context, v *viewer) {
	now := time.Now()
	for d, ok := p.feed.Next(now, v); ok; d, ok = p.feed.Next(now, v) {
		p.env.At(ctx, env.DeliveryRead)
		ctx.Request(v.To, message.Delivery{Process: p.id, Again: d.Again, Cut: p.feed.IsCut(), Gap: d.Gap, Entries: d.Entries, AckEvery: p.feed.Retention / 4})
		p.env.At(ctx, env.DeliverySent)
		if p.feed.Sent(now, v, &d) { // after the send: if the delivery is lost, the viewer subscribes again from the old cursor
			p.held()
		}
	}
}

func (p *process) removeViewer(ctx actor.Context, pid *actor.PID) {
	key := message.KeyOf(pid)
	p.feed.Remove(key)
	p.held()
	gone := func(r *parked) bool {
		if message.KeyOf(r.sender) != key {
			return false
		}
		r.stopTimer()
		return true
	}
	p.reads = slices.DeleteFunc(p.reads, gone)
	p.unspool = slices.DeleteFunc(p.unspool, gone)
	p.dropTrees(gone)
	// Not answered, so not accepted: the client will write them again.
	p.stdin.Drop(gone)
	p.acceptStdin(ctx)
	if p.feed.Ephemeral {
		p.life.Retire(p.now()) // nobody else will read it
	}
}

// park answers r if there is something to say. Otherwise park keeps r for at most ms milliseconds;
// nil ms: for ever.
func (p *process) park(ctx actor.Context, r *parked, ms *uint64) {
	if now := ms != nil && *ms == 0; p.answer(ctx, r, now) {
		if !now {
			p.pauseReads(ctx)
		}
		return
	}
	if ms != nil {
		r.timer = env.After(ctx, env.FromMillis(*ms), readDue{r})
	}
	p.reads = append(p.reads, r)
}

// answerParked answers r, whose time is up.
func (p *process) answerParked(ctx actor.Context, r *parked) {
	if i := slices.Index(p.reads, r); i >= 0 {
		p.answer(ctx, r, true)
		p.env.At(ctx, env.ReadAnswered)
		p.reads = slices.Delete(p.reads, i, i+1)
	}
}

func (p *process) answerReads(ctx actor.Context) {
	waited := len(p.reads)
	p.reads = slices.DeleteFunc(p.reads, func(r *parked) bool {
		done := p.answer(ctx, r, false)
		if done {
			r.stopTimer()
		}
		return done
	})
	if len(p.reads) < waited {
		p.pauseReads(ctx)
	}
}

const (
	// readPause is how long, after the answer to a process/read that could wait, the next such read waits for more than a
	// little output. A program that writes a line at a time thus costs one answer for each readPause, not for each line, and the
	// echo of a keystroke, which comes long after the last answer, does not wait. Timers may be late by half a millisecond.
	readPause = 500 * time.Microsecond
	// littleOutput is the cost of a little output, in bytes, as in outlog.Log.Cost.
	littleOutput = 32 << 10
)

// pauseReads begins a readPause. A pause under way is not prolonged.
func (p *process) pauseReads(ctx actor.Context) {
	if !p.readsAt.IsSet() {
		p.readsAt.Set(ctx, readPause, readsDue{})
	}
}

// readable reports whether the log has enough output for the answer to a process/read that may wait.
func (p *process) readable(params protocol.ProcessReadParams) bool {
	switch phase := p.life.Phase(); {
	case phase >= life.Closed:
		return true
	case !p.feed.Has(params.AfterSeq):
		return false
	case phase >= life.Exited || !p.readsAt.IsSet():
		return true
	}
	enough := uint64(littleOutput)
	if params.MaxBytes != nil {
		enough = min(enough, *params.MaxBytes)
	}
	return uint64(p.feed.Log.Cost(params.AfterSeq)) >= enough
}

// answer answers a process/read or process/wait if there is something to say,
// or if the time of the request is up.
func (p *process) answer(ctx actor.Context, r *parked, now bool) bool {
	if params, ok := r.params.(protocol.ProcessReadParams); ok {
		return p.read(ctx, r, params, now)
	}
	st, ended := p.ended(ctx)
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
func (p *process) ended(ctx actor.Context) (st protocol.ExitStatus, ok bool) {
	if p.life.Phase() >= life.Exited {
		return p.life.Status(), true
	}
	st, unread := p.life.Unread(p.now())
	if !unread {
		return st, false
	}
	if since, _ := p.intake.Starved(); since.IsZero() || time.Since(since) < heldTime {
		p.endAt.Set(ctx, heldTime, endDue{})
		return st, false
	}
	return st, true
}

// read answers a process/read, unless it must wait.
func (p *process) read(ctx actor.Context, r *parked, params protocol.ProcessReadParams, now bool) bool {
	if !now && !p.readable(params) {
		return false
	}
	if p.feed.Log.Spooled() > 0 && p.unspooling {
		p.unspool = append(p.unspool, r) // its turn comes
		return true
	}
	read := p.feed.Read(params.AfterSeq, params.MaxBytes, params.Detail)
	res := read.Result
	res.Exited, res.Closed = p.life.Phase() >= life.Exited, p.life.Phase() >= life.Closed
	if code := p.life.Status().ExitCode; res.Exited {
		res.ExitCode, res.SandboxDenied = &code, p.confined.wasDenied()
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
	p.unspooling = true
	sender, self, root := r.sender, ctx.Self(), ctx.ActorSystem().Root
	p.env.Run(root, self, "spool", func() {
		root.Send(sender, unspool(reply, res.Chunks, read.Entries))
		root.Send(self, unspooled{})
	})
	return true
}

// unspooled lets the next have its turn.
func (p *process) unspooled(ctx actor.Context) {
	p.unspooling = false
	for len(p.unspool) > 0 && !p.unspooling {
		r := p.unspool[0]
		p.answer(ctx, r, true)
		p.unspool = p.unspool[1:]
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
