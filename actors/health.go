package actors

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Whether a run is ready (protocol.Ready), and whether it still lives
// (protocol.Liveness).

// Messages of a process actor to itself; all are of one run.
type (
	readyNow   struct{ run int } // the goroutine that looks for it
	readyDue   struct{ run int } // it has been given its time, or had its delay
	silenceDue struct{ run int } // it may have written nothing for as long as it may
	probeDue   struct{ run int } // the next probe
	probed     struct {          // the probe's goroutine, which has left nothing behind
		run   int
		fault string // "": it succeeded
	}
	matched struct { // the goroutine that matched lines
		run   int
		ready bool // one of them makes the run ready
	}
)

// When its actor is gone, nobody waits for the news.

func (readyNow) IgnoreDeadLetterLogging() {}
func (probed) IgnoreDeadLetterLogging()   {}
func (matched) IgnoreDeadLetterLogging()  {}

const (
	// readyTime is how long a run may take to be ready, unless its start says.
	readyTime = time.Minute
	// maxLine is how much of a line is matched, in bytes.
	maxLine = 4 << 10
	// lookEvery is the longest pause between two looks whether a run is ready, and
	// lookTime how long one may take.
	lookEvery, lookTime = 250 * time.Millisecond, time.Second

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
	failures uint64                     // probes in a row
	probing  atomic.Bool                // there is one, perhaps of an older run; its goroutine says when not
	probes   int                        // since the process began: of their names

	readyAt, silenceAt, probeAt alarm
}

// watch begins with a new run.
func (p *process) watch(ctx actor.Context) {
	h := &p.health
	if p.params.Ready != nil || p.params.Liveness != nil {
		h.watched, h.stop = context.WithCancel(context.Background())
	}
	h.ready, h.heard, h.failures = false, time.Now(), 0
	if l := p.params.Liveness; l != nil && l.SilenceMs > 0 {
		h.silenceAt.set(ctx, fromMillis(l.SilenceMs), silenceDue{p.run})
	}
	r := p.params.Ready
	switch {
	case r == nil:
		p.isReady(ctx)
		return
	case r.Exit:
		return
	case r.DelayMs != nil:
		h.readyAt.set(ctx, fromMillis(*r.DelayMs), readyDue{p.run})
		return
	case r.Line != "":
		h.pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.Line) }) // checked when it was decoded
		h.lines = make(map[protocol.Stream][]byte)
	default:
		self, root, watched, m := ctx.Self(), ctx.ActorSystem().Root, h.watched, readyNow{p.run}
		look := lookFor(r)
		p.shared.run(root, self, "ready", func() {
			for pause := 10 * time.Millisecond; !look(watched); pause = min(pause*3/2, lookEvery) {
				select {
				case <-watched.Done():
					return
				case <-time.After(pause):
				}
			}
			root.Send(self, m)
		})
	}
	switch t := r.TimeoutMs; {
	case t == nil:
		h.readyAt.set(ctx, readyTime, readyDue{p.run})
	case *t > 0:
		h.readyAt.set(ctx, fromMillis(*t), readyDue{p.run})
	}
}

// lookFor is how to look once whether a run is ready.
func lookFor(r *protocol.Ready) func(context.Context) bool {
	dial := func(network, address string) func(context.Context) bool {
		return func(ctx context.Context) bool {
			d := net.Dialer{Timeout: lookTime}
			conn, err := d.DialContext(ctx, network, address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
	}
	switch {
	case r.TCP != "":
		return dial("tcp", r.TCP)
	case r.Unix != "":
		path, _ := protocol.ParseFileURI(r.Unix) // checked at the start
		return dial("unix", path)
	}
	path, _ := protocol.ParseFileURI(r.File)
	return func(context.Context) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
}

// unwatch ends what watch began: the run has ended.
func (p *process) unwatch() {
	h := &p.health
	if h.stop != nil {
		h.stop()
	}
	h.pattern, h.lines, h.matching = nil, nil, nil
	for _, a := range []*alarm{&h.readyAt, &h.silenceAt, &h.probeAt} {
		a.stop()
	}
}

// rewatch sets the timers of a run that is watched again: what they had sent may be lost.
func (p *process) rewatch(ctx actor.Context) {
	h, r, l := &p.health, p.params.Ready, p.params.Liveness
	if p.phase != running {
		return
	}
	if h.matching != nil {
		p.match(ctx)
	}
	if l != nil && l.SilenceMs > 0 {
		h.silenceAt.set(ctx, fromMillis(l.SilenceMs), silenceDue{p.run})
	}
	switch {
	case h.ready:
		if !h.probing.Load() {
			p.probeLater(ctx)
		}
	case r != nil && h.readyAt.timer != nil:
		h.readyAt.set(ctx, time.Until(h.readyAt.due), readyDue{p.run})
	}
}

// isReady is said once of a run.
func (p *process) isReady(ctx actor.Context) {
	h := &p.health
	if h.ready || p.phase != running {
		return
	}
	h.ready, h.pattern, h.lines, h.matching = true, nil, nil, nil
	h.readyAt.stop()
	if p.params.Ready != nil {
		p.log.AppendReady(p.run)
		p.spread(ctx)
	}
	p.report(ctx)
	p.probeLater(ctx)
}

func (p *process) readyDue(ctx actor.Context) {
	switch r := p.params.Ready; {
	case p.health.ready || !p.lives():
	case r.DelayMs != nil:
		p.isReady(ctx)
	default:
		after := readyTime
		if r.TimeoutMs != nil {
			after = fromMillis(*r.TimeoutMs)
		}
		p.fail(ctx, fmt.Sprintf("not ready after %v", after))
	}
}

// heard looks at output: of lines that may make it ready, and that there is some.
func (p *process) heard(ctx actor.Context, s protocol.Stream, data []byte) {
	h := &p.health
	h.heard = time.Now()
	p.gauge.wrote.Store(h.heard.UnixNano())
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
	self, root, pattern, lines, m := ctx.Self(), ctx.ActorSystem().Root, p.health.pattern, p.health.matching, matched{run: p.run}
	p.shared.run(root, self, "match", func() {
		m.ready = slices.ContainsFunc(lines, func(line []byte) bool {
			return pattern().Match(bytes.TrimSuffix(line, []byte{'\r'})) // a TTY's lines have one
		})
		root.Send(self, m)
	})
}

func (p *process) matched(ctx actor.Context, m matched) {
	if p.health.matching == nil || m.run != p.run {
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
	limit := fromMillis(p.params.Liveness.SilenceMs)
	if since, _ := p.intake.Starved(); !since.IsZero() {
		h.heard = time.Now()
	}
	switch left := limit - time.Since(h.heard); {
	case left > 0:
		h.silenceAt.set(ctx, left, silenceDue{p.run})
	default:
		p.fail(ctx, fmt.Sprintf("no output for %v", limit))
	}
}

func (p *process) probeLater(ctx actor.Context) {
	if l := p.params.Liveness; l != nil && l.Probe != nil && p.phase == running {
		p.health.probeAt.set(ctx, orDefault(l.Probe.EveryMs, defaultProbeEvery), probeDue{p.run})
	}
}

func orDefault(ms uint64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return fromMillis(ms)
}

// probe runs the command once. There is one at a time.
func (p *process) probe(ctx actor.Context) {
	h := &p.health
	if h.probing.Load() || !p.lives() || p.endReason != "" {
		return
	}
	h.probing.Store(true)
	h.probes++
	probe := p.params.Liveness.Probe
	spec := child.Spec{
		Argv:   probe.Argv,
		Dir:    p.spec.Dir,
		Env:    p.spec.Env,
		Limits: p.spec.Limits,
		Name:   fmt.Sprintf("%s.probe%d", p.name, h.probes),
	}
	limited, cancel := context.WithTimeout(h.watched, orDefault(probe.TimeoutMs, defaultProbeTime))
	self, root, m, s := ctx.Self(), ctx.ActorSystem().Root, probed{run: p.run}, p.shared
	s.run(root, self, "probe", func() {
		defer cancel()
		m.fault = "internal error"
		defer func() {
			h.probing.Store(false)
			root.Send(self, m)
		}()
		m.fault = s.runProbe(limited, spec)
	})
}

// runProbe runs a command to its end, with all that it starts; ctx ends it. The answer
// is "" if it ended with exit code 0, and else what went wrong.
func (s *shared) runProbe(ctx context.Context, spec child.Spec) string {
	news := make(chan struct{}, 1)
	in := child.NewIntake(minRetention, s.budget, nil, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	defer in.Close()
	type start struct {
		handle child.Handle
		err    error
	}
	started := make(chan start, 1)
	s.start(spec, in, func(h child.Handle, err error) { started <- start{h, err} })
	st := <-started // a spawner always answers
	if st.err != nil {
		return st.err.Error()
	}
	fault := "it took too long"
	for running := true; running; {
		select {
		case <-news:
			for f, ok := in.Next(); ok; f, ok = in.Next() {
				in.Settle(0, 0)
				if f.Kind == child.FactExited {
					fault, running = "", false
					if f.Status.ExitCode != 0 {
						fault = fmt.Sprintf("exit code %d", f.Status.ExitCode)
					}
				}
			}
		case <-ctx.Done():
			running = false
		}
	}
	finished := make(chan error, 1)
	st.handle.Finish(func(err error) { finished <- err })
	if err := <-finished; err != nil {
		s.Log.Error("finish a probe", "name", spec.Name, "err", err)
	}
	return fault
}

// probed counts, and ends a run whose probes fail.
func (p *process) probed(ctx actor.Context, m probed) {
	h := &p.health
	defer p.mayGo(ctx) // perhaps only that was left; an interval goes on by itself
	if m.run != p.run || !p.lives() {
		return
	}
	if m.fault == "" {
		h.failures = 0
		p.probeLater(ctx)
		return
	}
	h.failures++
	limit := p.params.Liveness.Probe.Failures
	if limit == 0 {
		limit = defaultProbeFailures
	}
	if h.failures < limit {
		p.probeLater(ctx)
		return
	}
	p.fail(ctx, fmt.Sprintf("its probe failed %d times: %s", h.failures, m.fault))
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
		if err := tooLong("ready.tcp", r.TCP); err != nil {
			return err
		}
		if _, _, err := net.SplitHostPort(r.TCP); err != nil {
			return protocol.Errorf(protocol.CodeInvalidParams, "ready.tcp is %q, expected host:port: %v", clip(r.TCP), err)
		}
	}
	return nil
}
