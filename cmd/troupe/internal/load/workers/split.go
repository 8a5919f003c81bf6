// Package workers runs a load from several machines: a controller gives each worker its part of the plan, starts them together, follows them,
// and merges their results.
//
// Controller and worker speak over TLS. Each side proves that it knows the common secret. A worker runs everything its controller says.
package workers

import (
	"fmt"
	"slices"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// Split returns the parts of a plan for n workers. Each part has its share of the sessions, of the rates and of the chaos. Commands are
// shared even if there are fewer sessions than workers. Only the first worker gets the servers' pids and metrics, and the chaos that stops
// servers: the first worker must run on the machine of the servers.
func Split(p plan.Plan, n int) ([]plan.Plan, error) {
	whole, each := p.Sessions, p.Processes // whole: sessions, or else commands, to share out; each: processes in each of them
	byProcess := p.Command != nil && p.Sessions < n
	if byProcess {
		whole, each = p.Sessions*p.Processes, 1
	}
	if whole < n {
		what := "session"
		if p.Command != nil {
			what = "command"
		}
		if whole != 1 {
			what = show.Plural(what)
		}
		return nil, fmt.Errorf("%d %s cannot be shared by %d workers: choose at least one for each worker, or fewer workers", whole, what, n)
	}
	parts := make([]plan.Plan, n)
	for i, before := 0, 0; i < n; i++ {
		own := whole / n
		if i < whole%n {
			own++
		}
		share := float64(own) / float64(whole)
		part := p
		part.Worker, part.Seed = i+1, p.Seed+uint64(i)*0x9e3779b97f4a7c15 // the golden ratio: seeds far from each other
		if part.Sessions = own; byProcess {
			part.Sessions, part.Processes = 1, own
		}
		first := before % max(len(p.Servers), 1) // sessions are dealt to the servers in turn
		part.Servers = append(slices.Clone(p.Servers[first:]), p.Servers[:first]...)
		part.Phases = slices.Clone(p.Phases)
		for j := range part.Phases {
			part.Phases[j].Rate *= share
		}
		c := &part.Chaos
		for _, rate := range c.Rates() {
			if rate.PerSecond != &c.Stop {
				*rate.PerSecond *= share
			}
		}
		if p.Command != nil {
			command := *p.Command
			command.First = max(command.First, 1) + before*each
			part.Command = &command
		}
		if i > 0 {
			part.Metrics, part.PIDs, c.Stop = "", nil, 0
		}
		before += own
		parts[i] = part
	}
	return parts, nil
}
