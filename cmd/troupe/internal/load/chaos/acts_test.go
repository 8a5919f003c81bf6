package chaos

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// first returns the acts before a moment.
func first(c plan.Chaos, seed uint64, until time.Duration) (acts []Act) {
	for a := range Acts(c, seed) {
		if a.At >= until {
			break
		}
		acts = append(acts, a)
	}
	return acts
}

func TestActsAreRepeatable(t *testing.T) {
	all := plan.Chaos{FIN: 1, RST: 2, HalfOpen: 3, MidFrame: 4, Handshake: 5, Resume: 6, Stall: 7, Takeover: 8, Kill: 9, Freeze: 10, Stop: 11, KillServer: 12}
	acts := first(all, 7, time.Minute)
	if !slices.Equal(acts, first(all, 7, time.Minute)) {
		t.Error("the same chaos and seed have other acts")
	}
	if slices.Equal(acts, first(all, 8, time.Minute)) {
		t.Error("another seed has the same acts")
	}
	if !slices.IsSortedFunc(acts, func(a, b Act) int { return int(a.At - b.At) }) {
		t.Error("the acts are not in their order")
	}
	var killed []Act
	for _, a := range acts {
		if a.Kind == Kill {
			killed = append(killed, a)
		}
	}
	if !slices.Equal(killed, first(plan.Chaos{Kill: 9}, 7, time.Minute)) {
		t.Error("the acts of a kind depend on the other kinds")
	}
}

func TestRates(t *testing.T) {
	all := plan.Chaos{FIN: 1, RST: 2, HalfOpen: 3, MidFrame: 4, Handshake: 5, Resume: 6, Stall: 7, Takeover: 8, Kill: 9, Freeze: 10, Stop: 11, KillServer: 12}
	counts := make(map[Kind]int)
	const seconds = 1000
	for _, a := range first(all, 1, seconds*time.Second) {
		counts[a.Kind]++
	}
	for i, k := range []Kind{FIN, RST, HalfOpen, MidFrame, Handshake, Resume, Stall, Takeover, Kill, Freeze, Stop, KillServer} {
		want := float64(i+1) * seconds
		if off := math.Abs(float64(counts[k]) - want); off > 5*math.Sqrt(want) {
			t.Errorf("%s: %d acts, expected about %v", k, counts[k], want)
		}
	}
}

func TestNoActs(t *testing.T) {
	if acts := first(plan.Chaos{FIN: -1, RST: math.NaN(), Delay: 1}, 1, time.Hour); len(acts) > 0 {
		t.Errorf("without chaos there is %+v", acts[0])
	}
	if acts := first(plan.Chaos{Kill: 1e-300}, 1, math.MaxInt64); len(acts) > 0 {
		t.Errorf("an act at the end of time: %+v", acts[0])
	}
}
