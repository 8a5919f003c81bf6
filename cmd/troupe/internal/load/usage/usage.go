//go:build unix

// Package usage measures programs: this program, servers of this machine by their pids, and servers anywhere by their metrics.
package usage

import (
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// A Meter measures a program. CPU is over the time since the last Read, or since the Meter was made. One goroutine calls Read.
type Meter interface{ Read() (result.Usage, error) }

// Of returns the meters of the servers of p: of its PIDs, or else of its Metrics. A plan may have neither.
func Of(p *plan.Plan) (servers []Meter) {
	for _, pid := range p.PIDs {
		servers = append(servers, OfPID(pid))
	}
	if len(p.PIDs) == 0 && p.Metrics != "" {
		servers = append(servers, OfMetrics(p.Metrics))
	}
	return servers
}

// OfPID measures a process of this machine, without its children. Once the process has ended, each Read is an error. Files is 0 if this user
// may not count the descriptors of the process.
func OfPID(pid int) Meter { return ofPID(pid) }

// Own measures this process.
func Own() Meter { return own() }

// cpu turns the CPU time of a program into the cores that it has used since the last call.
type cpu struct {
	used time.Duration
	at   time.Time // zero: never read
}

// cores returns the cores in use since the last call: 0 for the first call, and if used went back since the program was started anew.
func (c *cpu) cores(used time.Duration, at time.Time) float64 {
	last := *c
	*c = cpu{used, at}
	if last.at.IsZero() || used < last.used || !at.After(last.at) {
		return 0
	}
	return float64(used-last.used) / float64(at.Sub(last.at))
}
