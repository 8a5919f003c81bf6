package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/protocol"
)

func (p *process) describe() protocol.ProcessInfo {
	retained, unacked := p.feed.Held()
	info := protocol.ProcessInfo{
		ProcessID:   p.id,
		State:       p.state(),
		Group:       p.groupID,
		Run:         p.run,
		Argv:        p.params.Argv,
		Cwd:         p.params.Cwd,
		TTY:         p.spec.TTY,
		StartedAtMs: p.created.UnixMilli(),
		FirstSeq:    p.feed.Log.First(),
		NextSeq:     p.feed.Log.Last() + 1,
		Retained:    retained,
		Unacked:     unacked,
	}
	if h := p.handleNow(); h != nil {
		if p.phase == running {
			info.PID = h.PID()
		}
		info.Containment = string(h.Containment())
	}
	if st := p.status; p.phase >= restarting && (p.run > 0 || p.phase > restarting) {
		info.Status = &st
	}
	info.Ready = p.phase == running && p.health.ready
	if n := p.interval; n != nil && !n.at.IsZero() {
		info.RestartInMs = env.Milliseconds(time.Until(n.at))
	}
	return info
}

func (p *process) state() string {
	if n := p.interval; n != nil && n.held {
		return "waiting" // for its group
	}
	return p.phase.String()
}

// inspected is from the goroutine that looked what the process uses.
type inspected struct {
	r     *parked
	usage *protocol.Usage
}

func (inspected) IgnoreDeadLetterLogging() {}

// inspect is process/info.
func (p *process) inspect(ctx actor.Context, r *parked) {
	handle := p.handleNow()
	if handle == nil || p.phase != running {
		p.inspected(ctx, inspected{r: r})
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	handle.Usage(func(u *protocol.Usage) { root.Send(self, inspected{r, u}) })
}

func (p *process) inspected(ctx actor.Context, m inspected) {
	info := p.info()
	info.Usage = m.usage
	p.reply(ctx, m.r, info, nil)
}

func (p *process) info() protocol.ProcessInfoResult {
	info := protocol.ProcessInfoResult{
		ProcessInfo:   p.describe(),
		WaitsFor:      p.waitsFor(p.handleNow()),
		PendingWrites: len(p.stdin),
		DroppedBytes:  p.feed.Log.Dropped(),
		SpooledBytes:  p.feed.Log.Spooled(),
		Viewers:       []protocol.Viewer{},
	}
	if err := p.health.ours; err != nil && p.health.ready && p.phase == running {
		info.ProbeError = err.Error()
	}
	if !p.health.heard.IsZero() {
		info.QuietMs = sinceMs(p.health.heard)
	}
	p.feed.Each(func(v *viewer) {
		viewer := protocol.Viewer{Role: protocol.RoleObserver}
		if v.Owner {
			viewer.Role = protocol.RoleOwner
		}
		if lag, since := p.feed.Lag(v); !since.IsZero() {
			viewer.LagBytes, viewer.LagMs = lag, max(sinceMs(since), 1)
		}
		info.Viewers = append(info.Viewers, viewer)
	})
	slices.SortFunc(info.Viewers, func(a, b protocol.Viewer) int { return int(b.LagBytes - a.LagBytes) })
	return info
}

// waitsFor is what keeps the process from writing, or from ending. handle is nil if it
// has no child.
func (p *process) waitsFor(handle child.Handle) []protocol.Wait {
	waits := []protocol.Wait{}
	wait := func(w protocol.Wait) { waits = append(waits, w) }
	n := p.interval
	switch {
	case p.phase >= closed:
		return waits
	case p.phase == starting, n != nil && n.spawning:
		wait(protocol.Wait{For: protocol.WaitStart})
		return waits
	}
	_, pinned := p.feed.Held()
	switch since, budget := p.intake.Starved(); {
	case since.IsZero():
	case budget:
		wait(protocol.Wait{For: protocol.WaitBudget, SinceMs: sinceMs(since), Reason: "the server holds as much output as it may"})
	default:
		w := protocol.Wait{For: protocol.WaitOwner, SinceMs: sinceMs(since), Bytes: pinned, Reason: "its owner is attached, and has not read it"}
		if !p.feed.Attached() {
			w.Reason = "nobody is attached as owner"
		}
		if p.spool != nil && p.spool.Err() != nil {
			w.Reason += "; its spool has failed: " + p.spool.Err().Error()
		}
		wait(w)
	}
	switch {
	case n != nil && !n.held && p.full():
		wait(protocol.Wait{For: protocol.WaitOwner, SinceMs: sinceMs(n.ended), Bytes: pinned, Reason: "its next run waits until some of what it has written is read"})
	case n != nil && n.held:
		wait(protocol.Wait{For: protocol.WaitGroup, SinceMs: sinceMs(n.ended), InMs: env.UntilMs(n.at), Reason: n.reason})
	case n != nil:
		wait(protocol.Wait{For: protocol.WaitBackoff, SinceMs: sinceMs(n.ended), InMs: env.UntilMs(n.at), Reason: n.reason})
	case p.phase == exited:
		wait(protocol.Wait{For: protocol.WaitDescendants})
	case handle == nil:
	default:
		p.runWaitsFor(handle, wait)
		if len(waits) == 0 {
			wait(protocol.Wait{For: protocol.WaitItself, SinceMs: sinceMs(p.health.heard)})
		}
	}
	return waits
}

func (p *process) runWaitsFor(handle child.Handle, wait func(protocol.Wait)) {
	if handle.Stopped() {
		wait(protocol.Wait{For: protocol.WaitStopped, Reason: "stopped by a signal"})
	}
	if p.endReason != "" {
		wait(protocol.Wait{For: protocol.WaitEnd, InMs: p.killAt.Left(), Reason: p.endReason})
	}
	if p.params.Ready != nil && !p.health.ready {
		w := protocol.Wait{For: protocol.WaitReady, InMs: p.health.readyAt.Left()}
		if w.InMs > 0 {
			w.InMs += env.Milliseconds(p.excused() - p.health.granted)
		}
		if err := p.health.ours; err != nil {
			w.Reason = "the server cannot look: " + err.Error()
		}
		wait(w)
	}
}

// sinceMs is 0 for the zero Time.
func sinceMs(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return env.Milliseconds(time.Since(t))
}
