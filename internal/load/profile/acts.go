package profile

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/b6f6fdd7/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

// act carries out an act of the chaos. act returns at once; acting counts the running acts.
func (p *process) act(a chaos.Act) {
	switch {
	case a.Kind == chaos.Kill:
		p.kill(result.Kills)
	case a.Kind == chaos.Freeze && !p.Session.Ours():
		p.Rec.LeftOut("freeze: this server has only the signal interrupt, so programs cannot be stopped")
	case a.Kind == chaos.Freeze:
		p.mu.Lock()
		frozen := p.freezing
		p.freezing = true
		run := uint64(p.has.Run)
		p.mu.Unlock()
		if !frozen {
			p.acting.Go(func() { p.freeze(run) })
		}
	}
}

// kill kills the program, and adds 1 to the counter name; "": to no counter.
func (p *process) kill(name string) {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	run := -1
	for now := p.checker.State().Run; now != run; now = p.checker.State().Run { // repeated if another run has begun meanwhile
		run = now
		p.expectKill()
	}
	p.acting.Go(func() {
		method, params := protocol.MethodProcessSignal, any(protocol.ProcessSignalParams{
			ProcessID: p.Name, Signal: protocol.SignalKill, OfRun: protocol.OfRun{Run: uint64(run)},
		})
		if !p.Session.Ours() {
			method, params = protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: p.Name}
		}
		switch err := p.call(method, params, nil); {
		case err == nil && name != "":
			p.Rec.Add(name, 1)
		case err != nil && !errors.Is(err, ErrLost):
			p.Rec.Error(err)
		}
	})
}

// expectKill tells all checkers that the present run may end at any place, with any exit.
func (p *process) expectKill() {
	p.checker.Killed()
	for _, w := range p.watchers {
		w.checker.Killed()
	}
}

// freeze stops a run of the program for a while.
func (p *process) freeze(run uint64) {
	signal := func(s protocol.Signal) error {
		return p.call(protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: p.Name, Signal: s, OfRun: protocol.OfRun{Run: run}}, nil)
	}
	stopped := signal(protocol.SignalStop)
	if stopped == nil {
		p.Rec.Add(result.Freezes, 1)
		timer := time.NewTimer(time.Duration(p.Plan.Chaos.StallFor))
		select {
		case <-timer.C:
		case <-p.closed:
			timer.Stop()
		}
	}
	errs := []error{stopped}
	if _, refused := errors.AsType[*protocol.Error](stopped); !refused {
		errs = append(errs, signal(protocol.SignalContinue)) // also without an answer: a stopped program cannot end
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrLost) {
			p.Rec.Error(err)
		}
	}
	p.mu.Lock()
	p.freezing = false
	p.mu.Unlock()
}

// leave leaves the session for a while.
func (p *process) leave(r *rand.Rand) {
	p.Session.Leave(minAway + time.Duration(r.Int64N(int64(maxAway-minAway))))
	p.Rec.Add(result.Operations, 1)
}
