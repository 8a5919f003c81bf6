package actors

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"golang.org/x/sys/unix"
)

// interval is the time between two runs, or after the last one. It ends when the tree of the old run
// is gone and the output of that run is logged.
type interval struct {
	verdict  supervision.Verdict // Again or GivenUp; Over if somebody ended it meanwhile
	reason   string
	delay    time.Duration
	at       time.Time // the next run does not begin before
	ended    time.Time // the run; zero: there was none
	treeGone bool
	closed   bool // its streams have ended
	logged   bool // the beginning of the next run is
	over     bool // the verdict, which is another than Again, is logged
	spawning bool // the spawner has been asked for that
	// The server could not start it, and tries again; because is what reason was.
	unstarted bool
	because   string

	// Of a process of a group, which says what follows:
	held bool             // it has not yet
	told int              // the run whose end the group was told
	end  *supervision.End // of the last run; nil: there was none
}

// spawn asks for a child for the current run.
func (p *process) spawn(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	in := child.NewIntake(p.feed.Retention, p.shared.OutputBudget, p.spool, func() { root.Send(self, factsReady{}) })
	if p.intake != nil {
		in.Succeed(p.intake)
	}
	p.intake = in
	p.intake.Hold(p.holds())
	p.mu.Lock()
	p.handle, p.startErr = nil, nil
	p.mu.Unlock()
	spec := p.spec
	if p.run > 1 {
		spec.Name += "." + strconv.Itoa(p.run) // of its cgroup, and its mark
	}
	r := p.processRecord
	p.shared.At(ctx, env.SpawnPrepared)
	p.asked = p.run
	p.shared.StartChild(spec, p.intake, func(h child.Handle, err error) {
		r.mu.Lock()
		r.handle, r.startErr = h, err
		gone := r.gone
		r.mu.Unlock()
		if gone {
			r.destroy()
		}
		root.Send(self, spawned{})
	})
	p.shared.At(ctx, env.SpawnAsked)
}

// runEnded decides what follows a run. It reports false if that was the last, in
// good order.
func (p *process) runEnded(ctx actor.Context, st protocol.ExitStatus) bool {
	if p.restart == nil || p.stopping != nil || p.terminated {
		return false
	}
	now, end := time.Now(), p.endOf(st)
	n := &interval{verdict: supervision.Again, ended: now, held: true, end: &end, told: p.unread}
	if p.group == nil {
		d := p.history.Ended(now, *p.restart, end, rand.Float64())
		if d.Verdict == supervision.Over {
			return false
		}
		n = &interval{verdict: d.Verdict, reason: d.Reason, ended: now, delay: d.Delay, at: now.Add(d.Delay)}
	}
	n.treeGone = p.handleNow() == nil // it could not be started
	n.closed = n.treeGone
	p.phase, p.interval = restarting, n
	p.shared.At(ctx, env.RunOver)
	return true
}

// endOf is what supervision is told about the end of the run.
func (p *process) endOf(st protocol.ExitStatus) supervision.End {
	return supervision.End{
		ExitCode:  st.ExitCode,
		Signal:    st.Signal,
		Fault:     p.fault,
		Requested: p.endReason != "" && p.fault == "",
		Again:     p.restartAsked,
	}
}

// clearRun ends all that the last run left.
func (p *process) clearRun(ctx actor.Context) {
	p.handleNow().Abandon()
	p.killTree(ctx)
}

// advance goes on with an interval as far as it can. May be repeated.
func (p *process) advance(ctx actor.Context) {
	n := p.interval
	if n == nil || n.spawning || !n.treeGone || !n.closed || p.health.probing.Load() {
		return
	}
	if p.group != nil {
		p.obey(ctx)
	}
	if p.stopping != nil {
		n.verdict, n.reason = supervision.Over, p.stopping.Reason
	}
	if n.held && n.verdict == supervision.Again {
		p.tellEnded(ctx)
		return
	}
	if n.verdict != supervision.Again {
		p.answerTrees(ctx, nil) // the old one is gone, and there is no other
		switch {
		case n.over: // by an instance that failed over the rest
		case n.verdict == supervision.GivenUp, n.logged && p.run > 0:
			p.feed.Log.AppendEvicted(n.reason)
		case p.run == 0:
			p.logExit(ctx, protocol.ExitStatus{ExitCode: 127, Reason: "never run: " + n.reason})
		}
		n.over = true
		if n.verdict == supervision.GivenUp {
			p.leaving = n.reason
		}
		p.close(ctx)
		p.interval = nil
		p.spread(ctx)
		return
	}
	if p.full() {
		return
	}
	if !n.logged {
		lost := int64(0)
		if h := p.handleNow(); h != nil {
			lost = h.StdinUnread()
		}
		p.feed.Log.AppendRestarted(outlog.Restart{Run: p.run + 1, Reason: n.reason, Delay: n.delay, StdinLost: lost})
		n.logged = true
		p.shared.At(ctx, env.RestartLogged)
		p.spread(ctx)
	}
	if wait := time.Until(n.at); wait > 0 {
		p.restartAt.Sooner(ctx, wait, restartDue{})
		return
	}
	p.restartAt.Stop()
	p.finishRun()
	p.run, n.spawning = p.run+1, true
	p.killing, p.endOrdered, p.unread = false, false, 0
	p.timedOut, p.endReason, p.fault, p.restartAsked, p.killRest = false, "", "", false, false
	p.stdinEnd, p.refused = false, time.Time{}
	p.stdinAt.Stop()
	p.writeIDs.nextRun()
	p.shared.At(ctx, env.RunCounted)
	p.spawn(ctx)
}

// full reports whether the owner has to have some of the log first: ends cost, too.
func (p *process) full() bool {
	extra := int64(0)
	if p.spool != nil {
		extra = child.SpoolOverhead
	}
	return p.feed.Full(extra)
}

// finishRun lets go of the last child, whose tree is gone.
func (p *process) finishRun() {
	h := p.handleNow()
	if h == nil {
		return // it could not be started
	}
	in, log, name := p.intake, p.shared.Log, p.name
	h.Finish(func(err error) {
		in.Close()
		if err != nil {
			log.Error("finish", "actor", name, "err", err)
		}
	})
}

// startRetry is how long a run waits that the server could not start.
const startRetry = time.Second

// startAgain tries the next run again: that the server has no descriptors, or no room, is
// no failure of the program's and does not count for its policy.
func (p *process) startAgain(ctx actor.Context, err error) {
	n := p.interval
	if !n.unstarted {
		n.unstarted, n.because = true, n.reason
		p.shared.Log.Warn("the server cannot start a process again, and tries on", "actor", p.name, "run", p.run, "every", startRetry, "err", err)
	}
	if n.verdict == supervision.Again {
		n.reason = fmt.Sprintf("%s; the server could not start it: %v", n.because, err)
	}
	n.at, n.spawning = time.Now().Add(startRetry), false
	p.run-- // it has not begun
	p.advance(ctx)
	if p.stopping != nil {
		p.stop(ctx, *p.stopping)
	}
}

// reasonNotStarted is that of a run whose program could not be started again.
const reasonNotStarted = "it could not be started"

// respawned goes on with the child of the next run.
func (p *process) respawned(ctx actor.Context, handle child.Handle, err error) {
	if err != nil && !ofCommand(err) {
		p.startAgain(ctx, err)
		return
	}
	if err != nil {
		st := protocol.ExitStatus{ExitCode: 127, Run: p.run, Reason: reasonNotStarted}
		p.shared.Log.Warn("process could not be started again", "actor", p.name, "run", p.run, "err", err)
		p.logExit(ctx, st)
		if !p.runEnded(ctx, st) {
			p.interval.verdict, p.interval.spawning = supervision.Over, false
			p.interval.treeGone, p.interval.closed = true, true
		}
		if p.interval.end != nil {
			p.interval.end.Fault = err.Error()
		}
		p.interval.reason = fmt.Sprintf("%s: %v", p.interval.reason, err)
		p.spread(ctx)
		p.advance(ctx)
		if p.stopping != nil {
			p.stop(ctx, *p.stopping)
		}
		return
	}
	p.interval, p.phase = nil, running
	if p.spec.TTY && p.spec.Size != (protocol.Size{}) {
		p.logErr("resize", handle.Resize(p.spec.Size)) // it may have changed meanwhile
	}
	p.begin(ctx)
	p.acceptStdin(ctx)
}

// restartNow is process/restart.
func (p *process) restartNow(ctx actor.Context) *protocol.Error {
	switch {
	case p.restart == nil:
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s was started without restart: nothing is kept to start it from", p.id)
	case p.phase >= exited, p.stopping != nil:
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s has ended: start it anew", p.id)
	case p.phase == restarting:
		n := p.interval
		if n.held {
			return protocol.Errorf(protocol.CodeInvalidRequest, "process %s waits for its group, which says when it is run", p.id)
		}
		n.verdict, n.at = supervision.Again, time.Now()
		p.terminated = false
	default:
		p.restartAsked, p.terminated = true, false
		if p.lives() {
			p.endReason = "restarted by request"
		}
		p.kill(ctx, p.killGrace())
	}
	return nil
}

func (p *process) setRestart(r protocol.Restart) *protocol.Error {
	if p.restart == nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s was started without restart: nothing is kept to start it from", p.id)
	}
	if p.group != nil && r.Intensity != nil {
		return errGroupIntensity
	}
	restart, err := restartOf(&r)
	if err != nil {
		return err
	}
	p.restart, p.history, p.restartSet = restart, supervision.History{}, true
	return nil
}

// restartOf is what a client asks for, with the defaults of PROTOCOL.md; nil for nil.
func restartOf(r *protocol.Restart) (*supervision.Restart, *protocol.Error) {
	if r == nil {
		return nil, nil
	}
	s := &supervision.Restart{
		Policy:  supervision.Policy(r.Policy),
		Backoff: supervision.Backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.2},
	}
	if b := r.Backoff; b != nil {
		if b.Jitter < 0 || b.Jitter > 1 {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "restart.backoff.jitter is %v, expected 0 to 1", b.Jitter)
		}
		s.Backoff = supervision.Backoff{Initial: env.FromMillis(b.InitialMs), Max: env.FromMillis(b.MaxMs), Factor: b.Factor, Jitter: b.Jitter}
	}
	var err *protocol.Error
	if s.Intensity, err = intensityOf("restart.intensity", r.Intensity); err != nil {
		return nil, err
	}
	if g := r.GiveUp; g != nil {
		if n := max(len(g.ExitCodes), len(g.Signals)); n > maxGiveUp {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "restart.giveUp has a list of %d entries, the limit is %d", n, maxGiveUp)
		}
		for _, name := range g.Signals {
			if unix.SignalNum(name) == 0 {
				return nil, protocol.Errorf(protocol.CodeInvalidParams, "restart.giveUp.signals has %q, expected names such as SIGSEGV", wireerr.Clip(name))
			}
		}
		if g.Count > maxRestarts {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "restart.giveUp.count is %d, the limit is %d", g.Count, maxRestarts)
		}
		s.GiveUp = supervision.Deaths{ExitCodes: g.ExitCodes, Signals: g.Signals, Count: int(g.Count), Period: env.FromMillis(g.PeriodMs)}
	}
	return s, nil
}

// intensityOf is what a client asks for, or 5 in a minute.
func intensityOf(name string, in *protocol.Intensity) (supervision.Intensity, *protocol.Error) {
	if in == nil {
		return supervision.Intensity{Restarts: 5, Period: time.Minute}, nil
	}
	if in.Restarts > maxRestarts {
		return supervision.Intensity{}, protocol.Errorf(protocol.CodeInvalidParams, "%s.restarts is %d, the limit is %d", name, in.Restarts, maxRestarts)
	}
	return supervision.Intensity{Restarts: int(in.Restarts), Period: env.FromMillis(in.PeriodMs)}, nil
}

const (
	// maxRestarts bounds the ends that a process remembers.
	maxRestarts = 1000
	// maxGiveUp bounds the exit codes and the signals that each end is compared with.
	maxGiveUp = 256
)
