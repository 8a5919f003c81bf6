package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Messages of a process actor to itself. Each names its run.
type (
	readyNow struct{ run int } // lookout: the run is ready
	readyDue struct{ run int } // ready.timeoutMs or ready.delayMs has passed
	// blinded is from lookout. err says why the server cannot look; nil: the server can look again.
	blinded struct {
		run int
		err error
	}
	silenceDue struct{ run int } // silenceMs may have passed without output
	probeDue   struct{ run int } // the next probe
	// probed is from the probe's goroutine, after the end of the probe with all its descendants.
	probed struct {
		run   int
		fault string        // "": the probe succeeded
		ours  error         // why the server could not run the probe; nil: the server could. Unless nil, fault is not set
		held  time.Duration // child.Intake.HeldBack when the probe began
	}
	unprobed struct{} // from lookout: a probe for readiness has ended
	matched  struct { // the goroutine of match
		run   int
		ready bool // a line makes the run ready
	}
)

// When its actor is gone, nobody waits for the news.

func (readyNow) IgnoreDeadLetterLogging() {}

func (probed) IgnoreDeadLetterLogging() {}

func (matched) IgnoreDeadLetterLogging() {}

func (blinded) IgnoreDeadLetterLogging() {}

func (unprobed) IgnoreDeadLetterLogging() {}

const (
	// readyTime is how long a run may take to be ready, unless its start says.
	readyTime = time.Minute
	// maxLine is how much of a line is matched, in bytes.
	maxLine = 4 << 10
	// lookEvery is the longest pause between two looks whether a run is ready, and
	// lookTime is how long a look may take.
	lookEvery, lookTime                                       = 250 * time.Millisecond, time.Second
	defaultProbeEvery, defaultProbeTime, defaultProbeFailures = 10 * time.Second, 5 * time.Second, 3
	// defaultReadyEvery is from a probe for readiness to the next.
	defaultReadyEvery = time.Second
)

// health is the readiness and liveness of a run. Without Ready, a run is ready at once.
type health struct {
	ready    bool
	pattern  func() *regexp.Regexp      // nil: no line makes the run ready, or a line has
	lines    map[protocol.Stream][]byte // unfinished lines, cut at maxLine
	matching [][]byte                   // lines that a goroutine matches; nil: no goroutine. Until nil, takeFacts takes nothing
	watched  context.Context            // done when the run has ended; for goroutines
	stop     context.CancelFunc         // of watched
	heard    time.Time                  // the time of the last output, or of the begin of the run
	held     time.Duration              // child.Intake.HeldBack at heard
	blind    *atomic.Int64              // for how long the server could not look for readiness, in nanoseconds
	granted  time.Duration              // by how much readyAt was put off, for time excused
	ours     error                      // why the server could not look, or probe, the last time; nil: the server could
	failures uint64                     // failed probes in a row
	probing  atomic.Bool                // a probe goes on, perhaps of an older run; its goroutine clears probing
	probes   int                        // how many were started, in all runs; the name of a probe has its number

	readyAt, silenceAt, probeAt env.Alarm
}

// receiveHealth handles the messages about readiness and liveness.
func (p *process) receiveHealth(ctx actor.Context) bool {
	run := p.life.Run()
	switch m := ctx.Message().(type) {
	case readyNow:
		if m.run == run {
			p.isReady(ctx)
		}
	case readyDue:
		if m.run == run {
			p.readyDue(ctx)
		}
	case silenceDue:
		if m.run == run {
			p.silence(ctx)
		}
	case probeDue:
		if m.run == run {
			p.probe(ctx)
		}
	case probed:
		p.probed(ctx, m)
	case matched:
		p.matched(ctx, m)
	case blinded:
		p.blinded(m)
	case unprobed: // Receive goes on with what waited
	default:
		return false
	}
	return true
}

// watch begins with a new run.
func (p *process) watch(ctx actor.Context) {
	h := &p.health
	if p.params.Ready != nil || p.params.Liveness != nil {
		h.watched, h.stop = context.WithCancel(context.Background())
	}
	h.ready, h.failures, h.blind, h.granted, h.ours = false, 0, new(atomic.Int64), 0, nil
	h.heard, h.held = time.Now(), p.intake.HeldBack()
	if l := p.params.Liveness; l != nil && l.SilenceMs > 0 {
		h.silenceAt.Set(ctx, env.FromMillis(l.SilenceMs), silenceDue{p.life.Run()})
	}
	r := p.params.Ready
	switch {
	case r == nil:
		p.isReady(ctx)
		return
	case r.Exit:
		return
	case r.DelayMs != nil:
		h.readyAt.Set(ctx, env.FromMillis(*r.DelayMs), readyDue{p.life.Run()})
		return
	case r.Line != "":
		h.pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Line) }) // checked by the decoder
		h.lines = make(map[protocol.Stream][]byte)
	case r.Probe != nil:
		p.probeReady(ctx, r.Probe)
	default:
		look := lookFor(r)
		if r.File != "" || r.Unix != "" {
			look = p.bounded(p.ruled(p.user.user(), look))
		}
		p.lookout(ctx, look, pace{10 * time.Millisecond, lookEvery})
	}
	switch t := r.TimeoutMs; {
	case t == nil:
		h.readyAt.Set(ctx, readyTime, readyDue{p.life.Run()})
	case *t > 0:
		h.readyAt.Set(ctx, env.FromMillis(*t), readyDue{p.life.Run()})
	}
}

// blinded keeps the reason for process/info. The server's log has the reason once, until the server can look again.
func (p *process) blinded(m blinded) {
	h := &p.health
	if m.run != p.life.Run() || h.ready {
		return
	}
	h.ours = m.err
	if m.err != nil && !errors.Is(m.err, errLooks) { // errLooks may last for a moment only
		p.env.Log.Warn("the server cannot look whether a process is ready: that time does not count", "actor", p.name, "err", m.err)
	}
}

// excused returns how much time of this run does not count: the server held the output back, or
// could not look.
func (p *process) excused() time.Duration {
	return p.intake.HeldBack() + time.Duration(p.health.blind.Load())
}

// unwatch ends what watch began: the run has ended.
func (p *process) unwatch() {
	h := &p.health
	if h.stop != nil {
		h.stop()
	}
	h.pattern, h.lines, h.matching = nil, nil, nil
	for _, a := range []*env.Alarm{&h.readyAt, &h.silenceAt, &h.probeAt} {
		a.Stop()
	}
}

// rewatch sets the timers of a watched run again, after a failure of the actor: timer messages may be lost.
func (p *process) rewatch(ctx actor.Context) {
	h, r, l := &p.health, p.params.Ready, p.params.Liveness
	if p.life.Phase() != life.Running {
		return
	}
	if h.matching != nil {
		p.match(ctx)
	}
	if l != nil && l.SilenceMs > 0 {
		h.silenceAt.Set(ctx, env.FromMillis(l.SilenceMs), silenceDue{p.life.Run()})
	}
	switch {
	case h.ready:
		if !h.probing.Load() {
			p.probeLater(ctx)
		}
	case r != nil && h.readyAt.IsSet():
		h.readyAt.Set(ctx, time.Until(h.readyAt.Due()), readyDue{p.life.Run()})
	}
}

// isReady is said once of a run.
func (p *process) isReady(ctx actor.Context) {
	h := &p.health
	if h.ready || p.life.Phase() != life.Running {
		return
	}
	h.ready, h.pattern, h.lines, h.matching = true, nil, nil, nil
	h.readyAt.Stop()
	if p.params.Ready != nil {
		p.feed.Log.NowMs = time.Now().UnixMilli()
		p.feed.Log.AppendReady(p.life.Run())
		p.happened(protocol.ServerEvent{Kind: protocol.ServerReady, Run: p.life.Run()})
		p.spread(ctx)
	}
	p.life.Report(p.now())
	p.probeFirst(ctx)
}

func (p *process) readyDue(ctx actor.Context) {
	h := &p.health
	switch r := p.params.Ready; {
	case h.ready || !p.lives():
	case r.DelayMs != nil:
		p.isReady(ctx)
	case p.excused() > h.granted:
		more := p.excused() - h.granted
		h.granted += more
		h.readyAt.Set(ctx, more, readyDue{p.life.Run()})
	default:
		after := readyTime
		if r.TimeoutMs != nil {
			after = env.FromMillis(*r.TimeoutMs)
		}
		p.life.Fault(p.now(), fmt.Sprintf("not ready after %v", after))
	}
}

// heard notes the time of output, and collects lines that may make the run ready.
func (p *process) heard(ctx actor.Context, s protocol.Stream, data []byte) {
	h := &p.health
	h.heard, h.held = time.Now(), p.intake.HeldBack()
	p.gauge.Wrote.Store(h.heard.UnixNano())
	if h.pattern == nil || p.params.Ready.Stream != 0 && p.params.Ready.Stream != s {
		return
	}
	for len(data) > 0 {
		piece, rest, ends := bytes.Cut(data, []byte{'\n'})
		line := h.lines[s]
		line = append(line, piece[:min(len(piece), maxLine-len(line))]...)
		if !ends {
			h.lines[s] = line
			break
		}
		delete(h.lines, s)
		h.matching, data = append(h.matching, line), rest
	}
	if h.matching != nil {
		p.match(ctx)
	}
}

// match looks for a line that makes the run ready, on a goroutine: an expression of a client may
// take long. Until matched comes, the process takes no more facts. So ready has its place in the
// sequence, and a program that writes faster has to wait.
func (p *process) match(ctx actor.Context) {
	h := &p.health
	self, root, watched, pattern, lines, m := ctx.Self(), ctx.ActorSystem().Root, h.watched, h.pattern, h.matching, matched{run: p.life.Run()}
	p.env.Run(root, self, "match", func() {
		m.ready = slices.ContainsFunc(lines, func(line []byte) bool {
			return watched.Err() == nil && pattern().Match(bytes.TrimSuffix(line, []byte{'\r'})) // lines of a TTY end with \r\n
		})
		root.Send(self, m)
	})
}

func (p *process) matched(ctx actor.Context, m matched) {
	if p.health.matching == nil || m.run != p.life.Run() {
		return // of an older run, or after matchNoMore
	}
	p.health.matching = nil
	if m.ready {
		p.isReady(ctx)
	}
	p.takeFacts(ctx)
}

// matchNoMore ends the search for a line: the end of a killed run does not wait for an expression.
func (p *process) matchNoMore(ctx actor.Context) {
	h := &p.health
	if h.matching != nil {
		ctx.Send(ctx.Self(), factsReady{})
	}
	h.pattern, h.lines, h.matching = nil, nil, nil
}

// silence ends a run without output for silenceMs. Time in which the program could not write,
// because the owner did not read, does not count.
func (p *process) silence(ctx actor.Context) {
	h := &p.health
	if !p.lives() {
		return
	}
	limit := env.FromMillis(p.params.Liveness.SilenceMs)
	heldBack := p.intake.HeldBack() - h.held
	switch left := limit - (time.Since(h.heard) - heldBack); {
	case left > 0:
		h.silenceAt.Set(ctx, left, silenceDue{p.life.Run()})
	default:
		p.life.Fault(p.now(), fmt.Sprintf("no output for %v", limit))
	}
}

// healthError refuses conditions for which the server cannot look.
func healthError(r *protocol.Ready, restart *protocol.Restart) *protocol.Error {
	if r == nil {
		return nil
	}
	if r.Exit && restart != nil && restart.Policy == string(supervision.Permanent) {
		return protocol.WrongParams("ready.exit is for what ends for good, and restart.policy is permanent: make it transient")
	}
	for _, path := range []struct{ name, uri string }{{"unix", r.Unix}, {"file", r.File}} {
		if path.uri == "" {
			continue
		}
		if _, err := protocol.ParseFileURI(path.uri); err != nil {
			return protocol.WrongParams("ready.%s: %v", path.name, err)
		}
	}
	if r.TCP != "" {
		if err := wireerr.BadName("ready.tcp", r.TCP); err != nil {
			return err
		}
		if _, _, err := net.SplitHostPort(r.TCP); err != nil {
			return protocol.WrongParams("ready.tcp is %q, expected host:port: %v", wireerr.Clip(r.TCP), err)
		}
	}
	return nil
}
