package process

import (
	"cmp"
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
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

// share is the part of a process in the gauge of its session.
type share struct {
	*message.Gauge
	held int64 // in HeldBytes
}

// hold has the part of the process in HeldBytes be n bytes.
func (s *share) hold(n int64) {
	s.HeldBytes.Add(n - s.held)
	s.held = n
}

// holds returns how many bytes the log holds, and how many of them for the owner. holds brings the
// gauge of the session up to date.
func (p *process) holds() (retained, pinned int64) {
	retained, pinned = p.feed.Held()
	p.gauge.hold(pinned)
	return retained, pinned
}

// held drops the entries that go, and tells the pumps how much the log holds. Call held whenever the log may hold less.
func (p *process) held() {
	most := int64(math.MaxInt64)
	if p.memory().Short() || p.feed.Log.Spooled() > 0 && p.spool.Short() {
		most = child.ShortLog
	}
	p.feed.Trim(most)
	p.kept.drop(p.feed.Log.First())
	p.spool.Punch() // now the next server does not look for what is gone
	p.run.intake.Hold(p.holds())
}

// awaitHolder has the log hold everything until a viewer with Hold comes, for the time that the client has asked for.
func (p *process) awaitHolder() {
	if r := p.launch.Params.Retention; r != nil && r.HoldMs != nil {
		p.feed.Await(time.Now(), protocol.FromMillis(*r.HoldMs))
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
	if p.refuses(ctx, cmp.Or(m.Wrong(), message.FromFuture(ctx, ctx.Sender()))) {
		return
	}
	if !m.Now && !m.Acked && p.life.Phase() < life.Retired && p.refuses(ctx, p.notYet(m.After)) {
		return
	}
	key := message.KeyOf(ctx.Sender())
	p.feed.Subscribe(time.Now(), key, ctx.Sender(), feed.Subscription{After: m.After, Now: m.Now, Acked: m.Acked, Owner: m.Owner, Hold: m.Hold, Role: string(m.Role), Explicit: m.Explicit, Resumed: m.Resumed, Beside: p.isScreen(ctx.Sender())})
	if m.Owner || m.Hold {
		p.held()
	}
	p.pulled(ctx, key, m.Pull)
}

// pulled records a Pull of up to n bytes.
func (p *process) pulled(ctx actor.Context, key message.Key, n int) {
	if v := p.feed.Pull(key, n); v != nil {
		p.deliver(ctx, v, time.Time{})
	}
}

func (p *process) acked(ctx actor.Context, m message.Ack) {
	if !p.refuses(ctx, m.Wrong()) && p.feed.Ack(message.KeyOf(ctx.Sender()), m.From, m.To) {
		p.held()
	}
}

// deliver sends v the next delivery, if v waits and there is a delivery. After the cut, deliver sends all deliveries.
func (p *process) deliver(ctx actor.Context, v *viewer, read time.Time) {
	now := time.Now()
	for d, ok := p.feed.Next(now, v); ok; d, ok = p.feed.Next(now, v) {
		p.env.At(ctx, env.DeliveryRead)
		ctx.Request(v.To, message.Delivery{Process: p.id, Again: d.Again, Cut: p.feed.IsCut(), Gap: d.Gap, Entries: d.Entries, AckEvery: p.feed.Retention / 4, At: read})
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
	if p.display != nil && p.display.pid != nil {
		ctx.Send(p.display.pid, message.ScreenForget{PID: pid})
	}
	gone := func(r *parked) bool { return message.KeyOf(r.sender) == key }
	p.reads.drop(gone)
	p.trees.drop(gone)
	// Not answered, so not accepted: the client will write them again.
	p.stdin.Drop(gone)
	p.acceptStdin(ctx)
	if p.feed.Ephemeral {
		p.life.Retire(p.now()) // nobody else will read it
	}
}
