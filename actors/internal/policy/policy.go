// Package policy checks the policies that clients send with a start: when to restart, and which
// environment a program gets. Restart policies become values of package supervision.
package policy

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"golang.org/x/sys/unix"
)

const (
	// maxRestarts bounds the restarts and exits that a process remembers.
	maxRestarts = 1000
	// maxGiveUp bounds the exit codes, and the signals, to which each exit is compared.
	maxGiveUp = 256
)

// ParseRestart returns a client's restart policy with the defaults of PROTOCOL.md. A nil r gives nil.
func ParseRestart(r *protocol.Restart) (*supervision.Restart, *protocol.Error) {
	if r == nil {
		return nil, nil
	}
	s := &supervision.Restart{
		Policy:  supervision.Policy(r.Policy),
		Backoff: supervision.Backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.2},
	}
	if b := r.Backoff; b != nil {
		if j := b.Jitter; j != nil && (*j < 0 || *j > 1) {
			return nil, protocol.WrongParams("restart.backoff.jitter is %v, expected 0 to 1", *j)
		}
		setMillis(&s.Backoff.Initial, b.InitialMs)
		s.Backoff.Max = max(s.Backoff.Max, s.Backoff.Initial)
		setMillis(&s.Backoff.Max, b.MaxMs)
		if b.Factor >= 1 {
			s.Backoff.Factor = b.Factor
		}
		if b.Jitter != nil {
			s.Backoff.Jitter = *b.Jitter
		}
	}
	var err *protocol.Error
	if s.Intensity, err = ParseIntensity("restart.intensity", r.Intensity); err != nil {
		return nil, err
	}
	if g := r.GiveUp; g != nil {
		if n := max(len(g.ExitCodes), len(g.Signals)); n > maxGiveUp {
			return nil, protocol.WrongParams("restart.giveUp has a list of %d entries, the limit is %d", n, maxGiveUp)
		}
		for _, name := range g.Signals {
			if unix.SignalNum(name) == 0 {
				return nil, protocol.WrongParams("restart.giveUp.signals has %q, expected names such as SIGSEGV", wireerr.Clip(name))
			}
		}
		if g.Count > maxRestarts {
			return nil, protocol.WrongParams("restart.giveUp.count is %d, the limit is %d", g.Count, maxRestarts)
		}
		s.GiveUp = supervision.Deaths{ExitCodes: g.ExitCodes, Signals: g.Signals, Count: int(g.Count), Period: protocol.FromMillis(g.PeriodMs)}
	}
	return s, nil
}

// ParseIntensity returns a client's intensity with the defaults of PROTOCOL.md: 5 restarts, in a minute. name is the path
// of the member in the request, for errors.
func ParseIntensity(name string, in *protocol.Intensity) (supervision.Intensity, *protocol.Error) {
	s := supervision.Intensity{Restarts: 5, Period: time.Minute}
	if in == nil {
		return s, nil
	}
	if n := in.Restarts; n != nil {
		if *n > maxRestarts {
			return supervision.Intensity{}, protocol.WrongParams("%s.restarts is %d, the limit is %d", name, *n, maxRestarts)
		}
		s.Restarts = int(*n)
	}
	setMillis(&s.Period, in.PeriodMs)
	return s, nil
}

// setMillis sets d to ms, unless the client has left ms out.
func setMillis(d *time.Duration, ms *uint64) {
	if ms != nil {
		*d = protocol.FromMillis(*ms)
	}
}
