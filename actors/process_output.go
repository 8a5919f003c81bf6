package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxRead is the most that one process/read returns, in bytes.
const maxRead = 8 << 20

// The peer's client holds 256 events or 1 MiB of a process that come live before it has
// read what it missed, and with more it ends the process. It gives up on its own after 45 s.
// It reads in one task and puts in order in another: hence joinTime.
const (
	aheadEvents = 128
	aheadBytes  = 512 << 10
	aheadTime   = 45 * time.Second
	joinTime    = 100 * time.Millisecond // after the Pong to what it has read
)

// viewer is one who watches: a cursor, and what it asked for.
type viewer struct {
	pid    *actor.PID
	cursor outlog.Cursor
	pull   int       // bytes; 0: it has not asked
	behind time.Time // since when there is something that it has not asked for; zero: there is not
	owner  bool
	// Of an owner: only an Ack acknowledges.
	explicit bool
}

// ownership is how far the owner has come. What it has not had is kept.
type ownership struct {
	acked uint64 // all up to here
	// An owner that resumed without replay gets what comes after liveFrom, of that
	// it has had up to liveAcked; what lies between acked and liveFrom it must read.
	liveFrom, liveAcked uint64
	pid                 *actor.PID // nil: there is none
	since               time.Time  // it subscribed
}

// had reports whether the owner has had everything up to last; or what it gets by
// itself, and for so long the chance to read the rest.
func (o *ownership) had(last uint64, chance time.Duration) bool {
	return o.acked >= last || o.pid != nil && o.liveAcked >= last && time.Since(o.since) >= chance
}

// ack records that the owner has all after from up to to.
func (o *ownership) ack(from, to uint64) {
	switch {
	case from <= o.acked:
		o.acked = max(o.acked, to)
	case from <= o.liveAcked:
		o.liveAcked = max(o.liveAcked, to)
	}
	if o.acked >= o.liveFrom {
		o.acked = max(o.acked, o.liveAcked)
	}
}

// trim drops what need not be kept: what the owner has had, beyond the
// retention; with evict, whatever is beyond it.
func (p *process) trim() {
	keep, limit := p.pin(), p.retention
	if p.shared.budget.Short() || p.log.Spooled() > 0 || p.ephemeral {
		limit = 0 // what has been had does not stay in the way of what has not, nor where nobody reads it again
	}
	if p.evicts() && keep > 0 {
		keep-- // the newest stays, however little is kept: it is on its way to viewers
	}
	p.log.Drop(limit, keep)
}

// pin is the seq up to which the owner has had all: what follows is kept.
func (p *process) pin() uint64 {
	if p.evicts() {
		return p.log.Last()
	}
	keep := p.owner.acked
	for _, v := range p.viewers {
		if v.owner {
			keep = min(keep, v.cursor.Seq)
		}
	}
	return keep
}

// pinned is what is kept for the owner, in bytes.
func (p *process) pinned() int64 { return p.log.Cost(p.pin()) }

// holds is what the log does, in bytes, and what of it is kept for the owner.
func (p *process) holds() (retained, pinned int64) {
	retained, pinned = p.log.Cost(0), p.pinned()
	p.gauge.held.Add(pinned - p.gauged)
	p.gauged = pinned
	return retained, pinned
}

func (p *process) evicts() bool {
	return p.params.Retention != nil && p.params.Retention.OnFull == protocol.OnFullEvict
}

// held tells the pumps what the log holds, after that has become less.
func (p *process) held() {
	p.trim()
	p.intake.Hold(p.holds())
}

func (p *process) subscribe(ctx actor.Context, m Subscribe) {
	v := &viewer{pid: ctx.Sender(), owner: m.Owner, explicit: m.Explicit}
	if m.Now {
		m.After = p.log.Last()
	}
	if last := p.log.Last(); m.After > last && p.phase < retired {
		ctx.Respond(Refused{p.id, protocol.Errorf(protocol.CodeInvalidParams, "process %s has no seq %d yet, the last is %d", p.id, m.After, last)})
		return
	}
	v.cursor = p.log.At(m.After)
	p.viewers[whoOf(v.pid)] = v
	if m.Owner {
		p.owner.pid, p.owner.since = v.pid, time.Now()
		if !m.Resumed {
			p.owner.liveFrom, p.owner.liveAcked = v.cursor.Seq, v.cursor.Seq
			p.aheadAt.cancel()
			switch {
			case m.Explicit:
			case !m.Now:
				p.owner.ack(0, v.cursor.Seq) // who wants what follows has what comes before
			case p.owner.acked < v.cursor.Seq && !p.evicts():
				p.aheadAt.set(ctx, aheadTime, aheadDue{})
			}
		}
		p.held()
	}
	v.pull = m.Pull
	p.deliver(ctx, v)
	p.mayGo(ctx)
}

// acked records that the owner has all after from up to to, perhaps what it had missed.
func (p *process) acked(ctx actor.Context, from, to uint64) {
	o := &p.owner
	missed := o.acked < o.liveFrom
	o.ack(from, min(to, p.log.Last()))
	if missed && o.acked >= o.liveFrom && time.Until(p.aheadAt.due) > joinTime {
		p.aheadAt.set(ctx, joinTime, aheadDue{})
	}
	p.held()
}

// ahead is how much v may get of what it has asked for, and up to which seq: an owner that
// has yet to read what it missed, only what it can hold.
func (p *process) ahead(ctx actor.Context, v *viewer) (limit int, to uint64) {
	left := time.Until(p.aheadAt.due)
	if !v.owner || left <= 0 || p.stopping != nil {
		return v.pull, p.log.Last()
	}
	p.aheadAt.sooner(ctx, left, aheadDue{}) // if the actor was restarted
	had := p.log.Cost(p.owner.liveFrom) - p.log.Cost(v.cursor.Seq)
	if had >= aheadBytes {
		return 0, v.cursor.Seq
	}
	return min(v.pull, int(aheadBytes-had)), min(p.log.Last(), p.owner.liveFrom+aheadEvents)
}

func (p *process) deliver(ctx actor.Context, v *viewer) {
	if v.cursor.Seq >= p.log.Last() {
		return
	}
	limit, to := p.ahead(ctx, v)
	if v.pull == 0 || v.cursor.Seq >= to {
		if v.behind.IsZero() {
			v.behind = time.Now()
		}
		return
	}
	pinned := v.owner && v.cursor.Seq < p.owner.acked
	cursor := v.cursor
	entries, gap := p.log.ReadTo(&cursor, to, limit, nil)
	p.shared.at(ctx, deliveryRead)
	ctx.Request(v.pid, Delivery{p.id, gap, entries, p.retention / 4})
	p.shared.at(ctx, deliverySent)
	v.cursor, v.pull = cursor, 0 // not before: who does not get it subscribes again from here
	if v.behind = (time.Time{}); v.cursor.Seq < p.log.Last() {
		v.behind = time.Now()
	}
	if pinned {
		p.held() // an owner that reads again what it had acknowledged: no Ack need follow
	}
}

func (p *process) removeViewer(ctx actor.Context, pid *actor.PID) {
	key := whoOf(pid)
	delete(p.viewers, key)
	if pid.Equal(p.owner.pid) {
		p.owner.pid = nil
	}
	p.held()
	gone := func(r *parked) bool {
		if whoOf(r.sender) != key {
			return false
		}
		r.stopTimer()
		return true
	}
	p.reads = slices.DeleteFunc(p.reads, gone)
	p.unspool = slices.DeleteFunc(p.unspool, gone)
	p.dropTrees(gone)
	// Not answered, so not accepted: the client will write them again.
	p.stdin = slices.DeleteFunc(p.stdin, gone)
	p.acceptStdin(ctx)
	p.mayGo(ctx)
	if p.ephemeral {
		p.retire(ctx) // nobody else will read it
	}
}

// park answers r if it can be answered, else keeps it until it can, for at most
// ms milliseconds; nil means for ever.
func (p *process) park(ctx actor.Context, r *parked, ms *uint64) {
	if p.answer(ctx, r, ms != nil && *ms == 0) {
		return
	}
	if ms != nil {
		r.timer = after(ctx, fromMillis(*ms), readDue{r})
	}
	p.reads = append(p.reads, r)
}

// answerParked answers r, whose time is up.
func (p *process) answerParked(ctx actor.Context, r *parked) {
	if i := slices.Index(p.reads, r); i >= 0 {
		p.answer(ctx, r, true)
		p.shared.at(ctx, readAnswered)
		p.reads = slices.Delete(p.reads, i, i+1)
	}
}

func (p *process) answerReads(ctx actor.Context) {
	p.reads = slices.DeleteFunc(p.reads, func(r *parked) bool {
		done := p.answer(ctx, r, false)
		if done {
			r.stopTimer()
		}
		return done
	})
}

// answer answers a process/read or process/wait if there is something to say,
// or if it must be answered now.
func (p *process) answer(ctx actor.Context, r *parked, now bool) bool {
	if params, ok := r.params.(protocol.ProcessReadParams); ok {
		return p.read(ctx, r, params, now)
	}
	if p.phase < exited && !now {
		return false
	}
	res := protocol.ProcessWaitResult{Exited: p.phase >= exited, Closed: p.phase >= closed}
	if st := p.status; res.Exited {
		res.Status = &st
	}
	p.reply(ctx, r, res, nil)
	return true
}

// read is the algorithm of exec-server wire §5.
func (p *process) read(ctx actor.Context, r *parked, params protocol.ProcessReadParams, now bool) bool {
	last := p.log.Last()
	if params.AfterSeq >= last && p.phase < closed && !now {
		return false
	}
	limit := uint64(maxRead)
	if params.MaxBytes != nil {
		limit = min(limit, *params.MaxBytes)
	}
	if p.log.Spooled() > 0 {
		if p.unspooling {
			p.unspool = append(p.unspool, r) // its turn comes
			return true
		}
		limit = min(limit, deliveryBytes)
	}
	cursor := p.log.At(params.AfterSeq)
	entries, _ := p.log.Read(&cursor, int(limit), nil)
	res := protocol.ProcessReadResult{
		Chunks:   []protocol.Chunk{},
		NextSeq:  last + 1,
		Exited:   p.phase >= exited,
		Closed:   p.phase >= closed,
		FirstSeq: p.log.First(),
	}
	spooled := false
	for _, e := range entries {
		if e.Kind == outlog.Output {
			res.Chunks = append(res.Chunks, protocol.Chunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
			spooled = spooled || e.Spooled != nil
		}
	}
	if len(res.Chunks) > 0 && (params.MaxBytes != nil || cursor.Seq < last) {
		res.NextSeq = res.Chunks[len(res.Chunks)-1].Seq + 1
	}
	if code := p.status.ExitCode; res.Exited {
		res.ExitCode = &code
	}
	reply := Reply{Token: r.token, Result: res, From: min(params.AfterSeq, last), To: res.NextSeq - 1}
	if !spooled {
		ctx.Send(r.sender, reply)
		return true
	}
	// Not from here, for a disk may be slow; and one at a time, for what was read is memory.
	p.unspooling = true
	sender, self, root := r.sender, ctx.Self(), ctx.ActorSystem().Root
	p.shared.run(root, self, "spool", func() {
		root.Send(sender, unspool(reply, res.Chunks, entries))
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

// unspool fills in what of chunks lies on disk.
func unspool(reply Reply, chunks []protocol.Chunk, entries []outlog.Entry) Reply {
	for i := range entries {
		if e := &entries[i]; e.Spooled != nil {
			data, err := e.Spooled.Read(nil)
			if err != nil {
				return Reply{Token: reply.Token, Err: protocol.Errorf(protocol.CodeInternal, "%v", err)}
			}
			chunks[0].Chunk = data
		}
		if entries[i].Kind == outlog.Output {
			chunks = chunks[1:]
		}
		entries[i].Spooled.Release() // not its slab: the reply has that
	}
	return reply
}
