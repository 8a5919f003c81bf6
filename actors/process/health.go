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

// Messages of a process actor to itself; all are of one run.
type (
	readyNow struct{ run int } // the goroutine that looks for it
	readyDue struct{ run int } // it has been given its time, or had its delay
	// The goroutine that looks for it: the server could not look, for that reason; or, with
	// nil, can again.
	blinded struct {
		run int
		err error
	}
	silenceDue struct{ run int } // it may have written nothing for as long as it may
	probeDue   struct{ run int } // the next probe
	// the probe's goroutine, which has left nothing behind
	probed struct {
		run   int
		fault string        // "": it succeeded
		ours  error         // the server could not make it; then fault says nothing
		held  time.Duration // child.Intake.HeldBack when it began
	}
	matched struct { // the goroutine that matched lines
		run   int
		ready bool // one of them makes the run ready
	}
)

// When its actor is gone, nobody waits for the news.

func (readyNow) IgnoreDeadLetterLogging() {}

func (probed) IgnoreDeadLetterLogging() {}

func (matched) IgnoreDeadLetterLogging() {}

func (blinded) IgnoreDeadLetterLogging() {}

const (
	// readyTime is how long a run may take to be ready, unless its start says.
	readyTime = time.Minute
	// maxLine is how much of a line is matched, in bytes.
	maxLine = 4 << 10
	// lookEvery is the longest pause between two looks whether a run is ready, and
	// lookTime how long one may take.
	lookEvery, lookTime                                       = 250 * time.Millisecond, time.Second
	defaultProbeEvery, defaultProbeTime, defaultProbeFailures = 10 * time.Second, 5 * time.Second, 3
)

// health is what is known of a run, of a process that has Ready or Liveness.
type health struct {
	ready    bool
	pattern  func() *regexp.Regexp      // nil: no line makes it ready, or one has
	lines    map[protocol.Stream][]byte // those that have not ended, cut at maxLine
	matching [][]byte                   // a goroutine matches these; until then no more facts are taken
	watched  context.Context            // is done when the run has ended: for goroutines
	stop     context.CancelFunc         // of watched
	heard    time.Time                  // its last output, or its begin
	held     time.Duration              // child.Intake.HeldBack then
	blind    *atomic.Int64              // for how long nobody could look whether it is ready, in nanoseconds
	granted  time.Duration              // of time that does not count, what readyAt was put off by
	ours     error                      // why the server could not look, or probe, the last time; nil: it could
	failures uint64                     // probes in a row
	probing  atomic.Bool                // there is one, perhaps of an older run; its goroutine says when not
	probes   int                        // since the process began: of their names

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
		h.pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Line) }) // checked when it was decoded
		h.lines = make(map[protocol.Stream][]byte)
	default:
		look := lookFor(r)
		if r.File != "" || r.Unix != "" {
			look = p.bounded(look)
		}
		p.lookout(ctx, look)
	}
	switch t := r.TimeoutMs; {
	case t == nil:
		h.readyAt.Set(ctx, readyTime, readyDue{p.life.Run()})
	case *t > 0:
		h.readyAt.Set(ctx, env.FromMillis(*t), readyDue{p.life.Run()})
	}
}

// blinded is told in process/info, and in the log once until it can look again.
func (p *process) blinded(m blinded) {
	h := &p.health
	if m.run != p.life.Run() || h.ready {
		return
	}
	h.ours = m.err
	if m.err != nil && !errors.Is(m.err, errLooks) { // that may last for a moment
		p.shared.Log.Warn("the server cannot look whether a process is ready: that time does not count", "actor", p.name, "err", m.err)
	}
}

// excused is how much of the time of this run does not count against it: the server held
// its output back, or could not look.
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

// rewatch sets the timers of a run that is watched again: what they had sent may be lost.
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
		p.feed.Log.AppendReady(p.life.Run())
		p.spread(ctx)
	}
	p.life.Report(p.now())
	p.probeLater(ctx)
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

// heard looks at output: of lines that may make it ready, and that there is some.
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

// match looks for a line that makes the run ready, on a goroutine: an expression of a
// client's may take long. Until matched comes the process takes no more facts, so that
// ready has its place in the sequence, and the program waits if it writes faster.
func (p *process) match(ctx actor.Context) {
	h := &p.health
	self, root, watched, pattern, lines, m := ctx.Self(), ctx.ActorSystem().Root, h.watched, h.pattern, h.matching, matched{run: p.life.Run()}
	p.shared.Run(root, self, "match", func() {
		m.ready = slices.ContainsFunc(lines, func(line []byte) bool {
			return watched.Err() == nil && pattern().Match(bytes.TrimSuffix(line, []byte{'\r'})) // a TTY's lines have one
		})
		root.Send(self, m)
	})
}

func (p *process) matched(ctx actor.Context, m matched) {
	if p.health.matching == nil || m.run != p.life.Run() {
		return // nobody waits for it any more
	}
	p.health.matching = nil
	if m.ready {
		p.isReady(ctx)
	}
	p.takeFacts(ctx)
}

// matchNoMore is for a run that is being killed: its end does not wait for an expression.
func (p *process) matchNoMore(ctx actor.Context) {
	h := &p.health
	if h.matching != nil {
		ctx.Send(ctx.Self(), factsReady{})
	}
	h.pattern, h.lines, h.matching = nil, nil, nil
}

// silence ends a run that has written nothing for too long. One that cannot write,
// because its owner does not read, is not silent.
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

// healthError refuses conditions that cannot be looked for.
func healthError(r *protocol.Ready, restart *protocol.Restart) *protocol.Error {
	if r == nil {
		return nil
	}
	if r.Exit && restart != nil && restart.Policy == string(supervision.Permanent) {
		return protocol.Errorf(protocol.CodeInvalidParams, "ready.exit is for what ends for good, and restart.policy is permanent: make it transient")
	}
	for _, path := range []struct{ name, uri string }{{"unix", r.Unix}, {"file", r.File}} {
		if path.uri == "" {
			continue
		}
		if _, err := protocol.ParseFileURI(path.uri); err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams, "ready.%s: %v", path.name, err)
		}
	}
	if r.TCP != "" {
		if err := wireerr.LongName("ready.tcp", r.TCP); err != nil {
			return err
		}
		if _, _, err := net.SplitHostPort(r.TCP); err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams, "ready.tcp is %q, expected host:port: %v", wireerr.Clip(r.TCP), err)
		}
	}
	return nil
}
