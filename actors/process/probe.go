package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Probes are commands that the server runs beside a process to see whether the process lives
// (protocol.Probe).

func (p *process) probeLater(ctx actor.Context) {
	if l := p.params.Liveness; l != nil && l.Probe != nil && p.life.Phase() == life.Running {
		p.health.probeAt.Set(ctx, p.place.probeEvery(orDefault(l.Probe.EveryMs, defaultProbeEvery)), probeDue{p.life.Run()})
	}
}

// probeFirst sets the time of the first probe of a run.
func (p *process) probeFirst(ctx actor.Context) {
	if l := p.params.Liveness; l != nil && l.Probe != nil && l.Probe.DelayMs != nil {
		p.health.probeAt.Set(ctx, env.FromMillis(*l.Probe.DelayMs), probeDue{p.life.Run()})
		return
	}
	p.probeLater(ctx)
}

// probes reports whether the server runs commands beside the process, with its environment.
func (p *process) probes() bool {
	l, r := p.params.Liveness, p.params.Ready
	return l != nil && l.Probe != nil || r != nil && r.Probe != nil
}

// errProbe means: the server could not run the command of a probe, and time does not count.
var errProbe = errors.New("the server cannot probe")

// probeReady probes until a run is ready.
func (p *process) probeReady(ctx actor.Context, probe *protocol.Probe) {
	every := p.place.probeEvery(orDefault(probe.EveryMs, defaultReadyEvery))
	if probe.HTTP != "" {
		look, limit := httpLook(probe.HTTP), orDefault(probe.TimeoutMs, defaultProbeTime)
		p.lookout(ctx, delayed(probe.DelayMs, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return look(ctx)
		}), pace{every, every})
		return
	}
	h, s, spec, n := &p.health, p.env, p.probeSpec(probe), 0
	name, limit, busy := fmt.Sprintf("%s.ready%d", p.name, p.life.Run()), orDefault(probe.TimeoutMs, defaultProbeTime), &h.probing
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
		n++
		spec.Name = fmt.Sprintf("%s.%d", name, n)
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
			case <-time.After(env.FromMillis(*ms)):
			}
		})
		return look(ctx)
	}
}

// prober is the client of all probes by HTTP. A probe follows no redirect, uses no proxy, and trusts every certificate:
// it asks whether the program answers, and sends nothing.
var prober = &http.Client{
	Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxResponseHeaderBytes: 64 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// httpLook returns a function that asks once whether a program answers at a URL.
func httpLook(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "troupe-probe")
		resp, err := prober.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 399 {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	}
}

// probeSpec returns what to run for a probe; its Name is missing.
func (p *process) probeSpec(probe *protocol.Probe) child.Spec {
	spec := child.Spec{
		Argv:    probe.Argv,
		Dir:     p.spec.Dir,
		Env:     p.spec.Env,
		Limits:  p.spec.Limits,
		Owner:   p.spec.Owner,
		Context: p.health.watched,

		Umask:      p.spec.Umask,
		NoNewPrivs: p.spec.NoNewPrivs,
		Sandbox:    p.spec.Sandbox,
		Rule:       p.spec.Rule,

		DefaultSandbox: p.spec.DefaultSandbox,
		RequireSandbox: p.spec.RequireSandbox,
	}
	p.user.runAs(&spec)
	return spec
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
	spec := p.probeSpec(probe)
	spec.Name = fmt.Sprintf("%s.probe%d", p.name, h.probes)
	watched, limit := h.watched, orDefault(probe.TimeoutMs, defaultProbeTime)
	self, root, m, s := ctx.Self(), ctx.ActorSystem().Root, probed{run: p.life.Run(), held: p.intake.HeldBack()}, p.env
	s.Run(root, self, "probe", func() {
		m.ours = errors.New("internal error")
		defer func() {
			h.probing.Store(false)
			root.Send(self, m)
		}()
		if probe.HTTP != "" {
			m.fault, m.ours = probeHTTP(watched, limit, probe.HTTP)
			return
		}
		m.fault, m.ours = runProbe(watched, s, limit, spec)
	})
}

// probeHTTP asks once whether a program answers at a URL. fault and ours are as for runProbe.
func probeHTTP(ctx context.Context, limit time.Duration, url string) (fault string, ours error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch err := httpLook(url)(ctx); {
	case err == nil:
		return "", nil
	case lacking(err):
		return "", err
	default:
		return err.Error(), nil
	}
}

// ofCommand reports whether an error of a start is the fault of the command.
func ofCommand(err error) bool {
	return !lacking(err) && slices.ContainsFunc(commandErrors, func(e error) bool { return errors.Is(err, e) })
}

// commandErrors are the errors of a start that are the fault of the command. All others are faults
// of the server: no descriptors, no room, no answer from a disk.
var commandErrors = []error{child.ErrArgument, child.ErrDir, child.ErrNoProgram, child.ErrPermission, child.ErrExecFormat, child.ErrLimitRefused, child.ErrSandbox, child.ErrSandboxPolicy, rules.ErrRefused}

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
