package plan

import (
	"math/rand/v2"
	"slices"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Placement returns the wish of the plan for the server of a session. nil: nothing is wished.
func (p *Plan) Placement() (*protocol.Placement, error) { return spec.Placement(p.Labels, p.Node, "") }

// Deal returns the plans of the workers. Together they are the load of p: each worker has its part of the sessions, and the same part of all rates. The
// seed of p gives the seeds.
func (p *Plan) Deal() []Plan {
	seeds := rand.New(rand.NewPCG(p.Seed, 0xdea1))
	parts := make([]Plan, p.Workers)
	for i := range parts {
		part := *p
		part.Workers, part.Seed = 0, seeds.Uint64()
		part.Sessions = p.Sessions*(i+1)/p.Workers - p.Sessions*i/p.Workers
		share := float64(part.Sessions) / float64(p.Sessions)
		part.Phases = slices.Clone(p.Phases)
		for n := range part.Phases {
			part.Phases[n].Rate *= share
		}
		for _, rate := range part.Chaos.Rates() {
			*rate.PerSecond *= share
		}
		parts[i] = part
	}
	return parts
}
