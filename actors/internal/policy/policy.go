// Package policy turns the restart policies of the wire into those of package supervision.
package policy

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"golang.org/x/sys/unix"
)

// Restart is what a client asks for, with the defaults of PROTOCOL.md; nil for nil.
func Restart(r *protocol.Restart) (*supervision.Restart, *protocol.Error) {
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
	if s.Intensity, err = Intensity("restart.intensity", r.Intensity); err != nil {
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

// Intensity is what a client asks for, or 5 in a minute.
func Intensity(name string, in *protocol.Intensity) (supervision.Intensity, *protocol.Error) {
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
