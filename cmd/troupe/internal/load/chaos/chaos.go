// Package chaos disturbs connections. A link lies between a client and its net.Conn. An Act is a disturbance: its kind, its time and its
// victim.
//
// The same chaos and seed give the same Acts. The machine decides when a message is on its way, so an Act may hit another message in the next run.
package chaos

import (
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// A Kind names a disturbance, as plan.Rate does. For the meanings see plan.Chaos.
type Kind string

const (
	FIN        Kind = "fin"
	RST        Kind = "rst"
	HalfOpen   Kind = "half-open"
	MidFrame   Kind = "mid-frame"
	Handshake  Kind = "handshake"
	Resume     Kind = "resume"
	Stall      Kind = "stall"
	Takeover   Kind = "takeover"
	Kill       Kind = "kill"
	Freeze     Kind = "freeze"
	Stop       Kind = "stop"
	KillServer Kind = "kill-server"
)

// An Act is a disturbance at a moment of the run.
type Act struct {
	At     time.Duration // since the begin of the run
	Kind   Kind
	Victim uint64 // the victim is Victim modulo the number of candidates
	Arg    uint64 // random bits for the details, such as the byte at which a frame is cut
}

// A source makes the acts of a kind. The acts come at independent random moments (a Poisson process).
type source struct {
	kind Kind
	rate float64 // each second
	rand *rand.Rand
	at   float64 // of the next act, in seconds
}

func (s *source) advance() { s.at += s.rand.ExpFloat64() / s.rate }

// maxAt is the largest time.Duration, in seconds.
const maxAt = math.MaxInt64 / float64(time.Second)

// Acts returns the acts of a run in their order, without end. The same chaos and seed give the same acts. Without chaos there are no acts.
// The acts of a kind do not depend on the rates of other kinds.
func Acts(c plan.Chaos, seed uint64) iter.Seq[Act] {
	return func(yield func(Act) bool) {
		var sources []*source
		for _, r := range c.Rates() {
			if !(*r.PerSecond > 0) {
				continue
			}
			name := fnv.New64a()
			name.Write([]byte(r.Name))
			s := &source{kind: Kind(r.Name), rate: *r.PerSecond, rand: rand.New(rand.NewPCG(seed, name.Sum64()))}
			s.advance()
			sources = append(sources, s)
		}
		for len(sources) > 0 {
			next := sources[0]
			for _, s := range sources[1:] {
				if s.at < next.at {
					next = s
				}
			}
			if !(next.at < maxAt) {
				return
			}
			at := time.Duration(next.at * float64(time.Second))
			if !yield(Act{At: at, Kind: next.kind, Victim: next.rand.Uint64(), Arg: next.rand.Uint64()}) {
				return
			}
			next.advance()
		}
	}
}
