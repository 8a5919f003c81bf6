package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file is the shell around health.Health. The shell reports events to the machine, and does its actions, on goroutines where
// they may take long.

// Messages of the goroutines to their actor. Each names its run.
type (
	readySeen struct{ run int } // lookout: the run is ready
	blinded   struct {          // lookout: see health.Blinded
		run int
		err error
	}
	matched struct { // match
		run, n int  // n counts the searches of the process
		ready  bool // a line makes the run ready
	}
	// probed is from the probe's goroutine, after the end of the probe with all its descendants: see health.Probed.
	probed struct {
		run   int
		fault string
		ours  error
		held  time.Duration
	}
	unprobed struct{} // lookout: a probe for readiness has ended
)

// When its actor is gone, nobody waits for the news.

func (readySeen) IgnoreDeadLetterLogging() {}

func (probed) IgnoreDeadLetterLogging() {}

func (matched) IgnoreDeadLetterLogging() {}

func (blinded) IgnoreDeadLetterLogging() {}

func (unprobed) IgnoreDeadLetterLogging() {}

// watch is the machine, and what its goroutines use.
type watch struct {
	health.Health
	*watcher `lost:"goroutines end with the server"` // nil: the process has neither ready nor liveness
}

type watcher struct {
	pattern func() *regexp.Regexp // of ready.line
	watched context.Context       // done when the run has ended; nil: there was no run
	stop    context.CancelFunc    // of watched
	unlook  context.CancelFunc    // ends the lookout; nil: there was none in this run
	matches int                   // the number of the newest search for a line
	probes  int                   // the number of the newest probe
	blind   *atomic.Int64         // for how long the server could not look for readiness in this run, in nanoseconds
	looked  atomic.Int64          // how many probes for readiness there were
	probing atomic.Bool           // a probe goes on, perhaps of an older run; its goroutine clears probing
}

func newWatch(params *protocol.ProcessStartParams) watch {
	return watch{health.New(params.Ready, params.Liveness), newWatcher(params)}
}

func newWatcher(params *protocol.ProcessStartParams) *watcher {
	if params.Ready == nil && params.Liveness == nil {
		return nil
	}
	return &watcher{blind: new(atomic.Int64)}
}

// isProbing reports whether a probe goes on.
func (w *watch) isProbing() bool { return w.watcher != nil && w.probing.Load() }

// begin begins with a new run.
func (w *watch) begin(now health.Now, r *protocol.Ready) {
	w.end()
	if w.watcher != nil {
		w.watcher.begin(r)
	}
	w.Begin(now)
}

// begin begins with a run.
func (w *watcher) begin(r *protocol.Ready) {
	w.watched, w.stop = context.WithCancel(context.Background())
	w.unlook = nil
	w.blind = new(atomic.Int64)
	if r != nil && r.Line != "" {
		w.pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Line) }) // checked by the decoder
	}
}

// end ends what begin began: the run has ended.
func (w *watch) end() {
	if w.watcher != nil && w.stop != nil {
		w.stop()
		w.pattern = nil
	}
	w.End()
}

// healthNow returns the facts around the process for an input of its health.
func (p *process) healthNow() health.Now {
	now := health.Now{
		Time:    time.Now(),
		Runs:    p.life.Phase() == life.Running,
		Ending:  p.life.Reason() != "",
		Probing: p.health.isProbing(),
		Least:   p.leastProbeEvery(),
	}
	if now.Runs {
		since, _ := p.run.intake.Starved()
		now.Lives, now.Held, now.Holds = p.lives(), p.run.intake.HeldBack(), !since.IsZero()
	}
	if p.health.watcher != nil {
		now.Blind = time.Duration(p.health.blind.Load())
	}
	return now
}

// receiveHealth handles the messages about readiness and liveness.
func (p *process) receiveHealth(ctx actor.Context) bool {
	run, h := p.life.Run(), &p.health
	switch m := ctx.Message().(type) {
	case readySeen:
		if m.run == run {
			h.Found(p.healthNow())
		}
	case blinded:
		if m.run == run {
			h.Blinded(m.err, errors.Is(m.err, errLooks))
		}
	case matched:
		if m.run == run && h.Matching() && m.n == h.matches {
			h.Matched(p.healthNow(), m.ready)
			p.actHealth(ctx) // an event that the run is ready comes before the next output
			p.takeFacts(ctx)
		}
	case probed:
		if m.run == run {
			h.Probed(p.healthNow(), m.fault, m.ours, m.held)
		}
	case unprobed: // Receive goes on with what waited
	default:
		return false
	}
	p.actHealth(ctx)
	return true
}

// actHealth does the pending actions. Each case has its effect once, however often the action is done.
func (p *process) actHealth(ctx actor.Context) {
	if _, pending := p.health.Next(); !pending {
		return // for each output
	}
	env.Act(p.env, ctx, &p.health.Health, func(a health.Action) {
		switch a := a.(type) {
		case health.Look:
			p.lookForReady(ctx)
		case health.Match:
			p.match(ctx, a.Lines)
		case health.Say:
			p.sayReady(ctx, a.Logged)
		case health.Probe:
			p.probe(ctx, a.N)
		case health.Blame:
			p.life.Fault(p.now(), a.Fault)
		case health.Warn:
			text := "the server cannot probe a process: that does not count as a failure"
			if a.Ready {
				text = "the server cannot look whether a process is ready: that time does not count"
			}
			p.log().Warn(text, "err", a.Err)
		default:
			p.log().Error("unexpected action", "action", a)
		}
	})
}

// sayReady tells that the run is ready: the group, and with logged the viewers, too.
func (p *process) sayReady(ctx actor.Context, logged bool) {
	if logged {
		p.feed.Log.NowMs = time.Now().UnixMilli()
		if p.feed.Log.AppendReady(p.life.Run()) {
			p.happened(protocol.ServerEvent{Kind: protocol.ServerReady, Run: p.life.Run()})
		}
	}
	p.life.Report(p.now())
	if logged {
		p.spread(ctx, time.Time{})
	}
}

// heard notes output, and looks for a line that makes the run ready.
func (p *process) heard(ctx actor.Context, s protocol.Stream, data []byte) {
	now := time.Now()
	p.health.Heard(now, p.run.intake.HeldBack(), s, data)
	p.gauge.Wrote.Store(now.UnixNano())
	p.actHealth(ctx)
}

// match looks for a line that makes the run ready, on a goroutine: an expression of a client may
// take long. Until matched comes, the process takes no more facts. So ready has its place in the
// sequence, and a program that writes faster has to wait.
func (p *process) match(ctx actor.Context, lines [][]byte) {
	p.health.matches++
	self, root, watched, pattern := ctx.Self(), ctx.ActorSystem().Root, p.health.watched, p.health.pattern
	m := matched{run: p.life.Run(), n: p.health.matches}
	p.env.Run(root, self, "match", func() {
		m.ready = slices.ContainsFunc(lines, func(line []byte) bool {
			return watched.Err() == nil && pattern().Match(bytes.TrimSuffix(line, []byte{'\r'})) // lines of a TTY end with \r\n
		})
		root.Send(self, m)
	})
}

// matchNoMore ends the search for a line.
func (p *process) matchNoMore(ctx actor.Context) {
	if p.health.Matching() {
		ctx.Send(ctx.Self(), factsReady{})
	}
	p.health.NoMoreLines()
}

// pace is the time from a look to the next: at first, and at most.
type pace struct{ first, most time.Duration }

// lookForReady looks until the run is ready.
func (p *process) lookForReady(ctx actor.Context) {
	r := p.launch.Params.Ready
	if r.Probe != nil {
		p.probeReady(ctx, r.Probe)
		return
	}
	look := health.LookFor(r)
	if r.File != "" || r.Unix != "" {
		look = p.bounded(p.launch.Look(look))
	}
	p.lookout(ctx, look, pace{10 * time.Millisecond, 250 * time.Millisecond})
}

// lookout looks, on a goroutine, until the run is ready or has ended. While the server
// itself stands in the way, time does not count.
func (p *process) lookout(ctx actor.Context, look func(context.Context) error, every pace) {
	if p.health.unlook != nil {
		p.health.unlook() // of an instance that has failed since
	}
	var watched context.Context
	watched, p.health.unlook = context.WithCancel(p.health.watched)
	self, root, run, blind := ctx.Self(), ctx.ActorSystem().Root, p.life.Run(), p.health.blind
	p.env.Run(root, self, "ready", func() {
		var told error
		for pause := every.first; ; pause = min(pause*3/2, every.most) {
			begun, err := time.Now(), look(watched)
			if err == nil {
				root.Send(self, readySeen{run})
				return
			}
			if !health.Lacking(err) && !errors.Is(err, errLooks) && !errors.Is(err, errProbe) {
				err = nil
			}
			if (err == nil) != (told == nil) {
				told = err
				root.Send(self, blinded{run, err})
			}
			select {
			case <-watched.Done():
				return
			case <-time.After(pause):
			}
			if err != nil {
				blind.Add(int64(time.Since(begun)))
			}
		}
	})
}

// A look at a file, or at a socket by its path, holds a thread until the filesystem answers. A filesystem may never
// answer. looksEach and looksAll bound how many looks wait at a time.
const (
	looksEach = 8 // of a session
	looksAll  = 64
)

// errLooks means: too many looks wait already, and there was no look.
var errLooks = fmt.Errorf("%d looks at files of this session, or %d in all, wait for a filesystem", looksEach, looksAll)

func (p *process) bounded(look func(context.Context) error) func(context.Context) error {
	each, all := &p.gauge.Looks, &p.env.Counts.Looks
	return func(ctx context.Context) error {
		defer each.Add(-1)
		defer all.Add(-1)
		if n, of := each.Add(1), all.Add(1); n > looksEach || of > looksAll {
			return errLooks
		}
		return look(ctx)
	}
}
