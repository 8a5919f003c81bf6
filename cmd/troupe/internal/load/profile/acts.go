//go:build unix

package profile

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

// act carries out an act of the chaos. act returns at once; acting counts the running acts.
func (p *process) act(a chaos.Act) {
	switch {
	case a.Kind == chaos.Kill:
		p.kill()
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

// kill kills the present run of the program.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	run := -1
	for now := p.checker.State().Run; now != run; now = p.checker.State().Run { // repeated if another run has begun meanwhile
		run = now
		p.expectKill()
	}
	p.acting.Go(func() {
		var killed bool
		var err error
		if p.Session.Ours() {
			killed, err = p.signal(protocol.SignalKill, uint64(run))
		} else {
			var answer protocol.ProcessTerminateResult
			err = p.call(protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: p.Name}, &answer)
			killed = answer.Running
		}
		switch {
		case err == nil && killed:
			p.Rec.Add(result.Kills, 1)
		case err != nil && !errors.Is(err, ErrLost):
			p.Rec.Error(err)
		}
	})
}

// signal sends a signal to a run of the program. applied is false if the process is at another run by now.
func (p *process) signal(s protocol.Signal, run uint64) (applied bool, err error) {
	var other protocol.OtherRun // stays zero if the signal was sent
	err = p.call(protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: p.Name, Signal: s, OfRun: protocol.OfRun{Run: run}}, &other)
	return err == nil && other.Run == 0, err
}

// expectKill tells all checkers that the present run may be killed.
func (p *process) expectKill() {
	p.checker.Killed()
	for _, w := range p.watchers {
		w.checker.Killed()
	}
}

// freeze stops a run of the program for a while.
func (p *process) freeze(run uint64) {
	frozen, stopped := p.signal(protocol.SignalStop, run)
	if frozen {
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
		_, err := p.signal(protocol.SignalContinue, run) // also without an answer: a stopped program cannot end
		errs = append(errs, err)
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
