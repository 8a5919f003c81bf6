package process

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/notices"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

func (p *process) describe() protocol.ProcessInfo {
	retained, unacked := p.feed.Held()
	info := protocol.ProcessInfo{
		ProcessID:   p.id,
		Instance:    p.instance(),
		State:       p.state(),
		Group:       p.launch.GroupID(),
		Run:         p.life.Run(),
		Argv:        p.launch.Params.Argv,
		Cwd:         p.launch.Params.Cwd,
		TTY:         p.launch.Spec.TTY,
		StartedAtMs: p.created.UnixMilli(),
		FirstSeq:    p.feed.Log.First(),
		NextSeq:     p.feed.Log.Last() + 1,
		Retained:    retained,
		Unacked:     unacked,
		Containment: string(p.run.containment),
		StdinOpen:   p.stdin.Open(p.stdinState()),

		EndsWithServer: p.env.Estate != nil && p.kept.chain == nil,
	}
	info.Sandbox, info.SandboxLevel = p.run.sandbox.Describe()
	if u := p.launch.User(); u != nil {
		info.User = &protocol.RunUser{Name: u.Name, UID: uint64(u.UID), GID: uint64(u.GID)}
	}
	if h := p.run.handle; h != nil {
		if p.lives() {
			info.PID = h.PID()
		}
		info.Containment = string(h.Containment())
	}
	if st := p.life.Status(); p.life.Phase() >= life.Restarting && (p.life.Run() > 0 || p.life.Phase() > life.Restarting) {
		info.Status = &st
	}
	if st, unread := p.life.Unread(p.now()); unread {
		info.State, info.Status = string(protocol.StateDraining), &st
	}
	info.Ready = info.State == string(protocol.StateRunning) && p.health.Ready()
	if n, ok := p.life.Waits(); ok && !n.At.IsZero() {
		info.RestartInMs = env.Milliseconds(time.Until(n.At))
	}
	return info
}

// instance tells the process from others with its id, before and after.
func (r *processRecord) instance() string { return strings.TrimPrefix(r.name, "p-") }

func (p *process) state() string {
	if n, ok := p.life.Waits(); ok && n.Held {
		return string(protocol.StateWaiting)
	}
	return p.life.Phase().String()
}

// inspected is from the goroutine of child.Handle.Usage.
type inspected struct {
	r     *parked
	usage *protocol.Usage
}

func (inspected) IgnoreDeadLetterLogging() {}

// inspect is process/info, with or without the pressures of the kernel.
func (p *process) inspect(ctx actor.Context, r *parked, pressures bool) {
	handle := p.run.handle
	if handle == nil || p.life.Phase() != life.Running {
		p.inspected(ctx, inspected{r: r})
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	handle.Usage(pressures, func(u *protocol.Usage) { root.Send(self, inspected{r, u}) })
}

func (p *process) inspected(ctx actor.Context, m inspected) {
	info := p.info()
	if p.life.Phase() == life.Running { // else the pid of the usage may be another program's by now
		info.Usage = m.usage
	}
	p.reply(ctx, m.r, info, nil)
}

func (p *process) info() protocol.ProcessInfoResult {
	info := protocol.ProcessInfoResult{
		ProcessInfo:   p.describe(),
		WaitsFor:      p.waitsFor(p.run.handle),
		PendingWrites: p.stdin.Len(),
		OutputBytes:   p.feed.Log.Written(),
		DroppedBytes:  p.feed.Log.Dropped(),
		SpooledBytes:  p.feed.Log.Spooled(),
		Viewers:       []protocol.Viewer{},
	}
	if err := p.health.Ours(); err != nil && p.health.Ready() && p.life.Phase() == life.Running {
		info.ProbeError = err.Error()
	}
	info.QuietMs = sinceMs(p.health.HeardAt())
	p.feed.Each(func(v *viewer) {
		if v.Beside {
			return
		}
		viewer := protocol.Viewer{Role: protocol.RoleObserver, Hold: v.Hold}
		switch {
		case v.Owner:
			viewer.Role = protocol.RoleOwner
		case v.Role != "":
			viewer.Role = protocol.Role(v.Role)
		}
		if lag, since := p.feed.Lag(v); !since.IsZero() {
			viewer.LagBytes, viewer.LagMs = lag, max(sinceMs(since), 1)
		}
		info.Viewers = append(info.Viewers, viewer)
	})
	slices.SortFunc(info.Viewers, func(a, b protocol.Viewer) int { return int(b.LagBytes - a.LagBytes) })
	return info
}

// waitsFor lists the reasons why the process does not write, or does not end. handle is nil if it
// has no child.
func (p *process) waitsFor(handle child.Handle) []protocol.Wait {
	waits := []protocol.Wait{}
	wait := func(w protocol.Wait) { waits = append(waits, w) }
	n, between := p.life.Waits()
	switch {
	case p.life.Phase() >= life.Closed:
		return waits
	case p.life.Spawning():
		wait(protocol.Wait{For: protocol.WaitStart})
		return waits
	}
	_, pinned := p.feed.Held()
	if since, by := p.run.intake.Starved(); !since.IsZero() {
		wait(p.heldBack(since, by, pinned))
	}
	switch {
	case between && !n.Held && p.full():
		wait(protocol.Wait{For: protocol.WaitOwner, SinceMs: sinceMs(n.Ended), Bytes: pinned, Reason: "its next run waits until some of what it has written is read"})
	case between && n.Held:
		wait(protocol.Wait{For: protocol.WaitGroup, SinceMs: sinceMs(n.Ended), InMs: env.UntilMs(n.At), Reason: n.Reason})
	case between:
		wait(protocol.Wait{For: protocol.WaitBackoff, SinceMs: sinceMs(n.Ended), InMs: env.UntilMs(n.At), Reason: n.Reason})
	case p.life.Phase() == life.Exited:
		wait(protocol.Wait{For: protocol.WaitDescendants})
	case handle == nil:
	default:
		p.runWaitsFor(handle, wait)
		if len(waits) == 0 {
			wait(protocol.Wait{For: protocol.WaitItself, SinceMs: sinceMs(p.health.HeardAt())})
		}
	}
	return waits
}

// Stands implements env.Stander.
func (p *process) Stands() (state string, waits []string) {
	for _, w := range p.waitsFor(p.run.handle) {
		waits = append(waits, strings.TrimSpace(string(w.For)+" "+w.Reason))
	}
	return fmt.Sprintf("%s, run %d", p.state(), p.life.Run()), waits
}

// heldBack says which limit keeps the process from writing since a time. pinned is as in outputLimit.
func (p *process) heldBack(since time.Time, by child.Cause, pinned int64) protocol.Wait {
	w := protocol.Wait{SinceMs: sinceMs(since)}
	switch by {
	case child.ByRate:
		w.For, w.Limit, w.Reason = protocol.WaitRate, "max-output-rate-each", fmt.Sprintf("max-output-rate-each is %d bytes a second here", p.env.MaxOutputRateEach)
	case child.ByBudget:
		w.For, w.Limit, w.Reason = protocol.WaitBudget, "memory-budget", "the server holds as much output as it may"
		if share := p.memory(); share != p.env.OutputBudget && !p.env.OutputBudget.Short() {
			w.Limit, w.Reason = "max-retained-each", fmt.Sprintf("max-retained-each is %d bytes here, and the programs of its owner use %d", p.env.MaxRetainedEach, share.Used())
		}
	default:
		w.For, w.Bytes, w.Reason = protocol.WaitOwner, pinned, "its owner is attached, and has not read it"
		switch {
		case p.feed.Awaits():
			w.Reason = "a viewer that holds its output has yet to come"
		case p.feed.Evicts:
			w.Reason = "a viewer holds its output, and has not read it"
		case !p.feed.Attached():
			w.Reason = "nobody is attached as owner"
		}
		limit, text := p.outputLimit(pinned)
		w.Limit, w.Reason = limit, w.Reason+"; "+text
	}
	return w
}

// outputLimit returns the limit that holds unread output, by its name and in words. pinned is how many bytes of memory
// the unread output takes.
func (p *process) outputLimit(pinned int64) (limit, text string) {
	switch s := p.spool; {
	case s == nil:
		return "retention", "its retention holds " + show.Bytes(p.feed.Retention)
	case s.Err() != nil:
		return "spool-failed", "its spool has failed: " + s.Err().Error()
	case pinned >= p.feed.Retention+child.SpoolOverhead || p.run.intake != nil && p.run.intake.ManyPlaces():
		return "spool-places", fmt.Sprintf("%s are on disk, and the list of their places has its most, %s of memory", show.Bytes(p.feed.Log.Spooled()), show.Bytes(child.SpoolOverhead))
	case s.Full():
		return "spool-limit", show.Bytes(s.Held()) + " are on disk, as much as it may spool"
	case p.disk() != p.env.Disk && !p.env.Disk.Short():
		return "max-spooled-each", "the programs of its owner have spooled as much as they may"
	}
	return "spool-budget", "all programs together have spooled as much as they may"
}

func (p *process) runWaitsFor(handle child.Handle, wait func(protocol.Wait)) {
	if handle.Stopped() {
		wait(protocol.Wait{For: protocol.WaitStopped, Reason: "stopped by a signal"})
	}
	if p.life.Reason() != "" {
		wait(protocol.Wait{For: protocol.WaitEnd, InMs: env.UntilMs(p.life.KillAt()), Reason: p.life.Reason()})
	}
	if p.launch.Params.Ready != nil && !p.health.Ready() {
		w := protocol.Wait{For: protocol.WaitReady, InMs: env.Milliseconds(p.health.Left(p.healthNow())), Reason: p.launch.Params.Ready.String()}
		if err := p.health.Ours(); err != nil {
			w.Reason += ": the server cannot look: " + err.Error()
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

// noticed is what the process has noted on the board of notices.
type noticed struct {
	mark  *notices.Mark // nil: nothing
	state string
	run   int
	ready bool
}

// notice notes that the process has changed, unless somebody has only looked.
func (p *process) notice(ctx actor.Context) {
	if p.events == nil || !p.env.Notices.On() {
		return
	}
	if p.noticed.mark == nil {
		p.noticed.mark = &notices.Mark{Session: p.sessionID(), Process: p.name, PID: ctx.Self(), Of: p.session}
	}
	now := noticed{p.noticed.mark, p.counted, p.life.Run(), p.health.Ready()}
	if discrete := now != p.noticed; discrete || !looks(ctx.Message()) {
		p.env.Notices.Changed(now.mark, discrete)
	}
	p.noticed = now
}

// looks reports whether a message changes nothing.
func looks(m any) bool {
	switch m := m.(type) {
	case inspected:
		return true
	case message.Request:
		switch m.Params.(type) {
		case message.InspectRequest, message.DescribeRequest, protocol.ProcessInfoParams, protocol.ProcessScreenParams:
			return true
		}
	}
	return false
}
