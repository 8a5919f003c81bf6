package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Probes are commands that the server runs beside a process to see whether the process lives
// (protocol.Probe).

const (
	defaultReadyEvery = time.Second // from a probe for readiness to the next
	defaultProbeTime  = 5 * time.Second
)

// errProbe means: the server could not run the command of a probe, and time does not count.
var errProbe = errors.New("the server cannot probe")

// probeReady probes until a run is ready.
func (p *process) probeReady(ctx actor.Context, probe *protocol.Probe) {
	every := max(cmp.Or(protocol.FromMillis(probe.EveryMs), defaultReadyEvery), p.leastProbeEvery())
	if probe.HTTP != "" {
		look, limit := health.LookAtURL(probe.HTTP), probeTime(probe)
		p.lookout(ctx, delayed(probe.DelayMs, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return look(ctx)
		}), pace{every, every})
		return
	}
	h, s, spec := &p.health, p.env, p.probeSpec(probe)
	name, limit, busy := fmt.Sprintf("%s.ready%d", p.name, p.life.Run()), probeTime(probe), &h.probing
	self, root := ctx.Self(), ctx.ActorSystem().Root
	p.lookout(ctx, delayed(probe.DelayMs, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err() // the run has ended
		}
		busy.Store(true)
		defer func() {
			busy.Store(false)
			root.Send(self, unprobed{}) // whoever waits for the end of the probe goes on
		}()
		spec.Name = fmt.Sprintf("%s.%d", name, h.looked.Add(1))
		fault, ours := runProbe(ctx, s, limit, spec)
		switch {
		case ours != nil:
			return fmt.Errorf("%w: %w", errProbe, ours)
		case fault != "":
			return errors.New(fault)
		}
		return nil
	}), pace{every, every})
}

// probeTime is how long a probe may take.
func probeTime(probe *protocol.Probe) time.Duration {
	return cmp.Or(protocol.FromMillis(probe.TimeoutMs), defaultProbeTime)
}

// delayed returns look, which waits before its first look.
func delayed(ms *uint64, look func(context.Context) error) func(context.Context) error {
	if ms == nil {
		return look
	}
	var once sync.Once
	return func(ctx context.Context) error {
		once.Do(func() {
			select {
			case <-ctx.Done():
			case <-time.After(protocol.FromMillis(*ms)):
			}
		})
		return look(ctx)
	}
}

// probeSpec returns what to run for a probe; its Name is missing.
func (p *process) probeSpec(probe *protocol.Probe) child.Spec {
	spec := p.launch.ProbeSpec(probe)
	spec.Context = p.health.watched
	return spec
}

// probe probes once whether the run lives; n is the number of the probe.
func (p *process) probe(ctx actor.Context, n int) {
	h, probe := &p.health, p.launch.Params.Liveness.Probe
	if h.probes == n {
		return // an instance that has failed since has begun the probe
	}
	h.probes = n
	spec := p.probeSpec(probe)
	spec.Name = fmt.Sprintf("%s.probe%d", p.name, n)
	watched, limit := h.watched, probeTime(probe)
	self, root, m, s := ctx.Self(), ctx.ActorSystem().Root, probed{run: p.life.Run(), held: p.run.intake.HeldBack()}, p.env
	h.probing.Store(true)
	s.Run(root, self, "probe", func() {
		m.ours = errors.New("internal error")
		defer func() {
			h.probing.Store(false)
			root.Send(self, m)
		}()
		if probe.HTTP != "" {
			m.fault, m.ours = health.ProbeURL(watched, limit, probe.HTTP)
			return
		}
		m.fault, m.ours = runProbe(watched, s, limit, spec)
	})
}

// runProbe runs a command to its end, and ends all its descendants. ctx ends the command, and so does
// the time limit, which begins with the start. fault says why the probe failed; "" after exit code 0.
// ours says why the server could not run the command.
func runProbe(ctx context.Context, s *env.Env, limit time.Duration, spec child.Spec) (fault string, ours error) {
	news := make(chan struct{}, 1)
	in := child.NewIntake(config.MinRetention, s.OutputBudget, nil, func() {
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
	s.StartChild(spec, in, func(h child.Handle, err error) { started <- start{h, err} })
	st := <-started // StartChild always answers
	if st.err != nil {
		if launch.OfCommand(st.err) {
			return st.err.Error(), nil
		}
		return "", st.err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fault = "it took too long"
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
	return fault, nil
}
