package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/rules"
)

// Probes are commands that the server runs beside a process to see whether the process lives
// (protocol.Probe).

func (p *process) probeLater(ctx actor.Context) {
	if l := p.params.Liveness; l != nil && l.Probe != nil && p.life.Phase() == life.Running {
		p.health.probeAt.Set(ctx, p.place.probeEvery(orDefault(l.Probe.EveryMs, defaultProbeEvery)), probeDue{p.life.Run()})
	}
}

func orDefault(ms uint64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return env.FromMillis(ms)
}

// probe runs the command once. A process has a single probe at a time.
func (p *process) probe(ctx actor.Context) {
	h := &p.health
	if h.probing.Load() || !p.lives() || p.life.Reason() != "" {
		return
	}
	h.probing.Store(true)
	h.probes++
	probe := p.params.Liveness.Probe
	spec := child.Spec{
		Argv:    probe.Argv,
		Dir:     p.spec.Dir,
		Env:     p.spec.Env,
		Limits:  p.spec.Limits,
		Name:    fmt.Sprintf("%s.probe%d", p.name, h.probes),
		Owner:   p.spec.Owner,
		Context: h.watched,

		Umask:      p.spec.Umask,
		NoNewPrivs: p.spec.NoNewPrivs,
		Rule:       p.spec.Rule,
	}
	p.user.runAs(&spec)
	watched, limit := h.watched, orDefault(probe.TimeoutMs, defaultProbeTime)
	self, root, m, s := ctx.Self(), ctx.ActorSystem().Root, probed{run: p.life.Run(), held: p.intake.HeldBack()}, p.env
	s.Run(root, self, "probe", func() {
		m.ours = errors.New("internal error")
		defer func() {
			h.probing.Store(false)
			root.Send(self, m)
		}()
		m.fault, m.ours = runProbe(watched, s, limit, spec)
	})
}

// ofCommand reports whether an error of a start is the fault of the command.
func ofCommand(err error) bool {
	return !lacking(err) && slices.ContainsFunc(commandErrors, func(e error) bool { return errors.Is(err, e) })
}

// commandErrors are the errors of a start that are the fault of the command. All others are faults
// of the server: no descriptors, no room, no answer from a disk.
var commandErrors = []error{child.ErrArgument, child.ErrDir, child.ErrNoProgram, child.ErrPermission, child.ErrExecFormat, child.ErrLimitRefused, rules.ErrRefused}

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
	st := <-started // a spawner always answers
	if st.err != nil {
		if ofCommand(st.err) {
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

// probed counts failures, and ends a run whose probes fail. A probe does not count if the server
// could not run the command. A failure does not count if the server held the program's output back.
func (p *process) probed(ctx actor.Context, m probed) {
	h := &p.health
	if m.run != p.life.Run() || !p.lives() {
		return
	}
	if m.ours != nil && h.ours == nil {
		p.env.Log.Warn("the server cannot probe a process: that does not count as a failure", "actor", p.name, "err", m.ours)
	}
	h.ours = m.ours
	since, _ := p.intake.Starved()
	held := !since.IsZero() || p.intake.HeldBack() > m.held
	switch {
	case m.ours != nil, m.fault != "" && held:
		p.probeLater(ctx)
		return
	case m.fault == "":
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
	p.life.Fault(p.now(), fmt.Sprintf("its probe failed %d times: %s", h.failures, m.fault))
}
